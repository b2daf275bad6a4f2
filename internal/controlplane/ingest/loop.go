package ingest

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/observation"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// DefaultInterval is the longest pause between two passes when Options name none.
const DefaultInterval = 10 * time.Millisecond

// Publisher takes what the proxies are to serve.
type Publisher interface {
	// Publish changes what was published to a fleet before, all of it or, after an error, nothing. With isWhole, as the first time, what update has takes
	// the place of everything. It is called from one goroutine and does not wait for proxies.
	Publish(fleet model.Fleet, update translate.Update, isWhole bool) error
	// Retire forgets a fleet that has neither objects nor proxies any more.
	Retire(fleet model.Fleet)
	// Assign says which proxies there are, and to which fleet each belongs. What a fleet with proxies is to serve was published before. Nobody may change
	// proxies afterwards.
	Assign(proxies map[model.Fleet][]model.Proxy)
}

// Sources are where the objects come from: for each kind one list and watch per namespace, or one for all namespaces.
type Sources struct {
	// ScaledObjects, Services and EndpointSlices are what routing depends on. The proxies of fleets are in EndpointSlices too.
	ScaledObjects, Services, EndpointSlices []cache.ListerWatcherWithContext
	// Replicas are the EndpointSlices of the replicas of the interceptor. They are there for the Observers: nothing that is published depends on them or
	// waits for them.
	Replicas []cache.ListerWatcherWithContext
	// Pages are the ConfigMaps with waiting pages, those with waitingpage.Label. Nothing waits for them either, reports included. Without any the
	// interceptor shows its own page only.
	Pages []cache.ListerWatcherWithContext
	// Settings are the ConfigMaps envoysettings.Name, and GlobalSettings the one envoysettings.GlobalName. Whoever may not list them does without: then, or
	// without any of these, nothing of Envoy is changed.
	Settings       []cache.ListerWatcherWithContext
	GlobalSettings cache.ListerWatcherWithContext
	// Secret returns the list and watch of one Secret. It is called for those that objects name. nil stands for no TLS: none is read.
	Secret func(model.Key) cache.ListerWatcherWithContext
}

// Options are what a Loop works with. All fields but Interval, Resolve, Translate and Observers are required; the zero value of Translate allows no connections, see
// translate.DefaultOptions.
type Options struct {
	// Sources are where the objects come from.
	Sources Sources
	// Resolve are the choices that hold for every HTTPScaledObject.
	Resolve resolve.Options
	// Translate are the choices that hold for every proxy.
	Translate translate.Options
	// Publisher takes the resources.
	Publisher Publisher
	// Observers are told the outcome of every pass, one after the other.
	Observers []observation.Observer
	// Interval is the longest pause between two passes, in which changes are collected; DefaultInterval
	// if it is zero.
	Interval time.Duration
	// Registerer takes the metrics.
	Registerer prometheus.Registerer
	// Logger is told of failures.
	Logger *slog.Logger
}

// Loop is what turns objects into published resources. Make it with New and call Run once.
type Loop struct {
	resolve   resolve.Options
	translate translate.Options
	publisher Publisher
	observers []observation.Observer
	interval  time.Duration
	logger    *slog.Logger
	metrics   *metrics

	sources       []*source
	scaledObjects []*store[*httpv1alpha1.HTTPScaledObject]
	services      []*store[*resolve.Service]
	slices        []*store[*resolve.EndpointSlice]
	replicas      []*store[*discoveryv1.EndpointSlice]
	pages         []*store[pageObject]
	settings      []settingsStore

	changed  chan struct{} // holds one element when a store has changed since the last pass
	seeded   chan struct{} // closed after the first publication
	observed chan struct{} // closed after the first complete report
	index    *index        // of what is in force
	secrets  *secretWatches

	// What follows belongs to the goroutine of Run.
	resolver *resolve.Resolver // nil before the first publication and after one that failed
	objects  map[model.Key]*known // which are never changed
	// certificates knows what is in force for each host.
	certificates *certificates.Book
	// proxies are those of each fleet; the map is never changed. fleets are those to which something is
	// published, nil for one that is to be translated anew.
	proxies map[model.Fleet][]model.Proxy
	fleets  map[model.Fleet]*translate.Translator
	// tuned is what is known of settings of Envoy.
	tuned tuned
	// hasPages says that all pages were listed at the last pass.
	hasPages bool
}

// New returns a Loop. An error is about options.
func New(options Options) (*Loop, error) {
	if options.Publisher == nil || options.Registerer == nil || options.Logger == nil {
		return nil, errors.New("ingest: Publisher, Registerer and Logger are required")
	}
	counted, err := newMetrics(options.Registerer)
	if err != nil {
		return nil, err
	}
	l := &Loop{
		resolve:   options.Resolve,
		translate: options.Translate,
		publisher: options.Publisher,
		observers: options.Observers,
		interval:  options.Interval,
		logger:    options.Logger,
		metrics:   counted,
		changed:   make(chan struct{}, 1),
		seeded:    make(chan struct{}),
		observed:  make(chan struct{}),
		objects:   map[model.Key]*known{},
		fleets:    map[model.Fleet]*translate.Translator{},

		certificates: certificates.NewBook(), index: newIndex(),
	}
	if l.interval == 0 {
		l.interval = DefaultInterval
	}
	l.watch(options.Sources)
	return l, nil
}

// watch makes the stores and what fills them.
func (l *Loop) watch(sources Sources) {
	var known shared
	for _, lists := range sources.ScaledObjects {
		objects := newStore(known.reduceScaledObject, sameScaledObjectRouting, l.wake)
		objects.versionOf = (*httpv1alpha1.HTTPScaledObject).GetResourceVersion
		l.scaledObjects = append(l.scaledObjects, watchInto(l, toPublish, httpv1alpha1.Resource, lists, &httpv1alpha1.HTTPScaledObject{}, objects))
	}
	for _, lists := range sources.Services {
		objects := newStore(known.reduceService, (*resolve.Service).Equal, l.wake)
		l.services = append(l.services, watchInto(l, toPublish, "services", lists, &corev1.Service{}, objects))
	}
	for _, lists := range sources.EndpointSlices {
		objects := newStore(known.reduceEndpointSlice, (*resolve.EndpointSlice).Equal, l.wake)
		l.slices = append(l.slices, watchInto(l, toPublish, "endpointslices", lists, &discoveryv1.EndpointSlice{}, objects))
	}
	l.watchSettings(sources)
	l.watchSecrets(sources.Secret)
	for _, lists := range sources.Replicas {
		objects := newStore(reduceReplicas, sameReplicas, l.wake)
		l.replicas = append(l.replicas, watchInto(l, toReport, "endpointslices of replicas", lists, &discoveryv1.EndpointSlice{}, objects))
	}
	for _, lists := range sources.Pages {
		objects := newStore(reducePage, samePage, l.wake)
		l.pages = append(l.pages, watchInto(l, toNothing, "configmaps", lists, &corev1.ConfigMap{}, objects))
	}
}

// watchInto adds the source that fills objects, and returns objects.
func watchInto[T any](l *Loop, needed need, resource string, lists cache.ListerWatcherWithContext, example runtime.Object, objects *store[T]) *store[T] {
	l.sources = append(l.sources, &source{
		needed:   needed,
		resource: resource,
		lists:    lists,
		object:   example,
		store:    objects,
		isListed: objects.isListed,
		logger:   l.logger,
		failed:   l.metrics.watchErrors.WithLabelValues(resource).Inc,
	})
	return objects
}

// Seeded returns a channel that is closed after the first publication.
func (l *Loop) Seeded() <-chan struct{} { return l.seeded }

// Observed returns a channel that is closed after the first report of a publication for which everything was listed, what only the Observers need included.
func (l *Loop) Observed() <-chan struct{} { return l.observed }

// Waiting says what the first publication waits for, with remedies where there are some. It is empty when nothing is missing.
func (l *Loop) Waiting() []string {
	if l.isSeeded() {
		return nil
	}
	return append(l.missing(toPublish), l.secrets.waiting()...)
}

// missing says what was not listed yet of what is needed.
func (l *Loop) missing(needed need) []string {
	var missing []string
	for _, s := range l.sources {
		if text := s.waiting(); s.needed <= needed && text != "" {
			missing = append(missing, text)
		}
	}
	return missing
}

// Run watches, and passes over the objects at every change, until ctx ends. It returns nil after everything that it started has ended.
func (l *Loop) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	for _, s := range l.sources {
		group.Go(func() { s.run(ctx) })
	}
	l.wake()
	pace := newPace(l.interval)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.changed:
		}
		if !l.isSeeded() {
			l.secrets.want(ctx, l.namedSecrets(), group.Go)
			if len(l.Waiting()) > 0 {
				continue
			}
		}
		began := time.Now()
		l.pass(ctx)
		l.secrets.want(ctx, l.certificates.Wanted(), group.Go)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pace.after(began, time.Now())):
		}
	}
}

// wake makes Run look at the stores. It never blocks.
func (l *Loop) wake() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// pass brings what is published up to date with the stores, and reports.
func (l *Loop) pass(ctx context.Context) {
	started := time.Now()
	isComplete := len(l.missing(toReport)) == 0 // asked before the look, so that the report has what it says
	found := l.take()
	var changed map[model.Key]observation.Object
	if l.resolver == nil || found.matters {
		changed = l.publishAll(ctx, found)
		l.metrics.passes.Inc()
		l.metrics.passSeconds.Observe(time.Since(started).Seconds())
	} else {
		changed = l.tellNew(found, resolve.Outcome{}, nil)
	}
	pass := observation.Pass{Objects: changed, Proxies: l.proxies, Replicas: slices.Collect(maps.Values(merge(l.replicas)))}
	for _, observer := range l.observers {
		observer.Observe(pass)
	}
	if isComplete && l.isSeeded() && !isClosed(l.observed) {
		close(l.observed)
	}
}

// fail logs and counts a failure at a stage. What was published before stays in force.
func (l *Loop) fail(ctx context.Context, stage string, err error, attributes ...any) {
	l.metrics.failures.WithLabelValues(stage).Inc()
	l.logger.ErrorContext(ctx, "the last good configuration stays in force; this is a bug, please report it",
		append([]any{"stage", stage, "error", err}, attributes...)...)
}

// isSeeded says whether there was a publication.
func (l *Loop) isSeeded() bool { return isClosed(l.seeded) }

// isClosed says whether a channel on which nothing is sent is closed.
func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// merge returns the objects of several stores of one kind.
func merge[T any](stores []*store[T]) map[model.Key]T {
	all := map[model.Key]T{}
	for _, s := range stores {
		s.mu.Lock()
		maps.Copy(all, s.objects)
		s.mu.Unlock()
	}
	return all
}
