package status

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/observation"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// pollPace is the shortest time between two looks at what the proxies confirmed.
	pollPace = 5 * time.Millisecond
	// idleShare is how many times as long as the last look took nothing is looked at, so that a large
	// fleet costs at most a fifth of one processor.
	idleShare = 4
)

// Source is what the discovery server knows.
type Source interface {
	// Poll returns every connected proxy. There is one who polls, and what is returned is good until the
	// next Poll.
	Poll() []Stream
	// Versions returns what is published now. It is called often, and does not wait for a proxy.
	Versions() Versions
	// Changed signals that Poll may return something else than before. There is one reader.
	Changed() <-chan struct{}
}

// Options are what a Reporting works with. All fields are required.
type Options struct {
	// Client writes.
	Client Client
	// Source knows what the proxies confirmed.
	Source Source
	// Elect takes part in elections of the replica that writes until ctx ends. While this replica is
	// elected, lead runs; its context ends when that is over.
	Elect func(ctx context.Context, lead func(ctx context.Context)) error
	// Replica is the name of this replica, by which those who elect and the others know it: that of its Pod.
	Replica string
	// Registerer takes the metrics.
	Registerer prometheus.Registerer
	// Logger is told of failures.
	Logger *slog.Logger
}

// Reporting is all that one replica does to report, see the documentation of the package. Make it with
// New.
type Reporting struct {
	writer    *writer
	announced chan *eventsv1.Event // holds what is not written yet

	looking sync.Mutex // guards tracker
	tracker *AckTracker

	mu sync.Mutex
	// told are the Announcements of the stretch of announceEvery that began at a time.
	told    map[telling]struct{}
	stretch time.Time
	// unread are the passes that look has not read yet, all together, and versions what was
	// published with the last of them; nil when there is none.
	unread   observation.Pass
	versions Versions
	reported chan struct{} // holds one element when there is one
}

// New returns a Reporting. An error is that of the registerer, when a metric is there already.
func New(options Options) (*Reporting, error) {
	w := &writer{Options: options, own: peers.NewServer(), objects: map[model.Key]*tracked{}}
	w.peers = peers.NewPeers(options.Logger, w.reconsider)
	var err error
	if w.writes, err = newMetrics(options.Registerer, w); err != nil {
		return nil, err
	}
	return &Reporting{
		writer: w, announced: make(chan *eventsv1.Event, announceQueue), tracker: NewAckTracker(), reported: make(chan struct{}, 1),
	}, nil
}

// Register adds what the other replicas ask this one to a gRPC server.
func (r *Reporting) Register(registrar grpc.ServiceRegistrar) { r.writer.own.Register(registrar) }

// Observe is observation.Observer's.
func (r *Reporting) Observe(pass observation.Pass) {
	versions := r.writer.Source.Versions()
	r.mu.Lock()
	objects := r.unread.Objects
	if objects == nil {
		objects = make(map[model.Key]observation.Object, len(pass.Objects))
	}
	maps.Copy(objects, pass.Objects)
	r.unread, r.versions = pass, versions
	r.unread.Objects = objects
	r.mu.Unlock()
	select {
	case r.reported <- struct{}{}:
	default:
	}
}

// Run reports until ctx ends. It takes part in elections once observed is closed, which says that
// everything that reports are made of was read: to hold the Lease is to vouch for the reports. An error
// is Elect's.
func (r *Reporting) Run(ctx context.Context, observed <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { r.follow(ctx) })
	running.Go(func() { r.writeAnnounced(ctx) })
	select {
	case <-ctx.Done():
		return nil
	case <-observed:
	}
	r.look()
	return r.writer.Elect(ctx, r.writer.run)
}

// follow keeps up with the reports and the proxies until ctx ends: the first news at once, others not
// before their pause.
func (r *Reporting) follow(ctx context.Context) {
	defer r.writer.own.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.reported:
		case <-r.writer.Source.Changed():
		}
		began := time.Now()
		r.look()
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(pollPace, idleShare*time.Since(began))):
		}
	}
}

// look brings what is known of this replica's proxies up to date with what is published.
func (r *Reporting) look() {
	r.looking.Lock()
	defer r.looking.Unlock()
	r.mu.Lock()
	pass, versions := r.unread, r.versions
	r.unread, r.versions = observation.Pass{}, nil
	r.mu.Unlock()
	if versions != nil {
		publications := make(map[model.Key]Publication, len(pass.Objects))
		for key, object := range pass.Objects {
			publications[key] = PublicationOf(object.InForce)
		}
		r.tracker.Record(publications, versions)
		r.writer.own.Admit(pass.Replicas)
		r.writer.peers.Follow(peers.Others(pass.Replicas, r.writer.Replica))
		r.writer.assign(pass, publications)
	}
	r.writer.reconsider(r.writer.own.Apply(r.tracker.Look(r.writer.Source.Poll())))
}
