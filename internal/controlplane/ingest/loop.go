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
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// DefaultInterval is the maximum pause between two passes if Options.Interval is zero.
const DefaultInterval = 10 * time.Millisecond

// Publisher delivers resources to the proxies.
type Publisher interface {
	// Publish applies an update to the resources of a fleet, completely or, after an error, not at all. If isWhole is
	// true, as in the first call, the update replaces all resources of the fleet. The loop calls it from one
	// goroutine; it does not wait for proxies.
	Publish(fleet model.Fleet, update translate.Update, isWhole bool) error
	// Retire removes a fleet that has neither objects nor proxies.
	Retire(fleet model.Fleet)
	// Assign sets the proxies of every fleet. The resources of a fleet with proxies are published before. The map may
	// not be modified afterwards.
	Assign(proxies map[model.Fleet][]model.Proxy)
}

// Sources are the lists and watches: for each kind one per namespace, or one for all namespaces.
type Sources struct {
	// ScaledObject returns the list and watch of one HTTPScaledObject. It is called for objects that were above the bound
	// of memory of their namespace, and no longer are. nil means that there is no bound.
	ScaledObject func(model.Key) cache.ListerWatcherWithContext
	// InterceptorRoutes are the InterceptorRoutes, and InterceptorRoute is as ScaledObject for one of them. Their
	// CustomResourceDefinition may be missing; it may also be installed later.
	InterceptorRoutes []cache.ListerWatcherWithContext
	InterceptorRoute  func(model.Key) cache.ListerWatcherWithContext
	// ScaledObjects, Services and EndpointSlices are the kinds that routing depends on. EndpointSlices include those
	// of the proxies.
	ScaledObjects, Services, EndpointSlices []cache.ListerWatcherWithContext
	// Replicas are the EndpointSlices of the interceptor's replicas. Only Observers use them: no publication depends
	// on them or waits for them.
	Replicas []cache.ListerWatcherWithContext
	// Page returns the list and watch of one ConfigMap with a waiting page or with bodies of static responses, if it is
	// labeled with page.Label. It is called for each ConfigMap that an object names. The first publication waits for
	// those with bodies, and nothing for those with pages. nil disables them: the interceptor serves only its default
	// page.
	Page func(model.Key) cache.ListerWatcherWithContext
	// Settings are the ConfigMaps named envoysettings.Name, and GlobalSettings is the one named
	// envoysettings.GlobalName. Without permission to list them, or without sources, Envoy's defaults apply.
	Settings       []cache.ListerWatcherWithContext
	GlobalSettings cache.ListerWatcherWithContext
	// Certificate is the Secret with the interceptor's own certificate; nil disables it.
	Certificate cache.ListerWatcherWithContext
	// Secret returns the list and watch of one Secret. It is called for each Secret that an object names. nil
	// disables TLS: no Secret is read.
	Secret func(model.Key) cache.ListerWatcherWithContext
}

// Options configure a Loop. All fields except Interval, Resolve, Translate and Observers are required. The zero value
// of Translate allows no connections, see translate.DefaultOptions.
type Options struct {
	// Sources provide the objects.
	Sources Sources
	// Resolve are the options for all HTTPScaledObjects.
	Resolve resolve.Options
	// Translate are the options for all proxies.
	Translate translate.Options
	// Publisher receives the resources.
	Publisher Publisher
	// Observers receive the outcome of every pass, one after the other.
	Observers []Observer
	// SetCertificate replaces the interceptor's certificate by that in the data of a Secret. It returns the CAs that the
	// proxies must trust for their calls of the interceptor. Required with Sources.Certificate.
	SetCertificate func(data map[string][]byte) (ca string, err error)
	// Interval is the maximum pause between two passes, in which changes are batched. Zero means DefaultInterval.
	Interval time.Duration
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
	// Logger logs failures.
	Logger *slog.Logger
}

// translator is a *translate.Translator.
type translator interface {
	Update(update model.Update) (translate.Update, error)
	IsEmpty() bool
}

// Loop turns objects into published resources. Make it with New and call Run once.
type Loop struct {
	resolve   resolve.Options
	publisher Publisher
	observers []Observer
	interval  time.Duration
	logger    *slog.Logger
	metrics   *metrics
	// translate are the options of newTranslator and envoy, which translate changes and whole Configs.
	translate     translate.Options
	newTranslator func() (translator, error)
	envoy         func(model.Config) (translate.Resources, error)

	sources       []*source
	scaledObjects []*store[*httpv1alpha1.HTTPScaledObject]
	// interceptorRoutes have the converted InterceptorRoutes. Of an HTTPScaledObject and an InterceptorRoute with the same
	// namespace and name, the HTTPScaledObject is served.
	interceptorRoutes []*store[*httpv1alpha1.HTTPScaledObject]

	services []*store[*resolve.Service]
	slices   []*store[*resolve.EndpointSlice]
	replicas []*store[*discoveryv1.EndpointSlice]
	settings []settingsStore

	changed   chan struct{} // has one element if a store has changed since the last pass
	seeded    chan struct{} // closed after the first publication
	observed  chan struct{} // closed after the first complete report
	rereaders []*rereader   // one for each kind with a bound
	secrets   secretWatches
	own       ownCertificate
	pages     *namedWatches[waitingPage]

	// The following fields belong to the goroutine of Run.
	resolver *resolve.Resolver            // nil before the first publication and after a failed one
	objects  map[model.Key]*trackedObject // The values are immutable.
	// certificates tracks the active certificate of each host.
	certificates *certificates.Resolver
	// proxies are the current proxies of each fleet; the map is immutable. fleets are the published fleets. The value
	// is nil if the next pass has to rebuild the fleet.
	proxies map[model.Fleet][]model.Proxy
	fleets  map[model.Fleet]translator
	// quarantine are the objects whose current version fails.
	quarantine *quarantine
	// envoySettings are the settings of Envoy from ConfigMaps.
	envoySettings settingsState
	// viewers are the served objects that name a ConfigMap with a waiting page, by ConfigMap. isOtherViewers is true if
	// ConfigMaps were added or removed since pages was last updated.
	viewers        map[model.Key]map[model.Key]struct{}
	isOtherViewers bool
	// bodyViewers are the objects that name a ConfigMap with bodies of static responses, by ConfigMap. resolvedBodies are
	// the ConfigMaps that the resolver has received.
	bodyViewers    map[model.Key]map[model.Key]struct{}
	resolvedBodies map[model.Key]struct{}
}

// New returns a Loop, or an error if the options are incomplete or the metrics cannot be registered.
func New(options Options) (*Loop, error) {
	if options.Publisher == nil || options.Registerer == nil || options.Logger == nil {
		return nil, errors.New("ingest: Publisher, Registerer and Logger are required")
	}
	registered, err := newMetrics(options.Registerer)
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
		metrics:   registered,
		changed:   make(chan struct{}, 1),
		seeded:    make(chan struct{}),
		observed:  make(chan struct{}),
		objects:   map[model.Key]*trackedObject{},
		fleets:    map[model.Fleet]translator{},
		viewers:   map[model.Key]map[model.Key]struct{}{},

		bodyViewers: map[model.Key]map[model.Key]struct{}{}, resolvedBodies: map[model.Key]struct{}{},

		certificates: certificates.NewResolver(), quarantine: newQuarantine(),
	}
	l.newTranslator = func() (translator, error) { return translate.NewTranslator(l.translate) }
	l.envoy = func(config model.Config) (translate.Resources, error) { return l.translate.Envoy(config) }
	if l.interval == 0 {
		l.interval = DefaultInterval
	}
	l.own.set = options.SetCertificate
	l.watch(options.Sources)
	return l, nil
}

// watch creates the stores and their sources.
func (l *Loop) watch(sources Sources) {
	var pools interner
	maxBytes := l.resolve.MaxObjectBytes()
	if sources.ScaledObject == nil {
		maxBytes = 0
	}
	for _, listWatch := range sources.ScaledObjects {
		objects := newStore(pools.reduceScaledObject, isSameScaledObjectRouting, l.wake)
		objects.versionOf = (*httpv1alpha1.HTTPScaledObject).GetResourceVersion
		objects.budget = newBudget(maxBytes)
		l.scaledObjects = append(l.scaledObjects,
			watchInto(l, gatePublication, httpv1alpha1.Resource, listWatch, &httpv1alpha1.HTTPScaledObject{}, objects))
	}
	if maxBytes > 0 {
		l.watchStubs(httpv1alpha1.Resource, l.scaledObjects, sources.ScaledObject)
	}
	l.watchInterceptorRoutes(sources, &pools)
	for _, listWatch := range sources.Services {
		objects := newStore(pools.reduceService, (*resolve.Service).Equal, l.wake)
		l.services = append(l.services, watchInto(l, gatePublication, "services", listWatch, &corev1.Service{}, objects))
	}
	for _, listWatch := range sources.EndpointSlices {
		objects := newStore(pools.reduceEndpointSlice, (*resolve.EndpointSlice).Equal, l.wake)
		l.slices = append(l.slices,
			watchInto(l, gatePublication, "endpointslices", listWatch, &discoveryv1.EndpointSlice{}, objects))
	}
	l.watchSettings(sources)
	l.watchSecrets(sources.Secret)
	l.watchCertificate(sources.Certificate)
	for _, listWatch := range sources.Replicas {
		objects := newStore(reduceReplicas, isSameReplicas, l.wake)
		l.replicas = append(l.replicas,
			watchInto(l, gateReport, "endpointslices of replicas", listWatch, &discoveryv1.EndpointSlice{}, objects))
	}
	l.watchPages(sources.Page)
}

// watchInto adds a source that fills a store, and returns the store.
func watchInto[T any](
	l *Loop, gate gate, resource string, listWatch cache.ListerWatcherWithContext, example runtime.Object,
	objects *store[T],
) *store[T] {
	l.sources = append(l.sources, &source{
		gate:         gate,
		resource:     resource,
		listWatch:    listWatch,
		object:       example,
		store:        objects,
		isListed:     objects.isListed,
		logger:       l.logger,
		countFailure: l.metrics.watchErrors.WithLabelValues(resource).Inc,
	})
	return objects
}

// Seeded returns a channel that is closed after the first publication.
func (l *Loop) Seeded() <-chan struct{} { return l.seeded }

// Observed returns a channel that is closed after the first report of a complete publication: every kind was listed,
// including those that only Observers need.
func (l *Loop) Observed() <-chan struct{} { return l.observed }

// Waiting returns what the first publication waits for, with the fix if there is one. It is empty after the
// publication.
func (l *Loop) Waiting() []string {
	if l.isSeeded() {
		return nil
	}
	return slices.Concat(l.pending(gatePublication), l.secrets.pending(), l.pendingBodies())
}

// pending returns a message for each source of the gate, and of earlier gates, whose first list is missing.
func (l *Loop) pending(gate gate) []string {
	var missing []string
	for _, s := range l.sources {
		if text := s.pending(); s.gate <= gate && text != "" {
			missing = append(missing, text)
		}
	}
	return missing
}

// Run watches the sources and runs a pass after every change until ctx ends. It returns nil after all its goroutines
// have ended.
func (l *Loop) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	for _, s := range l.sources {
		group.Go(func() { s.run(ctx) })
	}
	for _, r := range l.rereaders {
		group.Go(func() { r.run(ctx) })
	}
	l.wake()
	pace := newPace(l.interval)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.changed:
		case <-l.nextTry():
		}
		if !l.isSeeded() {
			l.secrets.setWatched(ctx, l.referencedSecrets(), group.Go)
			l.watchReferencedBodies(ctx, group.Go)
			if len(l.Waiting()) > 0 {
				continue
			}
		}
		started := time.Now()
		l.pass(ctx)
		l.secrets.setWatched(ctx, l.certificates.ReferencedSecrets(), group.Go)
		l.setWatchedPages(ctx, group.Go)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(l.pauseAfter(pace, started, time.Now())):
		}
	}
}

// nextTry returns a channel that receives when an object in quarantine can be tried again, nil if there is none.
func (l *Loop) nextTry() <-chan time.Time {
	if next, exists := l.quarantine.nextTry(); exists && l.isSeeded() {
		return time.After(time.Until(next))
	}
	return nil
}

// pauseAfter returns the pause after a pass. A pass that publishes all fleets because of a failure has no maximum.
func (l *Loop) pauseAfter(pace *pace, started, ended time.Time) time.Duration {
	pause := pace.pauseAfter(started, ended)
	if l.resolver == nil {
		pause = max(pause, idleFactor*ended.Sub(started))
	}
	return pause
}

// wake triggers a pass. It never blocks.
func (l *Loop) wake() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// pass publishes the changes in the stores and notifies the Observers.
func (l *Loop) pass(ctx context.Context) {
	started := time.Now()
	isComplete := len(l.pending(gateReport)) == 0 // before takeChanges, so that the report contains these lists
	l.takeCertificate(ctx)
	changes := l.takeChanges()
	var changed map[model.Key]Object
	if l.resolver == nil || changes.affectsRouting || l.quarantine.isDue() {
		changed = l.publishChanges(ctx, changes)
		l.metrics.passes.Inc()
		l.metrics.passSeconds.Observe(time.Since(started).Seconds())
	} else {
		changed = l.updateChanged(ctx, changes, resolve.Outcome{}, nil)
	}
	pass := Pass{
		Objects: changed, Proxies: l.proxies, Replicas: slices.Collect(maps.Values(merge(l.replicas))),
		InvalidFleets: changes.invalidFleets, Started: started, Published: time.Now(),
	}
	for _, service := range changes.invalidFleets {
		l.logger.WarnContext(ctx, "invalid setting of a fleet", "service", service.Key, "problem", service.Fleet.Problem())
	}
	for _, observer := range l.observers {
		l.observe(ctx, observer, pass)
	}
	l.metrics.quarantined.Set(float64(len(l.quarantine.objects)))
	if isComplete && l.isSeeded() && !isClosed(l.observed) {
		close(l.observed)
	}
}

// reportFailure logs and counts a failure at a stage. The previous configuration stays active.
func (l *Loop) reportFailure(ctx context.Context, stage string, err error, attributes ...any) {
	l.reportFailureAt(ctx, slog.LevelError, stage, err, attributes...)
}

// reportFailureAt is reportFailure at a level of the log.
func (l *Loop) reportFailureAt(ctx context.Context, level slog.Level, stage string, err error, attributes ...any) {
	l.metrics.failures.WithLabelValues(stage).Inc()
	attributes = append([]any{"stage", stage, "error", err}, attributes...)
	if panicked, isPanic := errors.AsType[*server.PanicError](err); isPanic {
		attributes = append(attributes, "stack", string(panicked.Stack))
	}
	l.logger.Log(ctx, level, "publish failed, keeping the last good configuration: please report this bug", attributes...)
}

// isSeeded reports whether the first publication has succeeded.
func (l *Loop) isSeeded() bool { return isClosed(l.seeded) }

// isClosed reports whether a channel that carries no values is closed.
func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}
