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

// objectSet is a mutable set of objects, by name.
type objectSet struct {
	scaledObjects map[model.Key]*httpv1alpha1.HTTPScaledObject
	services      map[model.Key]*resolve.Service
	slices        map[model.Key]*resolve.EndpointSlice
	envoySettings resolve.SettingsByNamespace
	configMaps    resolve.ConfigMaps
}

func newObjectSet() objectSet {
	return objectSet{
		map[model.Key]*httpv1alpha1.HTTPScaledObject{},
		map[model.Key]*resolve.Service{},
		map[model.Key]*resolve.EndpointSlice{},
		resolve.SettingsByNamespace{},
		resolve.ConfigMaps{},
	}
}

// apply applies a change.
func (c objectSet) apply(change resolve.Change) {
	applyTo(c.scaledObjects, change.ScaledObjects)
	applyTo(c.services, change.Services)
	applyTo(c.slices, change.EndpointSlices)
	maps.Copy(c.envoySettings, change.EnvoySettings)
	applyTo(c.configMaps, change.ConfigMaps)
}

func applyTo[T any](into, changed map[model.Key]*T) {
	for key, value := range changed {
		if into[key] = value; value == nil {
			delete(into, key)
		}
	}
}

// inputs returns the set as Inputs.
func (c objectSet) inputs(published model.Config) resolve.Inputs {
	return resolve.Inputs{
		ScaledObjects: slices.Collect(maps.Values(c.scaledObjects)), Services: slices.Collect(maps.Values(c.services)),
		EndpointSlices: slices.Collect(maps.Values(c.slices)), Options: options(), Published: published,
		EnvoySettings: c.envoySettings, ConfigMaps: c.configMaps,
	}
}

// options have a shared fleet and limits that random objects sometimes exceed.
func options() resolve.Options {
	return resolve.Options{SharedFleet: "keda", MaxObjects: 4, MaxHosts: 9, MaxStaticBytes: resolve.MaxStaticBytes + 2}
}

// fullChange returns the set as the first Change.
func (c objectSet) fullChange() resolve.Change {
	return resolve.Change{
		ScaledObjects: c.scaledObjects, Services: c.services, EndpointSlices: c.slices,
		EnvoySettings: c.envoySettings, ConfigMaps: c.configMaps,
	}
}

// randomChange adds, changes or removes some random objects.
func randomChange(random *rand.Rand, maxObjects int) resolve.Change {
	inputs := randomInputs(random)
	change := resolve.Change{
		ScaledObjects: map[model.Key]*httpv1alpha1.HTTPScaledObject{}, Services: map[model.Key]*resolve.Service{},
		EndpointSlices: map[model.Key]*resolve.EndpointSlice{}, EnvoySettings: resolve.SettingsByNamespace{},
	}
	if at := random.IntN(12); at < 3 {
		settings := &model.EnvoySettings{Cluster: model.ClusterSettings{MaxRequests: uint32(random.IntN(3))}}
		if random.IntN(2) == 0 {
			settings.Route.RetryOn = "5xx"
		}
		if random.IntN(4) == 0 {
			settings = nil
		}
		change.EnvoySettings[[]string{
			"", inputs.ScaledObjects[0].Namespace,
			inputs.ScaledObjects[len(inputs.ScaledObjects)-1].Namespace,
		}[at]] = settings
	}
	if change.ConfigMaps = randomConfigMaps(random); random.IntN(2) == 0 {
		change.ConfigMaps = resolve.ConfigMaps{{Namespace: "a", Name: "one"}: nil}
	}
	for i, slice := range inputs.EndpointSlices {
		slice.Key.Name += fmt.Sprint("-", i%2)
	}
	for range 1 + random.IntN(maxObjects) {
		object := inputs.ScaledObjects[random.IntN(len(inputs.ScaledObjects))]
		putOrDelete(random, change.ScaledObjects, model.Key{Namespace: object.Namespace, Name: object.Name}, object)
		if random.IntN(3) == 0 {
			service := inputs.Services[random.IntN(len(inputs.Services))]
			putOrDelete(random, change.Services, service.Key, service)
		}
		if random.IntN(2) == 0 {
			slice := inputs.EndpointSlices[random.IntN(len(inputs.EndpointSlices))]
			putOrDelete(random, change.EndpointSlices, slice.Key, slice)
		}
	}
	return change
}

// putOrDelete adds one object or deletes it.
func putOrDelete[T any](random *rand.Rand, into map[model.Key]*T, key model.Key, object *T) {
	if into[key] = object; random.IntN(4) == 0 {
		into[key] = nil
	}
}

// fleetSum adds up the Updates of a Resolver and a Translator for one fleet.
type fleetSum struct {
	objects    map[model.Key]model.Config
	hosts      map[model.Host]model.Config
	resources  translate.Resources
	translator *translate.Translator
}

// holdOptions enable queueing, so that endpoints affect more resources.
func holdOptions() translate.Options {
	options := translate.DefaultOptions()
	options.Hold.Checks = netip.MustParseAddrPort("10.9.9.9:5678")
	return options
}

func newFleetSum(t *testing.T) *fleetSum {
	t.Helper()
	translator, err := translate.NewTranslator(holdOptions())
	if err != nil {
		t.Fatal(err)
	}
	return &fleetSum{map[model.Key]model.Config{}, map[model.Host]model.Config{}, translate.Resources{}, translator}
}

// add adds one Update.
func (s *fleetSum) add(t *testing.T, update model.Update) {
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
				t.Fatalf("%s %q is removed but did not exist", typeURL, name)
			}
			delete(s.resources[typeURL], name)
		}
	}
	if isEmpty := len(s.objects) == 0; s.translator.IsEmpty() != isEmpty {
		t.Errorf("a Translator of %d objects is empty: %v", len(s.objects), !isEmpty)
	}
}

// config returns the Config that the objects add up to.
func (s *fleetSum) config() model.Config {
	config := model.Config{Services: map[model.ServicePort]model.Endpoints{}}
	for _, part := range s.objects {
		config.Routes = append(config.Routes, part.Routes...)
		maps.Copy(config.Services, part.Services)
	}
	slices.SortFunc(config.Routes, model.CompareRoutes)
	return config
}

// sumOfAll adds up the Outcomes of all fleets.
type sumOfAll struct {
	fleets   map[model.Fleet]*fleetSum
	problems map[model.Key][]model.Problem
	proxies  map[model.Fleet][]model.Proxy
}

// add adds one Outcome.
func (s sumOfAll) add(t *testing.T, outcome resolve.Outcome) {
	t.Helper()
	for fleet, update := range outcome.Updates {
		if s.fleets[fleet] == nil {
			s.fleets[fleet] = newFleetSum(t)
		}
		s.fleets[fleet].add(t, update)
		for key := range update.Objects {
			expectAffected(t, outcome, key, "a Config")
		}
	}
	for key, problems := range outcome.Problems {
		expectAffected(t, outcome, key, "Problems")
		if s.problems[key] = problems; len(problems) == 0 {
			delete(s.problems, key)
		}
	}
	for fleet, proxies := range outcome.Proxies {
		if s.proxies[fleet] = proxies; proxies == nil {
			delete(s.proxies, fleet)
		}
	}
}

// check compares the sum with the results of Build, Proxies and Envoy for all objects.
func (s sumOfAll) check(t *testing.T, inputs resolve.Inputs) model.Config {
	t.Helper()
	config, problems := resolve.Build(inputs)
	fleets := model.ByFleet(config)
	for fleet := range fleets {
		if s.fleets[fleet] == nil {
			t.Errorf("there is no Update of fleet %s", fleet)
			s.fleets[fleet] = newFleetSum(t)
		}
	}
	for fleet, sum := range s.fleets {
		sum.check(t, fleets[fleet])
	}
	all := slices.SortedFunc(func(yield func(model.Problem) bool) {
		for _, proxies := range s.problems {
			for _, problem := range proxies {
				if !yield(problem) {
					return
				}
			}
		}
	}, model.Problem.Compare)
	if diff := cmp.Diff(problems, all); diff != "" {
		t.Errorf("Problems (-Build +Resolver):\n%s", diff)
	}
	if diff := cmp.Diff(inputs.Proxies(), s.proxies,
		cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("Proxies (-whole +Resolver):\n%s", diff)
	}
	return config
}

// byName returns the serialized messages by name.
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

// check compares the sum of a fleet with its Config and with the result of Envoy.
func (s *fleetSum) check(t *testing.T, config model.Config) {
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
	resources, err := holdOptions().Envoy(config)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(byName(t, resources), byName(t, s.resources)); diff != "" {
		t.Errorf("resources (-Envoy +Translator):\n%s", diff)
	}
}

// TestUpdatesAddUpToBuild applies random changes. After each, the sum of all Updates must equal the stateless results
// of Build and Envoy for the current objects, byte for byte.
func TestUpdatesAddUpToBuild(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		random := rand.New(rand.NewPCG(seed, 4))
		now, published := newObjectSet(), model.Config{}
		if seed%3 > 0 {
			now.apply(randomChange(random, 12))
			published, _ = resolve.Build(now.inputs(published))
		}
		sum := sumOfAll{map[model.Fleet]*fleetSum{}, map[model.Key][]model.Problem{}, map[model.Fleet][]model.Proxy{}}
		resolver := resolve.NewResolver(options(), published.Routes)
		for step := range 30 {
			change := randomChange(random, 4)
			now.apply(change)
			if step == 0 {
				change = now.fullChange()
			}
			outcome := resolver.Update(change)
			sum.add(t, outcome)
			published = sum.check(t, now.inputs(published))
			expectUsersAffected(t, change, outcome, published.Routes)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}

// manyObjects returns objects with one host, one stable Service and one canary Service each.
func manyObjects(count int) objectSet {
	objects := newObjectSet()
	for i := range count {
		stable, canary := fmt.Sprint("stable-", i), fmt.Sprint("canary-", i)
		object := kit.NewScaledObject("apps", fmt.Sprint("shop-", i), stable, 1, fmt.Sprintf("shop-%d.example.com", i))
		objects.scaledObjects[model.Key{Namespace: "apps", Name: object.Name}] = atWeight(object, 20)
		for _, name := range []string{stable, canary} {
			objects.services[model.Key{Namespace: "apps", Name: name}] = kit.ResolveServices(kit.NewService("apps", name))[0]
			objects.slices[model.Key{Namespace: "apps", Name: name + "-1"}] = kit.ResolveEndpointSlices(kit.NewEndpointSlice("apps",
				name, "10.0.0.1", "10.0.0.2"))[0]
		}
	}
	return objects
}

// atWeight returns an object of manyObjects with a canary weight.
func atWeight(object *httpv1alpha1.HTTPScaledObject, weight uint32) *httpv1alpha1.HTTPScaledObject {
	stable := object.Spec.ScaleTargetRef.Service
	return kit.WithSplit(object, split.Backend{Service: stable, Weight: 100 - weight},
		split.Backend{Service: "canary" + stable[len("stable"):], Weight: weight})
}

// BenchmarkOneWeight changes one weight among many objects and resolves and translates it: incrementally, and by the
// reference implementation.
func BenchmarkOneWeight(b *testing.B) {
	for _, count := range []int{10, 1000, 10_000} {
		objects := manyObjects(count)
		key := model.Key{Namespace: "apps", Name: "shop-7"}
		forms := []*httpv1alpha1.HTTPScaledObject{
			atWeight(objects.scaledObjects[key], 30),
			atWeight(objects.scaledObjects[key], 40),
		}
		b.Run(fmt.Sprint("change/", count), func(b *testing.B) {
			resolver := resolve.NewResolver(resolve.Options{}, nil)
			translator, err := translate.NewTranslator(translate.DefaultOptions())
			if err != nil {
				b.Fatal(err)
			}
			if _, err := translator.Update(resolver.Update(objects.fullChange()).Updates["apps"]); err != nil {
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
				objects.scaledObjects[key] = forms[i%2]
				config, _ := resolve.Build(objects.inputs(model.Config{}))
				if _, err := translate.Envoy(config); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
