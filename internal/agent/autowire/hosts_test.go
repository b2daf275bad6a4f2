package autowire_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestTargetHosts has the hosts of an HTTPScaledObject. The interceptor routes requests for exactly these: the shared
// fleet is that of namespace keda.
func TestTargetHosts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		namespace string
		isShared  bool
		hosts     []string
		want      []string
	}{
		"none":                             {"team", false, nil, []string{"*"}},
		"every host":                       {"team", false, []string{"*"}, []string{"*"}},
		"none, shared fleet":               {"team", true, nil, nil},
		"every host, shared fleet":         {"team", true, []string{"*"}, []string{"*"}},
		"none, in the shared namespace":    {"keda", false, nil, nil},
		"none, annotated in that":          {"keda", true, nil, nil},
		"every host, shared namespace":     {"keda", false, []string{"*"}, []string{"*"}},
		"spelling, port and trailing dot":  {"team", false, []string{"Shop.Test:8443", "www.test."}, []string{"shop.test", "www.test"}},
		"an IPv6 address":                  {"team", false, []string{"[2001:DB8:0::1]:80"}, []string{"[2001:db8::1]"}},
		"one of two is invalid":            {"team", false, []string{"http://shop.test", "www.test"}, []string{"www.test"}},
		"an invalid one is not every host": {"team", false, []string{"*shop.test"}, nil},
		"an empty one":                     {"team", false, []string{""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := kit.NewScaledObject(test.namespace, "shop", "shop", 1, test.hosts...)
			object.Annotations = map[string]string{httpv1alpha1.AnnotationTrafficAutowire: "ingress"}
			if test.isShared {
				object.Annotations[httpv1alpha1.AnnotationFleet] = httpv1alpha1.FleetShared
			}
			got, _ := autowire.TargetOf(object, "keda")
			if diff := cmp.Diff(test.want, got.Hosts, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("hosts (-want +got):\n%s", diff)
			}
			if want := test.isShared && test.namespace != "keda"; got.IsShared != want {
				t.Errorf("IsShared = %v", got.IsShared)
			}
			config, _ := resolve.Build(resolve.Inputs{
				ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object},
				Services:      kit.ResolveServices(kit.NewService(test.namespace, "shop")),
				Options:       resolve.Options{SharedFleet: "keda"},
			})
			var routed []string
			for _, route := range config.Routes {
				routed = append(routed, string(route.Match.Host))
			}
			if diff := cmp.Diff(test.want, routed, cmpopts.EquateEmpty(), cmpopts.SortSlices(strings.Compare)); diff != "" {
				t.Errorf("hosts that package resolve routes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnreadableHosts has a list of hosts that cannot be decoded: it does not mean every host.
func TestUnreadableHosts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`{hosts: shop.test, scaleTargetRef: {service: shop, port: 80}}`:       nil,
		`{hosts: [shop.test], scaleTargetRef: {service: shop, port: eighty}}`: {"shop.test"},
		`{hosts: null, scaleTargetRef: {service: shop, port: 80}}`:            {"*"},
		`{hosts: [], scaleTargetRef: {service: shop, port: 80}}`:              {"*"},
	} {
		var object httpv1alpha1.HTTPScaledObject
		if err := yaml.Unmarshal([]byte(`{metadata: {namespace: team, name: shop}, spec: `+text+`}`), &object); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, autowire.RivalOf(&object, "keda").Hosts, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// everyHost returns a target without hosts, and perhaps with path prefixes, as TargetOf does.
func everyHost(prefixes ...string) autowire.Target {
	object := kit.NewScaledObject("team", "shop", "shop", 1)
	object.Annotations = map[string]string{httpv1alpha1.AnnotationTrafficAutowire: "ingress,httproute"}
	object.Spec.PathPrefixes = prefixes
	made, _ := autowire.TargetOf(object, "keda")
	made.Port, made.IsProgrammed = networkingv1.ServiceBackendPort{Number: 80}, true
	return made
}

// TestWithoutHosts has an HTTPScaledObject without hosts, which receives requests for every host.
func TestWithoutHosts(t *testing.T) {
	t.Parallel()
	shared := everyHost()
	shared.Hosts, shared.IsShared = nil, true
	for name, test := range map[string]struct {
		object string
		target autowire.Target
		want   string // the beginning of the condition's reason and message
	}{
		"a host":            {ingress("shop.test", "Prefix", "/", port80), everyHost(), "Wired: Ingress web, shop.test/"},
		"a wildcard":        {ingress("*.test", "Prefix", "/", port80), everyHost(), "Wired: Ingress web, *.test/"},
		"no host":           {ingress("", "Prefix", "/", port80), everyHost(), "Wired: Ingress web, /"},
		"default backend":   {`{metadata: {name: web}, spec: {defaultBackend: {service: ` + port80 + `}}}`, everyHost(), "Wired: Ingress web, the default backend"},
		"another Service":   {ingress("shop.test", "Prefix", "/", `{name: cart, port: {number: 80}}`), everyHost(), "NoMatchingBackend: no Ingress or HTTPRoute"},
		"its path":          {ingress("shop.test", "Prefix", "/api/v1", port80), everyHost("/api"), "Wired: Ingress web, shop.test/api/v1"},
		"another path":      {ingress("shop.test", "Prefix", "/cart", port80), everyHost("/api"), "NoMatchingBackend"},
		"a part of a path":  {ingress("", "Prefix", "/", port80), everyHost("/api"), "Wired: Ingress web, / (requests that match no trigger"},
		"a route":           {route("shop.test, cart.test", toShop), everyHost(), "Wired: HTTPRoute web, shop.test/ and others"},
		"route, no hosts":   {route("", toShop), everyHost(), "Wired: HTTPRoute web, /"},
		"route, rewritten":  {route("shop.test", `filters: [{urlRewrite: {hostname: b.test}}], `+toShop), everyHost(), "Wired: HTTPRoute web, shop.test/"},
		"the shared fleet":  {route("shop.test", toShop), shared, "NoMatchingBackend: the HTTPScaledObject has no valid host, so the proxies route no request to it; see its condition Accepted"},
		"a set of prefixes": {route("", `matches: [{path: {value: /a}}, {path: {value: /api}}], `+toShop), everyHost("/a", "/api"), "Wired: HTTPRoute web, /a and others"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.object)
			w.Targets = []autowire.Target{test.target}
			condition := w.converge(t).Conditions["shop"]
			got := condition.Reason + ": " + condition.Message
			hasUnmatched := strings.Contains(got, "status 404")
			if !strings.HasPrefix(got, test.want) || hasUnmatched != strings.Contains(test.want, "(requests") {
				t.Errorf("condition %q, want %q", got, test.want)
			}
			if isWired := strings.Contains(w.stored[0], "kedify-proxy"); isWired != (condition.Reason == "Wired") {
				t.Errorf("wired: %v\n%s", isWired, asYAML(t, w.stored[0]))
			}
			if diff := cmp.Diff(canonicalJSON(t, test.object), w.unwired(t)[0]); diff != "" {
				t.Errorf("unwired (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPrecedence has a second HTTPScaledObject, for Service other, that the proxies prefer for some requests.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	rival := func(hosts string, prefixes ...string) autowire.Target {
		return autowire.Target{
			Name: "rival", Hosts: strings.Fields(hosts), PathPrefixes: prefixes, Service: "other",
			Port: networkingv1.ServiceBackendPort{Number: 80}, IsProgrammed: true,
			Kinds: []trigger.AutowireKind{trigger.AutowireIngress},
		}
	}
	with := func(edit func(*autowire.Target)) autowire.Target {
		edited := rival("shop.test")
		edit(&edited)
		return edited
	}
	of := func(hosts string, prefixes ...string) autowire.Target {
		made := target("shop", strings.Fields(hosts)...)
		made.PathPrefixes = prefixes
		return made
	}
	const lost = `RequestMismatch: Ingress web, shop.test/login: the proxies would match its requests for shop.test/login ` +
		`with HTTPScaledObject "rival", whose host or path prefix is the most specific; ` +
		`add host "shop.test" and path prefix "/login" to the trigger of HTTPScaledObject "shop"`
	login := ingress("shop.test", "Prefix", "/login", port80)
	for name, test := range map[string]struct {
		object        string
		target, rival autowire.Target
		want          string
	}{
		"its host for every host":            {login, everyHost("/login"), rival("shop.test"), lost},
		"its host for another path":          {login, everyHost("/login"), rival("shop.test", "/cart"), lost},
		"its wildcard for every host":        {login, everyHost(), rival("*.test"), lost},
		"its host for a wildcard":            {login, of("*.test"), rival("shop.test"), lost},
		"a longer wildcard":                  {ingress("a.shop.test", "Prefix", "/", port80), of("*.test"), rival("*.shop.test"), "RequestMismatch"},
		"a longer path prefix":               {login, of("shop.test"), rival("shop.test", "/login"), lost},
		"headers on its host":                {login, everyHost(), with(func(t *autowire.Target) { t.IsPartial = true }), lost},
		"every host for a part of the rule":  {ingress("", "Prefix", "/", port80), of("shop.test"), rival("*"), "RequestMismatch"},
		"a part of the hosts of the rule":    {ingress("", "Prefix", "/", port80), everyHost(), rival("shop.test"), "Wired"},
		"the same host and a shorter prefix": {login, of("shop.test", "/login"), rival("shop.test"), "Wired"},
		"the same host and prefix":           {login, of("shop.test", "/login"), rival("shop.test", "/login"), "Wired"},
		"headers on the same host":           {login, of("shop.test"), with(func(t *autowire.Target) { t.IsPartial = true }), "Wired"},
		"another host":                       {login, everyHost(), rival("cart.test"), "Wired"},
		"the same Service":                   {login, everyHost(), with(func(t *autowire.Target) { t.Service = "shop" }), "Wired"},
		"another fleet":                      {login, everyHost(), with(func(t *autowire.Target) { t.IsShared = true }), "Wired"},
		"no host":                            {login, everyHost(), with(func(t *autowire.Target) { t.Hosts = nil }), "Wired"},
	} {
		for _, isTarget := range []bool{true, false} { // the proxies also serve objects that opt out
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newFixture(t, test.object)
				w.Targets = []autowire.Target{test.target}
				if isTarget {
					w.Targets = append(w.Targets, test.rival)
				} else {
					w.Rivals = []autowire.Target{test.rival}
				}
				condition := w.converge(t).Conditions["shop"]
				if got := condition.Reason + ": " + condition.Message; !strings.HasPrefix(got, test.want) {
					t.Errorf("condition %q, want %q", got, test.want)
				}
				if isWired := strings.Contains(w.stored[0], "kedify-proxy"); isWired != (condition.Reason == "Wired") {
					t.Errorf("wired: %v\n%s", isWired, asYAML(t, w.stored[0]))
				}
			})
		}
	}
}
