package ingest

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// poisonPort is the endpoint with which a translation panics.
const poisonPort = 6666

// checkPoison panics if a Config contains a poisonous host or endpoint.
func checkPoison(config model.Config) {
	for _, route := range config.Routes {
		if strings.HasPrefix(string(route.Match.Host), "poison") {
			panic("poisonous host of " + route.Owner.Name)
		}
		for _, port := range route.Destinations() {
			for _, at := range config.Services[port].Ready {
				if at.Port() == poisonPort {
					panic("poisonous endpoint of " + route.Owner.Name)
				}
			}
		}
	}
}

// poisonousTranslator panics for poison.
type poisonousTranslator struct{ *translate.Translator }

func (t poisonousTranslator) Update(update model.Update) (translate.Update, error) {
	for _, config := range update.Objects {
		checkPoison(config)
	}
	return t.Translator.Update(update)
}

// poisoned is a Loop whose translation panics for poison. It has no goroutines: the test calls pass.
type poisoned struct {
	*Loop

	t       *testing.T
	updates []string // what was published since the last call of published
	objects map[model.Key]Object
	// panics are the names of objects with which the Observer panics.
	panics map[string]bool
	log    *strings.Builder
}

// newPoisoned returns a Loop without objects.
func newPoisoned(t *testing.T) *poisoned {
	t.Helper()
	s := &poisoned{t: t, objects: map[model.Key]Object{}, panics: map[string]bool{}, log: new(strings.Builder)}
	loop, err := New(Options{
		Resolve: resolve.Options{SharedFleet: "keda"}, Publisher: s, Observers: []Observer{s}, Translate: translate.DefaultOptions(), Registerer: prometheus.NewRegistry(),
		Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	var pools interner
	loop.scaledObjects = append(loop.scaledObjects,
		newStore(pools.reduceScaledObject, isSameScaledObjectRouting, loop.wake))
	loop.scaledObjects[0].versionOf = (*httpv1alpha1.HTTPScaledObject).GetResourceVersion
	loop.services = append(loop.services, newStore(pools.reduceService, isEqual, loop.wake))
	loop.slices = append(loop.slices, newStore(pools.reduceEndpointSlice, isEqual, loop.wake))
	loop.newTranslator = func() (translator, error) {
		created, err := translate.NewTranslator(loop.translate)
		return poisonousTranslator{created}, err
	}
	loop.envoy = func(config model.Config) (translate.Resources, error) {
		checkPoison(config)
		return loop.translate.Envoy(config)
	}
	s.Loop = loop
	return s
}

// isEqual compares values that have a method Equal.
func isEqual[T interface{ Equal(other T) bool }](one, other T) bool { return one.Equal(other) }

// Publish implements Publisher: it records the names of the changed scopes.
func (s *poisoned) Publish(_ model.Fleet, update translate.Update, isWhole bool) error {
	for typeURL, resources := range update.Changed {
		if !strings.HasSuffix(typeURL, "ScopedRouteConfiguration") {
			continue
		}
		for name := range resources {
			if isWhole {
				name += " (all)"
			}
			s.updates = append(s.updates, name)
		}
	}
	return nil
}

// Retire and Assign implement Publisher.
func (s *poisoned) Retire(model.Fleet)                   {}
func (s *poisoned) Assign(map[model.Fleet][]model.Proxy) {}

// Observe implements Observer.
func (s *poisoned) Observe(pass Pass) {
	for _, key := range slices.SortedFunc(maps.Keys(pass.Objects), model.Key.Compare) {
		if s.panics[key.Name] {
			panic("observing " + key.Name)
		}
		s.objects[key] = pass.Objects[key]
	}
}

// set stores an object of the shared fleet, with a namespace, a Service and an endpoint of its own.
func (s *poisoned) set(name, host string, endpoint netip.AddrPort) {
	s.t.Helper()
	object := kit.WithAnnotation(kit.NewScaledObject("ns-"+name, name, name, 1, host), httpv1alpha1.AnnotationFleet,
		httpv1alpha1.FleetShared)
	object.ResourceVersion = host
	slice := kit.NewEndpointSlice("ns-"+name, name, endpoint.Addr().String())
	slice.Ports[0].Port = new(int32(endpoint.Port()))
	s.store(object, kit.NewService("ns-"+name, name), slice)
}

// store stores objects.
func (s *poisoned) store(object *httpv1alpha1.HTTPScaledObject, service *corev1.Service, slice *discoveryv1.EndpointSlice) {
	s.t.Helper()
	err := errors.Join(s.scaledObjects[0].Add(object), s.services[0].Add(service), s.slices[0].Add(slice))
	if err != nil {
		s.t.Fatal(err)
	}
}

// expect runs a pass and compares the hosts that are served afterwards, by object, and the objects in quarantine.
func (s *poisoned) expect(when string, hosts map[string]string, quarantined ...string) {
	s.t.Helper()
	s.pass(context.Background())
	served := map[string]string{}
	for key, object := range s.objects {
		for _, route := range object.Published.Routes {
			served[key.Name] = string(route.Match.Host)
		}
	}
	if diff := cmp.Diff(hosts, served); diff != "" {
		s.t.Errorf("%s: served hosts (-want +got):\n%s", when, diff)
	}
	var names []string
	for key := range s.quarantine.objects {
		names = append(names, key.Name)
		if s.objects[key].Outcome.Failure == "" {
			s.t.Errorf("%s: %s has no failure", when, key)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff(quarantined, names); diff != "" {
		s.t.Errorf("%s: objects in quarantine (-want +got):\n%s", when, diff)
	}
	if gauge := testutil.ToFloat64(s.metrics.quarantined); int(gauge) != len(quarantined) {
		s.t.Errorf("%s: the gauge is %v", when, gauge)
	}
}

// published returns how many scopes were published, without the one of wildcards.
func (s *poisoned) published() (count int) {
	for _, name := range s.updates {
		if strings.Contains(name, ".test") {
			count++
		}
	}
	s.updates = nil
	return count
}

// good is an endpoint.
func good() netip.AddrPort { return netip.MustParseAddrPort("10.0.0.1:8080") }

// TestPanicCostsOneObject has an object whose host makes the translation panic. It keeps its last good host, the others
// change, and it is not tried again before something in its namespace changes.
func TestPanicCostsOneObject(t *testing.T) {
	t.Parallel()
	s := newPoisoned(t)
	s.set("bad", "bad.test", good())
	s.set("other", "one.test", good())
	s.expect("at first", map[string]string{"bad": "bad.test", "other": "one.test"})

	s.set("bad", "poison.test", good())
	s.set("other", "two.test", good())
	s.expect("with poison", map[string]string{"bad": "bad.test", "other": "two.test"}, "bad")
	failures := testutil.ToFloat64(s.metrics.failures.WithLabelValues(stageTranslate))
	if failures != 1 || strings.Count(s.log.String(), "poisonous host of bad") != 1 ||
		!strings.Contains(s.log.String(), "checkPoison") {
		t.Errorf("%v failures, log:\n%s", failures, s.log)
	}

	s.set("other", "three.test", good())
	s.expect("another change", map[string]string{"bad": "bad.test", "other": "three.test"}, "bad")
	if again := testutil.ToFloat64(s.metrics.failures.WithLabelValues(stageTranslate)); again != failures {
		t.Errorf("%v failures after an unrelated change, want %v", again, failures)
	}

	s.set("bad", "better.test", good())
	s.expect("after a fix", map[string]string{"bad": "better.test", "other": "three.test"})
	s.published()
	s.set("other", "four.test", good())
	s.expect("another change", map[string]string{"bad": "better.test", "other": "four.test"})
	if count := s.published(); count != 1 {
		t.Errorf("%d scopes were published after the quarantine, want 1", count)
	}
}

// TestPanicOfAnEndpoint has an EndpointSlice that makes the translation panic. The object leaves the quarantine when the
// slice changes.
func TestPanicOfAnEndpoint(t *testing.T) {
	t.Parallel()
	s := newPoisoned(t)
	s.set("bad", "bad.test", good())
	s.set("other", "one.test", good())
	s.expect("at first", map[string]string{"bad": "bad.test", "other": "one.test"})
	s.set("bad", "bad.test", netip.AddrPortFrom(good().Addr(), poisonPort))
	s.set("other", "two.test", good())
	s.expect("with poison", map[string]string{"bad": "bad.test", "other": "two.test"}, "bad")
	s.set("bad", "bad.test", good())
	s.expect("after a fix", map[string]string{"bad": "bad.test", "other": "two.test"})
}

// TestPanicBeforeTheFirstPublication starts with an object that was never good. The others are served.
func TestPanicBeforeTheFirstPublication(t *testing.T) {
	t.Parallel()
	s := newPoisoned(t)
	s.set("bad", "poison.test", good())
	s.set("other", "one.test", good())
	s.expect("at first", map[string]string{"other": "one.test"}, "bad")
	if !s.isSeeded() {
		t.Error("the first publication is missing")
	}
}

// TestPanicOfAnObserver has an Observer that panics with one object. It receives the others.
func TestPanicOfAnObserver(t *testing.T) {
	t.Parallel()
	s := newPoisoned(t)
	s.set("a", "a.test", good())
	s.set("b", "b.test", good())
	s.set("c", "c.test", good())
	s.panics["b"] = true
	s.expect("with a panic", map[string]string{"a": "a.test", "c": "c.test"})
	if count := testutil.ToFloat64(s.metrics.failures.WithLabelValues(stageObserve)); count != 2 ||
		!strings.Contains(s.log.String(), "httpScaledObject=ns-b/b") {
		t.Errorf("%v failures, want 2: the pass and the object; log:\n%s", count, s.log)
	}
	s.panics["b"] = false
	s.set("b", "d.test", good())
	s.expect("later", map[string]string{"a": "a.test", "b": "d.test", "c": "c.test"})
}
