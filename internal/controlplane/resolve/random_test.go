package resolve_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// checkInvariants checks the guarantees of a Config.
func checkInvariants(t *testing.T, config model.Config) {
	t.Helper()
	if !slices.IsSortedFunc(config.Routes, model.CompareRoutes) {
		t.Error("the Routes are not in order")
	}
	used := map[model.ServicePort]bool{}
	matches := map[string]bool{}
	for _, route := range config.Routes {
		match := fmt.Sprintf("%s %#v", route.Fleet, route.Match)
		if matches[match] {
			t.Errorf("two Routes have the Match %s", match)
		}
		matches[match] = true
		sum := 0
		for _, port := range route.Destinations() {
			used[port] = true
		}
		for _, backend := range route.Backends {
			sum += int(backend.Weight)
			if backend.Service.Namespace != route.Owner.Namespace {
				t.Errorf("%s has a backend in another namespace: %s", route.Owner, backend.Service)
			}
		}
		if sum == 0 {
			t.Errorf("%s has no weight", route.Owner)
		}
	}
	for port := range used {
		if _, present := config.Services[port]; !present {
			t.Errorf("no endpoints for %s", port)
		}
	}
	if len(used) != len(config.Services) {
		t.Errorf("the Config has %d Services, %d are used", len(config.Services), len(used))
	}
}

// randomInputs returns small Inputs with many collisions and invalid objects.
func randomInputs(random *rand.Rand) resolve.Inputs {
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	var inputs resolve.Inputs
	for i := range 1 + random.IntN(12) {
		object := kit.NewScaledObject(pick("a", "b", "z"), fmt.Sprintf("o%d", i), pick("s", "c", "x"), random.IntN(3),
			pick("h.example.com", "H.example.com.", "*.example.com", "*", "not a host", "*.eu.example.com"),
			pick("h.example.com", "g.example.com", "g.eu.example.com", "*.com"))
		if random.IntN(3) == 0 {
			object.Spec.PathPrefixes = []string{pick("/", "/a", "/a/", "/a/b", "bad")}
		}
		if random.IntN(3) == 0 {
			object.Spec.Headers = []httpv1alpha1.Header{{Name: pick("x", "X", "y", "b d")}}
			if text := pick("", "a*", "A**", "(a"); text != "" && random.IntN(2) == 0 {
				object.Spec.Headers[0].ValueWildcard = &text
			} else if text != "" {
				object.Spec.Headers[0].ValueRegex = &text
			}
		}
		if random.IntN(4) == 0 {
			object.Spec.Converted = randomRules(random, object.Spec, pick)
		}
		if random.IntN(2) == 0 {
			object = kit.WithSplit(object,
				split.Backend{Service: pick("s", "x"), Weight: random.Uint32N(3)}, split.Backend{
					Service: pick("c", "missing"),
					Weight:  random.Uint32N(3),
				})
		}
		if random.IntN(3) == 0 {
			object = kit.WithAnnotation(object, httpv1alpha1.AnnotationManagedRoutes,
				pick(`[{"name":"a","matches":[{"path":{"type":"Prefix","value":"/a"}}]}]`,
					`[{"name":"b","mirrorPercent":5,"matches":[{}]}]`, `[]`, `bad`))
		}
		for _, name := range []string{httpv1alpha1.AnnotationStickiness, httpv1alpha1.AnnotationSessionAffinity} {
			if random.IntN(3) == 0 {
				object = kit.WithAnnotation(object, name,
					pick("cookie: {}", "{cookie: {name: a}}", "header: x-user", "sourceAddress: {}", "{}", "bad"))
			}
		}
		if random.IntN(3) == 0 {
			object = kit.WithAnnotation(object, httpv1alpha1.AnnotationStaticResponses, pick(
				"[{match: [{pathPrefix: /a}, {pathRegex: '/a.*'}], body: x}]", "[{match: [{path: /b, host: g.example.com}], mode: WhenUnavailable}]",
				"[{bodyFromConfigMap: {name: one, key: a.html}}, {redirect: /c}]", "[]", "bad",
				"[{bodyFromConfigMap: {name: two, key: a.html}}]"))
		}
		if random.IntN(3) == 0 {
			object = kit.WithAnnotation(object, httpv1alpha1.AnnotationPlaceholderResponse,
				pick("body: starting", "statusCode: 99", "bodyFromConfigMap: {name: one, key: b.html}"))
		}
		if random.IntN(3) == 0 {
			object = kit.WithAnnotation(object, httpv1alpha1.AnnotationAutowireSettings,
				pick(`{"protocol":"h2c"}`, `{"sessionAffinity":{"header":"x-user"}}`, `bad`))
		}
		if random.IntN(3) == 0 {
			object.Status.DataPlane = &httpv1alpha1.DataPlaneStatus{
				WeightedBackends: fmt.Sprintf("[{service: %s, weight: 1}, {service: c, weight: 2}]", pick("s", "x", "c")),
			}
		}
		if random.IntN(3) == 0 {
			object.Spec.ColdStartTimeoutFailoverRef = &httpv1alpha1.ColdStartTimeoutFailoverRef{
				Service: pick("s", "c", "x", "missing"), Port: random.Int32N(2) * 80, TimeoutSeconds: new(random.Int32N(4) - 1),
			}
		}
		if random.IntN(4) == 0 {
			object.Spec.Replicas = &httpv1alpha1.ReplicaRange{Min: new(random.Int32N(3) - 1)}
		}
		if random.IntN(3) > 0 {
			object = kit.WithAnnotation(object, httpv1alpha1.AnnotationFleet, pick("shared", "shared", "shared", "shred"))
		}
		if random.IntN(3) == 0 {
			object = kit.WithAnnotation(object, httpv1alpha1.AnnotationAllowedNamespaces, pick("*", "a", "b, z", "z,-"))
		}
		if random.IntN(8) == 0 {
			object = kit.WithAnnotation(object, httpv1alpha1.AnnotationRouting, pick(httpv1alpha1.RoutingNone, "all"))
		}
		if random.IntN(8) == 0 {
			object.Spec = httpv1alpha1.HTTPScaledObjectSpec{OmittedBytes: 1 << 20, OmittedHosts: random.IntN(3)}
		}
		inputs.ScaledObjects = append(inputs.ScaledObjects, object)
	}
	inputs.ConfigMaps = randomConfigMaps(random)
	for _, namespace := range []string{"a", "b", "z"} {
		inputs.EndpointSlices = append(inputs.EndpointSlices,
			randomSlice(random, namespace, resolve.ProxyService), randomSlice(random, namespace, resolve.ProxyService))
		for _, name := range []string{"s", "c", "x"} {
			service := kit.NewService(namespace, name)
			if name == "x" && random.IntN(2) == 0 {
				service.Spec.Type = corev1.ServiceTypeExternalName
			}
			if random.IntN(3) == 0 {
				service.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			}
			inputs.Services = append(inputs.Services, kit.ResolveServices(service)...)
			inputs.EndpointSlices = append(inputs.EndpointSlices, randomSlice(random, namespace, name),
				randomSlice(random, namespace, name))
		}
	}
	return inputs
}

// randomRules returns up to three rules, one of them with the hosts, the path prefixes and the headers of a spec.
func randomRules(
	random *rand.Rand, spec httpv1alpha1.HTTPScaledObjectSpec, pick func(...string) string,
) *httpv1alpha1.ConvertedSpec {
	converted := &httpv1alpha1.ConvertedSpec{}
	for i := range random.IntN(4) {
		rule := httpv1alpha1.Rule{Hosts: spec.Hosts, PathPrefixes: spec.PathPrefixes, Headers: spec.Headers}
		if i > 0 {
			rule.Hosts = []string{pick("h.example.com", "g.example.com", "*.example.com", "not a host")}
			rule.PathPrefixes = []string{pick("/", "/a", "/b", "bad")}
		}
		converted.Rules = append(converted.Rules, rule)
	}
	return converted
}

// randomConfigMaps returns ConfigMaps with bodies, some of which are missing or were not read yet.
func randomConfigMaps(random *rand.Rand) resolve.ConfigMaps {
	configMaps := resolve.ConfigMaps{}
	for _, namespace := range []string{"a", "b", "z"} {
		for _, name := range []string{"one", "two"} {
			switch key := (model.Key{Namespace: namespace, Name: name}); random.IntN(4) {
			case 0:
				configMaps[key] = &resolve.ConfigMap{Problem: "not found: create it"}
			case 1:
			default:
				configMaps[key] = &resolve.ConfigMap{Data: map[string]string{"a.html": strconv.Itoa(random.IntN(2))}}
			}
		}
	}
	return configMaps
}

// randomSlice returns an EndpointSlice with endpoints in every condition, some of which are in other slices too. In
// half of the slices most endpoints have a hint.
func randomSlice(random *rand.Rand, namespace, service string) *resolve.EndpointSlice {
	slice, hasHints := kit.NewEndpointSlice(namespace, service), random.IntN(2) == 0
	for range random.IntN(4) {
		condition := func() *bool {
			return []*bool{nil, new(bool), new(true)}[random.IntN(3)]
		}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.0.0.%d", random.IntN(4))},
			Conditions: discoveryv1.EndpointConditions{Ready: condition(), Serving: condition(), Terminating: condition()},
			Hints:      randomHints(random, hasHints), Zone: new(fmt.Sprint("z", random.IntN(2))),
		})
	}
	return resolve.NewEndpointSlice(slice)
}

// randomHints returns hints for a zone and sometimes for a node, or none.
func randomHints(random *rand.Rand, hasHints bool) *discoveryv1.EndpointHints {
	if !hasHints || random.IntN(8) == 0 {
		return nil
	}
	hints := &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: fmt.Sprint("z", random.IntN(2))}}}
	if random.IntN(3) == 0 {
		hints.ForNodes = []discoveryv1.ForNode{{Name: fmt.Sprint("n", random.IntN(3))}}
	}
	return hints
}

func shuffle[T any](random *rand.Rand, list []T) {
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

func many(count int, format string) []string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return list
}

func annotate(text string) func(*httpv1alpha1.HTTPScaledObject) {
	return func(object *httpv1alpha1.HTTPScaledObject) {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, httpv1alpha1.AnnotationWeightedBackends, text)
	}
}
