package resolve_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// changing is a World that changes, by name.
type changing struct {
	scaledObjects map[model.Key]*httpv1alpha1.HTTPScaledObject
	services      map[model.Key]*resolve.Service
	slices        map[model.Key]*resolve.EndpointSlice
	tunings       resolve.Tunings
}

func newChanging() changing {
	return changing{map[model.Key]*httpv1alpha1.HTTPScaledObject{}, map[model.Key]*resolve.Service{}, map[model.Key]*resolve.EndpointSlice{}, resolve.Tunings{}}
}

// apply makes the change.
func (c changing) apply(change resolve.Change) {
	applyTo(c.scaledObjects, change.ScaledObjects)
	applyTo(c.services, change.Services)
	applyTo(c.slices, change.EndpointSlices)
	maps.Copy(c.tunings, change.Tunings)
}

func applyTo[T any](into, changed map[model.Key]*T) {
	for key, value := range changed {
		if into[key] = value; value == nil {
			delete(into, key)
		}
	}
}

// world is the World as it is.
func (c changing) world(inForce model.Config) resolve.World {
	return resolve.World{
		ScaledObjects: slices.Collect(maps.Values(c.scaledObjects)), Services: slices.Collect(maps.Values(c.services)),
		EndpointSlices: slices.Collect(maps.Values(c.slices)), Options: options(), InForce: inForce,
		Tunings: c.tunings,
	}
}

// options have a shared fleet and bounds that random Worlds are over at times.
func options() resolve.Options {
	return resolve.Options{SharedFleet: "keda", MaxObjects: 4, MaxHosts: 9}
}

// all is the World as it is, as the first Change.
func (c changing) all() resolve.Change {
	return resolve.Change{ScaledObjects: c.scaledObjects, Services: c.services, EndpointSlices: c.slices, Tunings: c.tunings}
}

// randomChange has some of the objects of a random World, as they came or went.
func randomChange(random *rand.Rand, most int) resolve.Change {
	world := randomWorld(random)
	change := resolve.Change{
		ScaledObjects: map[model.Key]*httpv1alpha1.HTTPScaledObject{}, Services: map[model.Key]*resolve.Service{},
		EndpointSlices: map[model.Key]*resolve.EndpointSlice{}, Tunings: resolve.Tunings{},
	}
	if at := random.IntN(12); at < 3 {
		tuning := &model.Tuning{Cluster: model.ClusterTuning{MaxRequests: uint32(random.IntN(3))}}
		if random.IntN(2) == 0 {
			tuning.Route.RetryOn = "5xx"
		}
		if random.IntN(4) == 0 {
			tuning = nil
		}
		change.Tunings[[]string{"", world.ScaledObjects[0].Namespace, world.ScaledObjects[len(world.ScaledObjects)-1].Namespace}[at]] = tuning
	}
	for i, slice := range world.EndpointSlices {
		slice.Key.Name += fmt.Sprint("-", i%2)
	}
	for range 1 + random.IntN(most) {
		object := world.ScaledObjects[random.IntN(len(world.ScaledObjects))]
		choose(random, change.ScaledObjects, model.Key{Namespace: object.Namespace, Name: object.Name}, object)
		if random.IntN(3) == 0 {
			service := world.Services[random.IntN(len(world.Services))]
			choose(random, change.Services, service.Key, service)
		}
		if random.IntN(2) == 0 {
			slice := world.EndpointSlices[random.IntN(len(world.EndpointSlices))]
			choose(random, change.EndpointSlices, slice.Key, slice)
		}
	}
	return change
}

// choose takes one object, or takes it away.
func choose[T any](random *rand.Rand, into map[model.Key]*T, key model.Key, object *T) {
	if into[key] = object; random.IntN(4) == 0 {
		into[key] = nil
	}
}

// told adds up what a Resolver and a Translator tell of one fleet.
type told struct {
	objects    map[model.Key]model.Config
	hosts      map[model.Host]model.Config
	resources  translate.Resources
	translator *translate.Translator
}

// holding are Options with which requests are held: what follows from endpoints is more then.
func holding() translate.Options {
	options := translate.DefaultOptions()
	options.Hold.Checks = netip.MustParseAddrPort("10.9.9.9:5678")
	return options
}

func newTold(t *testing.T) *told {
	t.Helper()
	translator, err := translate.NewTranslator(holding())
	if err != nil {
		t.Fatal(err)
	}
	return &told{map[model.Key]model.Config{}, map[model.Host]model.Config{}, translate.Resources{}, translator}
}

// add adds one Update.
func (s *told) add(t *testing.T, update model.Update) {
	t.Helper()
	for key, config := range update.Objects {
		if s.objects[key] = config; len(config.Routes) == 0 {
			delete(s.objects, key)
		}
	}
	for host, config := range update.Hosts {
		if s.hosts[host] = config; len(config.Routes) == 0 {
			delete(s.hosts, host)
		}
	}
	translated, err := s.translator.Update(update)
	if err != nil {
		t.Fatal(err)
	}
	for typeURL, messages := range translated.Changed {
		if s.resources[typeURL] == nil {
			s.resources[typeURL] = map[string]proto.Message{}
		}
		maps.Copy(s.resources[typeURL], messages)
	}
	for typeURL, names := range translated.Removed {
		for _, name := range names {
			if _, known := s.resources[typeURL][name]; !known {
				t.Fatalf("%s %q is removed and was not there", typeURL, name)
			}
			delete(s.resources[typeURL], name)
		}
	}
	if isEmpty := len(s.objects) == 0; s.translator.IsEmpty() != isEmpty {
		t.Errorf("a Translator of %d objects is empty: %v", len(s.objects), !isEmpty)
	}
}

// config is the Config that the objects add up to.
func (s *told) config() model.Config {
	config := model.Config{Services: map[model.ServicePort]model.Endpoints{}}
	for _, part := range s.objects {
		config.Routes = append(config.Routes, part.Routes...)
		maps.Copy(config.Services, part.Services)
	}
	slices.SortFunc(config.Routes, model.CompareRoutes)
	return config
}

// toldOfAll adds up what is told of all fleets.
type toldOfAll struct {
	fleets   map[model.Fleet]*told
	problems map[model.Key][]model.Problem
	proxies  map[model.Fleet][]model.Proxy
}

// add adds one Outcome.
func (s toldOfAll) add(t *testing.T, outcome resolve.Outcome) {
	t.Helper()
	for fleet, update := range outcome.Updates {
		if s.fleets[fleet] == nil {
			s.fleets[fleet] = newTold(t)
		}
		s.fleets[fleet].add(t, update)
		for key := range update.Objects {
			expectConcerned(t, outcome, key, "a Config")
		}
	}
	for key, problems := range outcome.Problems {
		expectConcerned(t, outcome, key, "Problems")
		if s.problems[key] = problems; len(problems) == 0 {
			delete(s.problems, key)
		}
	}
	for fleet, proxies := range outcome.Proxies {
		if s.proxies[fleet] = proxies; len(proxies) == 0 {
			delete(s.proxies, fleet)
		}
	}
}

// check compares what was told with what Build, Proxies and Envoy say of the whole.
func (s toldOfAll) check(t *testing.T, world resolve.World) model.Config {
	t.Helper()
	config, problems := resolve.Build(world)
	fleets := model.ByFleet(config)
	for fleet := range fleets {
		if s.fleets[fleet] == nil {
			t.Errorf("nothing was told of fleet %s", fleet)
			s.fleets[fleet] = newTold(t)
		}
	}
	for fleet, sum := range s.fleets {
		sum.check(t, fleets[fleet])
	}
	all := slices.SortedFunc(func(yield func(model.Problem) bool) {
		for _, own := range s.problems {
			for _, problem := range own {
				if !yield(problem) {
					return
				}
			}
		}
	}, model.Problem.Compare)
	if diff := cmp.Diff(problems, all); diff != "" {
		t.Errorf("Problems (-Build +Resolver):\n%s", diff)
	}
	if diff := cmp.Diff(resolve.Proxies(world.EndpointSlices), s.proxies, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("Proxies (-whole +Resolver):\n%s", diff)
	}
	return config
}

// byName are messages in their one marshalled form.
func byName(t *testing.T, resources translate.Resources) map[string]string {
	t.Helper()
	out := map[string]string{}
	for typeURL, messages := range resources {
		for name, message := range messages {
			body, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
			if err != nil {
				t.Fatal(err)
			}
			out[typeURL+" "+name] = string(body)
		}
	}
	return out
}

// check compares what was told of a fleet with its Config, and what Envoy makes of it.
func (s *told) check(t *testing.T, config model.Config) {
	t.Helper()
	if diff := cmp.Diff(config, s.config(), compareAddresses, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Config (-Build +Resolver):\n%s", diff)
	}
	var byHost []model.Route
	for _, part := range s.hosts {
		byHost = append(byHost, part.Routes...)
	}
	slices.SortFunc(byHost, model.CompareRoutes)
	if diff := cmp.Diff(config.Routes, byHost); diff != "" {
		t.Errorf("Routes by host (-Build +Resolver):\n%s", diff)
	}
	resources, err := holding().Envoy(config)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(byName(t, resources), byName(t, s.resources)); diff != "" {
		t.Errorf("resources (-Envoy +Translator):\n%s", diff)
	}
}

// TestUpdatesAddUpToBuild plays random changes. After each, everything that was told so far has to be what Build and Envoy, which know nothing of it, say of
// the World as it is, byte for byte.
func TestUpdatesAddUpToBuild(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		random := rand.New(rand.NewPCG(seed, 4))
		now, inForce := newChanging(), model.Config{}
		if seed%3 > 0 {
			now.apply(randomChange(random, 12))
			inForce, _ = resolve.Build(now.world(inForce))
		}
		sum := toldOfAll{map[model.Fleet]*told{}, map[model.Key][]model.Problem{}, map[model.Fleet][]model.Proxy{}}
		resolver := resolve.NewResolver(options(), inForce.Routes)
		for step := range 30 {
			change := randomChange(random, 4)
			now.apply(change)
			if step == 0 {
				change = now.all()
			}
			outcome := resolver.Update(change)
			sum.add(t, outcome)
			inForce = sum.check(t, now.world(inForce))
			expectUsersConcerned(t, change, outcome, inForce.Routes)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}

// manyObjects is a World with objects that have a host, a stable Service and a canary Service each.
func manyObjects(count int) changing {
	world := newChanging()
	for i := range count {
		stable, canary := fmt.Sprint("stable-", i), fmt.Sprint("canary-", i)
		object := kit.NewScaledObject("apps", fmt.Sprint("shop-", i), stable, 1, fmt.Sprintf("shop-%d.example.com", i))
		world.scaledObjects[model.Key{Namespace: "apps", Name: object.Name}] = atWeight(object, 20)
		for _, name := range []string{stable, canary} {
			world.services[model.Key{Namespace: "apps", Name: name}] = kit.Services(kit.NewService("apps", name))[0]
			world.slices[model.Key{Namespace: "apps", Name: name + "-1"}] = kit.EndpointSlices(kit.NewEndpointSlice("apps", name, "10.0.0.1", "10.0.0.2"))[0]
		}
	}
	return world
}

// atWeight is an object of manyObjects at a canary weight.
func atWeight(object *httpv1alpha1.HTTPScaledObject, weight uint32) *httpv1alpha1.HTTPScaledObject {
	stable := object.Spec.ScaleTargetRef.Service
	return kit.WithSplit(object, split.Backend{Service: stable, Weight: 100 - weight}, split.Backend{Service: "canary" + stable[len("stable"):], Weight: weight})
}

// BenchmarkOneWeight is one weight among many objects, resolved and translated: by what changed, and by the reference.
func BenchmarkOneWeight(b *testing.B) {
	for _, count := range []int{10, 1000, 10_000} {
		world := manyObjects(count)
		key := model.Key{Namespace: "apps", Name: "shop-7"}
		forms := []*httpv1alpha1.HTTPScaledObject{atWeight(world.scaledObjects[key], 30), atWeight(world.scaledObjects[key], 40)}
		b.Run(fmt.Sprint("change/", count), func(b *testing.B) {
			resolver := resolve.NewResolver(resolve.Options{}, nil)
			translator, err := translate.NewTranslator(translate.DefaultOptions())
			if err != nil {
				b.Fatal(err)
			}
			if _, err := translator.Update(resolver.Update(world.all()).Updates["apps"]); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				change := resolve.Change{ScaledObjects: map[model.Key]*httpv1alpha1.HTTPScaledObject{key: forms[i%2]}}
				update, err := translator.Update(resolver.Update(change).Updates["apps"])
				if err != nil || len(update.Changed[resourcev3.ScopedRouteType]) != 1 {
					b.Fatal(err, update)
				}
			}
		})
		b.Run(fmt.Sprint("whole/", count), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				world.scaledObjects[key] = forms[i%2]
				config, _ := resolve.Build(world.world(model.Config{}))
				if _, err := translate.Envoy(config); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
