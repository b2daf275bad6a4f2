package resolve_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// inFleet sets the fleet annotation of an object.
func inFleet(fleet string, object *httpv1alpha1.HTTPScaledObject) *httpv1alpha1.HTTPScaledObject {
	return kit.WithAnnotation(object, httpv1alpha1.AnnotationFleet, fleet)
}

// owners returns the object that wins each host of each fleet.
func owners(config model.Config) map[string]string {
	winners := map[string]string{}
	for _, route := range config.Routes {
		winners[fmt.Sprintf("%s %s", route.Fleet, route.Match.Host)] = route.Owner.String()
	}
	return winners
}

// reasons returns the reasons of the problems of each object.
func reasons(problems []model.Problem) map[string]string {
	byObject := map[string]string{}
	for _, problem := range problems {
		byObject[problem.On.String()] = problem.Reason
	}
	return byObject
}

// shopOf returns an object of a namespace for shop.test.
func shopOf(namespace string, rank int) *httpv1alpha1.HTTPScaledObject {
	return kit.NewScaledObject(namespace, "shop", "shop", rank, "shop.test")
}

// servicesOf returns the Services of the objects of some namespaces.
func servicesOf(namespaces ...string) (services []*resolve.Service) {
	for _, namespace := range namespaces {
		services = append(services, kit.ResolveServices(kit.NewService(namespace, "shop"))...)
	}
	return services
}

// TestNoHosts: an object without hosts gets every host that no other object of its namespace has. The proxies of the
// shared fleet serve several namespaces: there it gets none, whether it requests the fleet or belongs to its namespace.
func TestNoHosts(t *testing.T) {
	t.Parallel()
	without := func(namespace string) *httpv1alpha1.HTTPScaledObject {
		return kit.NewScaledObject(namespace, "all", "shop", 1)
	}
	inputs := resolve.Inputs{
		Options:  resolve.Options{SharedFleet: "keda"},
		Services: servicesOf("a", "b", "keda"),
		ScaledObjects: []*httpv1alpha1.HTTPScaledObject{
			without("a"), shopOf("a", 2), inFleet(httpv1alpha1.FleetShared, without("b")), without("keda"),
		},
	}
	config, problems := resolve.Build(inputs)
	if diff := cmp.Diff(map[string]string{"a *": "a/all", "a shop.test": "a/shop"}, owners(config)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := map[string]string{"b/all": httpv1alpha1.ReasonInvalidHosts, "keda/all": httpv1alpha1.ReasonInvalidHosts}
	if diff := cmp.Diff(want, reasons(problems)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, problem := range problems {
		if !strings.Contains(problem.Message, "shared fleet") {
			t.Errorf("the message does not say why: %s", problem.Message)
		}
	}
	inputs.Options.MaxHosts = 1
	if _, problems := resolve.Build(inputs); reasons(problems)["a/shop"] != httpv1alpha1.ReasonNamespaceLimit {
		t.Errorf("an object without hosts does not count for the limit of hosts: %v", problems)
	}
}

func TestAHostBelongsToAFleet(t *testing.T) {
	t.Parallel()
	inputs := resolve.Inputs{
		Options:  resolve.Options{SharedFleet: "keda"},
		Services: servicesOf("a", "b", "c", "d"),
		ScaledObjects: []*httpv1alpha1.HTTPScaledObject{
			shopOf("a", 1), shopOf("b", 2), inFleet("shared", shopOf("c", 3)), inFleet("shared", shopOf("d", 4)),
		},
	}
	config, problems := resolve.Build(inputs)
	want := map[string]string{"a shop.test": "a/shop", "b shop.test": "b/shop", "keda shop.test": "c/shop"}
	if diff := cmp.Diff(want, owners(config)); diff != "" {
		t.Errorf("owners of the host (-want +got):\n%s", diff)
	}
	wantReasons := map[string]string{
		"d/shop": httpv1alpha1.ReasonRouteConflict, "c/shop": httpv1alpha1.ReasonHostClaimedByOther,
	}
	if diff := cmp.Diff(wantReasons, reasons(problems)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestInvalidFleetKeepsThePublishedOne(t *testing.T) {
	t.Parallel()
	inputs := resolve.Inputs{
		Options: resolve.Options{SharedFleet: "keda"}, Services: servicesOf("a"),
		ScaledObjects: []*httpv1alpha1.HTTPScaledObject{inFleet("Shared", shopOf("a", 1))},
	}
	for _, test := range []struct {
		published model.Fleet
		want      string
	}{{"", "a shop.test"}, {"keda", "keda shop.test"}, {"a", "a shop.test"}} {
		if test.published != "" {
			inputs.Published, _ = resolve.Build(inputs)
			inputs.Published.Routes[0].Fleet = test.published
		}
		config, problems := resolve.Build(inputs)
		if diff := cmp.Diff(map[string]string{test.want: "a/shop"}, owners(config)); diff != "" {
			t.Errorf("with %q published (-want +got):\n%s", test.published, diff)
		}
		if len(problems) != 1 || problems[0].Reason != httpv1alpha1.ReasonInvalidFleet ||
			!strings.Contains(problems[0].Message, `set it to "shared"`) {
			t.Errorf("problems %+v", problems)
		}
	}
}

func TestNamespaceLimits(t *testing.T) {
	t.Parallel()
	object := func(name string, rank, hosts int) *httpv1alpha1.HTTPScaledObject {
		return kit.NewScaledObject("a", name, "shop", rank, many(hosts, name+"-%d.test")...)
	}
	neighbour := kit.NewScaledObject("b", "neighbour", "shop", 9, many(7, "n%d.test")...)
	for name, test := range map[string]struct {
		options resolve.Options
		objects []*httpv1alpha1.HTTPScaledObject
		over    []string
		says    string
	}{
		"no limits": {objects: []*httpv1alpha1.HTTPScaledObject{object("x", 1, 5), object("y", 2, 5)}},
		"at the limits": {
			options: resolve.Options{MaxObjects: 2, MaxHosts: 10},
			objects: []*httpv1alpha1.HTTPScaledObject{object("x", 1, 5), object("y", 2, 5)},
		},
		"one too many": {
			options: resolve.Options{MaxObjects: 1},
			objects: []*httpv1alpha1.HTTPScaledObject{object("x", 2, 1), object("y", 1, 1)},
			over:    []string{"a/x"}, says: `namespace "a": the limit of 1 HTTPScaledObjects and InterceptorRoutes is reached`,
		},
		"equal age": {
			options: resolve.Options{MaxObjects: 1},
			objects: []*httpv1alpha1.HTTPScaledObject{object("y", 1, 1), object("x", 1, 1)},
			over:    []string{"a/y"}, says: "--max-objects-per-namespace",
		},
		"objects within the rest are served": {
			options: resolve.Options{MaxHosts: 9},
			objects: []*httpv1alpha1.HTTPScaledObject{object("x", 1, 5), object("y", 2, 5), object("z", 3, 4)},
			over:    []string{"a/y"}, says: "--max-hosts-per-namespace",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			published, _ := resolve.Build(resolve.Inputs{
				Services:      servicesOf("a", "b"),
				ScaledObjects: append(test.objects, neighbour),
			})
			config, problems := resolve.Build(resolve.Inputs{
				Options: test.options, Services: servicesOf("a", "b"), ScaledObjects: append(test.objects,
					neighbour), Published: published,
			})
			over := map[string]string{}
			for _, each := range test.over {
				over[each] = httpv1alpha1.ReasonNamespaceLimit
			}
			if diff := cmp.Diff(over, reasons(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			for _, problem := range problems {
				if !strings.Contains(problem.Message, test.says) {
					t.Errorf("the message is %q", problem.Message)
				}
			}
			served := map[string]bool{}
			for _, route := range config.Routes {
				served[route.Owner.String()] = true
			}
			if len(served) != len(test.objects)+1-len(test.over) {
				t.Errorf("served are %v", served)
			}
		})
	}
}

func TestProxies(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	at := func(pod, address string, conditions discoveryv1.EndpointConditions) discoveryv1.Endpoint {
		endpoint := discoveryv1.Endpoint{Addresses: []string{address}, Conditions: conditions}
		if pod != "" {
			endpoint.TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: pod}
		}
		return endpoint
	}
	ready := discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no}
	four := kit.NewEndpointSlice("a", resolve.ProxyService)
	four.Endpoints = []discoveryv1.Endpoint{
		at("fine", "10.0.0.1", ready),
		at("starting", "10.0.0.2", discoveryv1.EndpointConditions{Ready: &no, Serving: &no}),
		at("ending", "10.0.0.3", discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}),
		at("published", "10.0.0.4", discoveryv1.EndpointConditions{Ready: &yes, Serving: &no}), // by publishNotReadyAddresses
		at("", "10.0.0.5", discoveryv1.EndpointConditions{}),
	}
	four.Endpoints[0].Zone, four.Endpoints[0].NodeName = new("east"), new("node-1")
	six := kit.NewEndpointSlice("a", resolve.ProxyService)
	six.AddressType = discoveryv1.AddressTypeIPv6
	six.Endpoints = []discoveryv1.Endpoint{at("fine", "fd00::1", ready)}
	app := kit.NewEndpointSlice("b", "shop", "10.0.1.1")
	got := resolve.Inputs{EndpointSlices: kit.ResolveEndpointSlices(six, four, app, kit.NewEndpointSlice("c", resolve.ProxyService))}.Proxies()
	address := netip.MustParseAddr
	want := map[model.Fleet][]model.Proxy{"a": {
		{Name: "10.0.0.5", Addresses: []netip.Addr{address("10.0.0.5")}, IsReady: true, IsServing: true},
		{Name: "ending", Addresses: []netip.Addr{address("10.0.0.3")}, IsServing: true},
		{
			Name: "fine", Addresses: []netip.Addr{address("10.0.0.1"), address("fd00::1")}, Zone: "east", Node: "node-1",
			IsReady: true, IsServing: true,
		},
		{Name: "published", Addresses: []netip.Addr{address("10.0.0.4")}},
		{Name: "starting", Addresses: []netip.Addr{address("10.0.0.2")}},
	}, "c": {}}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("proxies (-want +got):\n%s", diff)
	}
}

// TestStrictFleets has the modes of Services kedify-proxy, as a list and as changes of a Resolver. The annotation has no
// meaning on other Services.
func TestStrictFleets(t *testing.T) {
	t.Parallel()
	const invalid = "none"
	for _, test := range []struct {
		byDefault bool
		set       *string
		want      bool
	}{
		{false, nil, false},
		{true, nil, true},
		{false, new("strict"), true},
		{true, new("permissive"), false},
		{false, new("permissive"), false},
		{false, new(invalid), true},
		{false, new(""), true},
	} {
		service := kit.NewService("a", resolve.ProxyService)
		if test.set != nil {
			service.Annotations = map[string]string{"http.kedify.io/proxy-authentication": *test.set}
		}
		reduced := resolve.NewService(service)
		if isInvalid := test.set != nil && (*test.set == invalid || *test.set == ""); isInvalid != (reduced.Fleet.Problem() != "") {
			t.Errorf("%+v: problem %q", test, reduced.Fleet.Problem())
		}
		slices := kit.ResolveEndpointSlices(kit.NewEndpointSlice("a", resolve.ProxyService, "10.0.0.1"))
		inputs := resolve.Inputs{
			Services: []*resolve.Service{reduced}, EndpointSlices: slices, Options: resolve.Options{NeedTokens: test.byDefault},
		}
		if got := inputs.Proxies()["a"]; len(got) != 1 || got[0].NeedsToken != test.want {
			t.Errorf("%+v: %+v", test, got)
		}
		resolver := resolve.NewResolver(inputs.Options, nil)
		resolver.Update(resolve.Change{EndpointSlices: map[model.Key]*resolve.EndpointSlice{slices[0].Key: slices[0]}})
		outcome := resolver.Update(resolve.Change{Services: map[model.Key]*resolve.Service{reduced.Key: reduced}})
		if got := outcome.Proxies["a"]; len(got) != 1 || got[0].NeedsToken != test.want {
			t.Errorf("%+v, changed: %+v", test, got)
		}
	}
	other := kit.NewService("a", "shop")
	other.Annotations = map[string]string{"http.kedify.io/proxy-authentication": "strict"}
	if resolve.NewService(other).Fleet != nil {
		t.Error("the annotation counts on another Service")
	}
}
