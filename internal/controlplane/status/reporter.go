package status

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// pollPause is the shortest time between two polls of the proxies.
	pollPause = 5 * time.Millisecond
	// idleShare is the pause after a poll as a multiple of the poll's duration, so that polling a large fleet uses at
	// most a fifth of one processor.
	idleShare = 4
)

// Source is the state of the discovery server.
type Source interface {
	// Poll returns the streams of all connected proxies. It has one caller, and its result is valid until the next
	// call.
	Poll() []Stream
	// Versions returns the versions that are published now. It is called often, and doesn't wait for a proxy.
	Versions() Versions
	// Changed signals that the result of Poll may have changed. It has one reader.
	Changed() <-chan struct{}
}

// Options are the dependencies of a Reporter. All fields except PeerCredentials, IsReplica, Demand and TraceWeight are
// required.
type Options struct {
	// Client writes statuses and Events.
	Client Client
	// Source returns the ACKs of the proxies of this replica.
	Source Source
	// Elect takes part in the election of the replica that writes until ctx ends, and calls lead while this replica is
	// the leader. The context of lead ends with the leadership.
	Elect func(ctx context.Context, lead func(ctx context.Context)) error
	// Replica is the name of this replica's Pod. It is the identity in elections and in reports.
	Replica string
	// PeerCredentials are the credentials of connections to other replicas; nil means connections without TLS. IsReplica
	// reports whether the caller of this replica has proven that it is one; nil requires no proof.
	PeerCredentials credentials.TransportCredentials
	IsReplica       func(ctx context.Context) bool
	// Demand is the source of the counts for other replicas, nil for none.
	Demand peers.DemandSource
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
	// Logger receives failures.
	Logger *slog.Logger
	// TraceWeight receives each weight that this replica has followed as the leader. It must not block. nil means that
	// weights are not traced.
	TraceWeight func(Weight)
}

// Reporter reports on HTTPScaledObjects for one replica, see the documentation of the package. Call New to create one.
type Reporter struct {
	writer *writer
	events chan *eventsv1.Event // Events of EmitEvent that aren't written yet

	syncing sync.Mutex // guards tracker
	tracker *AckTracker

	mu sync.Mutex
	// emitted are the Events of EmitEvent in the epoch, a period of eventPeriod that began at that time.
	emitted map[eventKey]struct{}
	epoch   time.Time
	// unread are the passes that sync has not read yet, merged into one. versions are the published versions at the
	// last of them, nil if there is none.
	unread   ingest.Pass
	versions Versions
	observed chan struct{} // holds an element if there is an unread pass
}

// New returns a Reporter. An error means that a metric of the same name is already registered.
func New(options Options) (*Reporter, error) {
	w := &writer{Options: options, own: peers.NewServer(options.IsReplica, options.Demand), objects: map[model.Key]*tracked{}}
	w.peers = peers.NewPeers(options.Logger, options.PeerCredentials, w.enqueueChanged)
	var err error
	if w.writes, err = newMetrics(options.Registerer, w); err != nil {
		return nil, err
	}
	return &Reporter{
		writer: w, events: make(chan *eventsv1.Event, eventQueue), tracker: NewAckTracker(),
		observed: make(chan struct{}, 1),
	}, nil
}

// Register adds the service that other replicas call to a gRPC server.
func (r *Reporter) Register(registrar grpc.ServiceRegistrar) { r.writer.own.Register(registrar) }

// WatchDemand calls receive with the reports of another replica until ctx ends or the stream fails.
func (r *Reporter) WatchDemand(ctx context.Context, replica endpoints.Pod, receive func(metrics.Report)) error {
	return r.writer.peers.WatchDemand(ctx, replica, receive)
}

// IsReplica reports whether an address is that of a replica of the interceptor.
func (r *Reporter) IsReplica(address netip.Addr) bool { return r.writer.own.IsAdmitted(address) }

// Observe implements ingest.Observer.
func (r *Reporter) Observe(pass ingest.Pass) {
	versions := r.writer.Source.Versions()
	r.emitInvalidFleets(pass.InvalidFleets)
	r.mu.Lock()
	objects := r.unread.Objects
	if objects == nil {
		objects = make(map[model.Key]ingest.Object, len(pass.Objects))
	}
	maps.Copy(objects, pass.Objects)
	r.unread, r.versions = pass, versions
	r.unread.Objects = objects
	r.mu.Unlock()
	select {
	case r.observed <- struct{}{}:
	default:
	}
}

// Run reports until ctx ends. It takes part in elections after observed is closed: the leader must have complete data.
// An error is that of Elect.
func (r *Reporter) Run(ctx context.Context, observed <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { r.follow(ctx) })
	running.Go(func() { r.writeEvents(ctx) })
	select {
	case <-ctx.Done():
		return nil
	case <-observed:
	}
	r.sync()
	return r.writer.Elect(ctx, r.writer.lead)
}

// follow syncs after each change of the objects or the proxies until ctx ends: immediately after the first change, and
// after a pause if changes are frequent.
func (r *Reporter) follow(ctx context.Context) {
	defer r.writer.own.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.observed:
		case <-r.writer.Source.Changed():
		}
		began := time.Now()
		r.sync()
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(pollPause, idleShare*time.Since(began))):
		}
	}
}

// sync compares the ACKs of this replica's proxies with the publications, and queues the objects that have changed.
func (r *Reporter) sync() {
	r.syncing.Lock()
	defer r.syncing.Unlock()
	r.mu.Lock()
	pass, versions := r.unread, r.versions
	r.unread, r.versions = ingest.Pass{}, nil
	r.mu.Unlock()
	if versions != nil {
		publications := r.publicationsOf(pass.Objects)
		r.tracker.Record(publications, versions)
		r.writer.own.Admit(pass.Replicas)
		r.writer.peers.Follow(peers.Others(pass.Replicas, r.writer.Replica))
		r.writer.update(pass, publications)
	}
	r.writer.enqueueChanged(r.writer.own.Apply(r.tracker.Changes(r.writer.Source.Poll())))
}

// publicationsOf returns the Publications of objects. It removes an object that panics from objects, so that it keeps
// its last report.
func (r *Reporter) publicationsOf(objects map[model.Key]ingest.Object) map[model.Key]Publication {
	publications := make(map[model.Key]Publication, len(objects))
	for key, object := range objects {
		if err := server.Recovered(func() error {
			publications[key] = PublicationOf(object.Published)
			return nil
		}); err != nil {
			delete(objects, key)
			r.writer.Logger.Error("an object is not reported: please report this bug", "error", err, "httpScaledObject", key)
		}
	}
	return publications
}
