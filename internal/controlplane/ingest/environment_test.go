package ingest_test

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// faultySource is a ListerWatcher with injectable failures.
type faultySource struct {
	*cachetesting.FakeControllerSource
	t       *testing.T
	mu      sync.Mutex
	failure error
	// watchFailure makes only watches fail.
	watchFailure error
	lists        int
	open         []watch.Interface
}

// newFaultySource returns a source of objects without a failure. It ends with the test.
func newFaultySource(t *testing.T, objects ...runtime.Object) *faultySource {
	t.Helper()
	f := &faultySource{t: t, FakeControllerSource: cachetesting.NewFakeControllerSource()}
	for _, object := range objects {
		f.Add(object)
	}
	t.Cleanup(f.Shutdown)
	return f
}

// fail makes lists and new watches fail and closes the open watches; nil ends the failure.
func (f *faultySource) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure = err
	for _, opened := range f.open {
		opened.Stop()
	}
	f.open = nil
}

// listCount returns the number of lists so far.
func (f *faultySource) listCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists
}

// ListWithContext implements cache.ListerWithContext. It fails the test if a real API server could answer with old
// objects: version 0 means any version, and pages are of exactly the given version
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list).
func (f *faultySource) ListWithContext(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.ResourceVersion == "0" || options.Limit != 0 {
		f.t.Errorf("list with resource version %q and limit %d", options.ResourceVersion, options.Limit)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	if f.failure != nil {
		return nil, f.failure
	}
	return f.List(options)
}

// WatchWithContext implements cache.WatcherWithContext.
func (f *faultySource) WatchWithContext(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := cmp.Or(f.failure, f.watchFailure); err != nil {
		return nil, err
	}
	opened, err := f.Watch(options)
	f.open = append(f.open, opened)
	return opened, err
}

// environment is a running Loop with its sources and a record of its publications and reports.
type environment struct {
	scaledObjects, services, slices *faultySource
	routes                          *faultySource            // InterceptorRoutes, nil for none
	replicas                        *faultySource            // nil for none
	pages                           map[string]*faultySource // by namespace and name, nil for none
	pagesRead                       []string                 // in order
	settings, global                *faultySource            // nil for none
	secrets                         *secretSources
	certificate                     *faultySource // nil for none
	hold                            translate.Hold
	setCertificate                  func(map[string][]byte) (string, error)
	resolve                         resolve.Options
	reads                           []string // the objects that were read again, in order
	failedReads                     int      // the number of further reads that fail
	loop                            *ingest.Loop
	registry                        *prometheus.Registry

	mu              sync.Mutex
	published       []time.Time
	fleets          map[model.Fleet]bool          // with a publication
	proxies         map[model.Fleet][]model.Proxy // the last call of Assign
	objects         map[model.Key]ingest.Object   // the last report of each
	last            ingest.Pass
	invalidFleets   int               // reported ones
	chains          map[string]string // the published certificates by host
	holdCluster     string            // the published cluster of calls of the interceptor
	refuse          error
	panicOnPublish  bool
	publishDuration time.Duration // of one publication
}

// Publish implements ingest.Publisher.
func (s *environment) Publish(fleet model.Fleet, update translate.Update, isWhole bool) error {
	s.recordSecrets(update.Changed, update.Removed, isWhole)
	s.recordHold(update.Changed)
	return s.record(fleet)
}

// Retire implements ingest.Publisher.
func (s *environment) Retire(fleet model.Fleet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.fleets, fleet)
}

// Assign implements ingest.Publisher.
func (s *environment) Assign(proxies map[model.Fleet][]model.Proxy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxies = proxies
}

// record records a publication, or returns the injected error.
func (s *environment) record(fleet model.Fleet) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.panicOnPublish {
		panic("a bug")
	}
	if s.refuse != nil {
		return s.refuse
	}
	s.published = append(s.published, time.Now())
	s.fleets[fleet] = true
	time.Sleep(s.publishDuration)
	return nil
}

// Observe implements ingest.Observer.
func (s *environment) Observe(pass ingest.Pass) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = pass
	s.invalidFleets += len(pass.InvalidFleets)
	for key, object := range pass.Objects {
		if s.objects[key] = object; object.ScaledObject == nil {
			delete(s.objects, key)
		}
	}
}

// publications returns the number of publications.
func (s *environment) publications() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.published)
}

// lastPass returns the last pass, with the last reported state of all objects.
func (s *environment) lastPass() ingest.Pass {
	s.mu.Lock()
	defer s.mu.Unlock()
	pass := s.last
	pass.Objects = maps.Clone(s.objects)
	return pass
}

// newEnvironment returns an environment that is not running, with one Service with one endpoint and one HTTPScaledObject, named
// shop.
func newEnvironment(t *testing.T) *environment {
	t.Helper()
	return &environment{
		scaledObjects: newFaultySource(t, shop()), services: newFaultySource(t, service("shop")),
		slices: newFaultySource(t, slice("shop", "10.0.0.1")),
	}
}

// run starts the Loop; it ends with the returned function.
func (s *environment) run(t *testing.T) (stop func()) {
	t.Helper()
	sources := ingest.Sources{
		ScaledObject:   s.readOne,
		ScaledObjects:  []cache.ListerWatcherWithContext{s.scaledObjects},
		Services:       []cache.ListerWatcherWithContext{s.services},
		EndpointSlices: []cache.ListerWatcherWithContext{s.slices},
	}
	if s.routes != nil {
		sources.InterceptorRoutes = []cache.ListerWatcherWithContext{s.routes}
		sources.InterceptorRoute = s.readOne
	}
	if s.replicas != nil {
		sources.Replicas = []cache.ListerWatcherWithContext{s.replicas}
	}
	if s.pages != nil {
		sources.Page = s.pageSource
	}
	if s.settings != nil {
		sources.Settings, sources.GlobalSettings = []cache.ListerWatcherWithContext{s.settings}, s.global
	}
	options := translate.DefaultOptions()
	options.Hold = s.hold
	if s.certificate != nil {
		sources.Certificate = s.certificate
	}
	if s.secrets != nil {
		sources.Secret, options.TLS = s.secrets.list, true
	}
	s.registry = prometheus.NewRegistry()
	loop, err := ingest.New(ingest.Options{
		Sources: sources, SetCertificate: s.setCertificate, Resolve: s.resolve, Translate: options, Publisher: s,
		Observers: []ingest.Observer{s}, Registerer: s.registry, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.loop, s.objects, s.fleets = loop, map[model.Key]ingest.Object{}, map[model.Fleet]bool{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- loop.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	}
}

// pageSource implements ingest.Sources.Page.
func (s *environment) pageSource(key model.Key) cache.ListerWatcherWithContext {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pagesRead = append(s.pagesRead, key.String())
	return s.pages[key.String()]
}

func shop() *httpv1alpha1.HTTPScaledObject {
	return kit.NewScaledObject("apps", "shop", "shop", 1, "shop.test")
}

func service(name string) *corev1.Service { return kit.NewService("apps", name) }

func slice(service string, addresses ...string) *discoveryv1.EndpointSlice {
	return kit.NewEndpointSlice("apps", service, addresses...)
}

// errNoCRD is the API server's error if the HTTPScaledObject CRD is missing.
func errNoCRD() error {
	return apierrors.NewNotFound(schema.GroupResource{Group: "http.keda.sh", Resource: "httpscaledobjects"}, "")
}
