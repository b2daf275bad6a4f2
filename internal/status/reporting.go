package status

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// Report is what one pass over the HTTPScaledObjects found out.
type Report struct {
	// Objects are those of which anything is new since the report before.
	Objects map[ir.Key]Object
	// Publication numbers what is published, from 1: with equal numbers Objects differ from before in what is not published at most.
	Publication uint64
	// Proxies are the Pods of all proxies.
	Proxies []*corev1.Pod
	// Replicas are the EndpointSlices of the Service that all replicas of the interceptor are behind.
	Replicas []*discoveryv1.EndpointSlice
}

// Object is what was found out about one HTTPScaledObject.
type Object struct {
	// ScaledObject is the object as it is now, nil when it is gone.
	ScaledObject *httpv1alpha1.HTTPScaledObject
	// Observation is what was found out.
	Observation Observation
	// InForce is what is published of it.
	InForce ir.Config
}

// Elector chooses one of several replicas.
type Elector interface {
	// Run takes part in elections until ctx ends. While this replica is elected, lead runs; its context ends when that is over.
	Run(ctx context.Context, lead func(ctx context.Context)) error
}

// Options are what a Reporting works with. All fields but SharedFleet are required.
type Options struct {
	// Client writes.
	Client Client
	// Source knows what the proxies confirmed.
	Source Source
	// Elector chooses the replica that writes.
	Elector Elector
	// Replica is the name of this replica, by which the Elector and the others know it: that of its Pod.
	Replica string
	// SharedFleet says that every proxy serves every namespace; see Fleet.
	SharedFleet bool
	// Now is the clock.
	Now func() time.Time
	// Registerer takes the metrics.
	Registerer prometheus.Registerer
	// Logger is told of failures.
	Logger *slog.Logger
}

// Reporting is all that one replica does to report: it keeps account of its own proxies, tells the other replicas and, while it is elected, asks them and
// writes. Make it with New.
type Reporting struct {
	tally       *tally
	peers       *peers
	writer      *writer
	elector     Elector
	replica     string
	sharedFleet bool

	// What follows belongs to the goroutine that calls Report.
	publication uint64
	scopes      scopes
}

// New returns a Reporting. An error is that of the registerer, when a metric is there already.
func New(options Options) (*Reporting, error) {
	counted, err := newMetrics(options.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register status metrics: %w", err)
	}
	r := &Reporting{elector: options.Elector, replica: options.Replica, sharedFleet: options.SharedFleet, scopes: newScopes()}
	r.writer = newWriter(options, counted)
	r.writer.acks = r.acks
	r.tally = newTally(options.Replica, options.Source, options.Now, r.writer.wake)
	r.peers = newPeers(options.Logger, counted.unreachable, r.writer.wake)
	return r, nil
}

// Report takes note of the outcome of a pass and returns at once. It is called from one goroutine, after each publication and before the next. Nobody may
// change report afterwards.
func (r *Reporting) Report(report Report) {
	var parts map[ir.Key]Part
	if report.Publication != r.publication || r.publication == 0 {
		concerned := r.scopes.follow(report.Objects)
		parts = make(map[ir.Key]Part, len(concerned))
		for key, config := range concerned {
			parts[key] = PartOf(config, r.tally.source.Version)
		}
		r.tally.record(parts)
		r.publication = report.Publication
	}
	r.peers.follow(OtherReplicas(report.Replicas, r.replica))
	r.writer.assign(report.Objects, parts, Fleet{Proxies: ReadyProxies(report.Proxies), Shared: r.sharedFleet})
}

// Handler serves Acks, see AcksPath.
func (r *Reporting) Handler() http.Handler { return r.tally }

// Run reports until ctx ends. It takes part in elections once observed is closed, which says that everything that reports are made of was read: to hold the
// Lease is to vouch for the reports. An error is the Elector's.
func (r *Reporting) Run(ctx context.Context, observed <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { r.tally.run(ctx) })
	select {
	case <-ctx.Done():
		return nil
	case <-observed:
	}
	return r.elector.Run(ctx, r.lead)
}

// lead is what the elected replica does beside.
func (r *Reporting) lead(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { r.peers.run(ctx) })
	r.writer.run(ctx)
}

// acks are what the proxies of this replica and of the others have taken, and which objects that is new for since it was last called.
func (r *Reporting) acks() ([]Acks, standings) {
	others, areNew := r.peers.acks()
	own, news := r.tally.latest()
	news.everything = news.everything || areNew
	return append(others, own), news
}
