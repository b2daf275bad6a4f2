package autowire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// shopRoute is an HTTPRoute with much that is not ours.
const shopRoute = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, annotations: {team: a}}
spec:
  parentRefs: [{name: gateway, sectionName: web}]
  hostnames: [shop.test, www.test]
  future: {of: the spec}
  rules:
  - name: cart
    matches: [{path: {type: PathPrefix, value: /cart}, headers: [{name: tenant, value: a}]}]
    backendRefs: [{name: cart, port: 80, weight: 3}]
  - matches: [{path: {type: PathPrefix, value: /}, future: kept}]
    filters: [{type: RequestMirror, requestMirror: {backendRef: {name: shop, port: 80}}}]
    backendRefs:
    - {name: other, port: 80, weight: 10, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: [a]}}]}
    - {group: "", kind: Service, namespace: team, name: shop, port: 80, weight: 90, future: kept,
       filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [b]}}]}
    - {name: shop, namespace: elsewhere, port: 80}
    - {name: shop, group: multicluster.x-k8s.io, kind: ServiceImport, port: 80}
`

// TestWireHTTPRoute compares one complete HTTPRoute before, while and after it is wired.
func TestWireHTTPRoute(t *testing.T) {
	t.Parallel()
	original := strings.Replace(shopRoute, "name: web,", "name: web, namespace: team,", 1)
	w := newFixture(t, original)
	w.Targets = []autowire.Target{target("shop", "shop.test", "www.test")}
	found := w.converge(t)
	want := strings.Replace(original, "name: shop, port: 80, weight: 90", "name: kedify-proxy, port: 8080, weight: 90", 1)
	want = strings.Replace(want, "team: a", `team: a, http.kedify.io/autowire-undo: '[`+
		`{"op":"test","path":"/spec/hostnames","value":["shop.test","www.test"]},`+
		`{"op":"test","path":"/spec/rules/1/matches","value":[{"future":"kept","path":{"type":"PathPrefix","value":"/"}}]},`+
		`{"op":"test","path":"/spec/rules/1/backendRefs/1/name","value":"kedify-proxy"},`+
		`{"op":"replace","path":"/spec/rules/1/backendRefs/1/name","value":"shop"},`+
		`{"op":"replace","path":"/spec/rules/1/backendRefs/1/port","value":80},`+
		`{"op":"remove","path":"/metadata/annotations/http.kedify.io~1autowire-undo","value":null}]'`, 1)
	if diff := cmp.Diff(asYAML(t, canonicalJSON(t, want)), asYAML(t, w.stored[0])); diff != "" {
		t.Errorf("wired (-want +got):\n%s", diff)
	}
	says := fmt.Sprintf("%s: %s", found.Changes[0].Reason, found.Changes[0].Message)
	if want := "Wired: backends for shop.test/ and others point to Service kedify-proxy"; says != want {
		t.Errorf("Event %q, want %q", says, want)
	}
	condition := found.Conditions["shop"]
	if condition.Status != "True" || condition.Reason != "Wired" || condition.Message != "HTTPRoute web, shop.test/ and others" {
		t.Errorf("condition %+v", condition)
	}
	if diff := cmp.Diff(canonicalJSON(t, original), w.unwired(t)[0]); diff != "" {
		t.Errorf("unwired (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(canonicalJSON(t, original), patched(t, w.stored[0], annotation(t, w.stored[0], undo))); diff != "" {
		t.Errorf("unwired by the annotation (-want +got):\n%s", diff)
	}
}

// route returns an HTTPRoute with one rule, given as YAML, for hosts.
func route(hosts, rule string) string {
	return `{kind: HTTPRoute, metadata: {name: web, namespace: team, labels: {app: shop}}, spec: {hostnames: [` + hosts + `], rules: [{` + rule + `}]}}`
}

// toShop is a backend.
const toShop = `backendRefs: [{name: shop, port: 80}]`

// TestHTTPRouteConditions has one rule in each case.
func TestHTTPRouteConditions(t *testing.T) {
	t.Parallel()
	paths := func(prefixes ...string) autowire.Target {
		made := target("shop", "shop.test")
		made.PathPrefixes = prefixes
		return made
	}
	of := func(kind trigger.AutowireKind) autowire.Target {
		made := target("shop", "shop.test")
		made.Kinds = []trigger.AutowireKind{kind}
		return made
	}
	matching := func(kind, value string) string {
		return `matches: [{path: {type: ` + kind + `, value: ` + value + `}}], ` + toShop
	}
	tests := map[string]struct {
		route  string
		target autowire.Target
		says   string // the condition's reason, and a part of its message
	}{
		"same host":                   {route("shop.test", toShop), target("shop", "shop.test"), "Wired: HTTPRoute web, shop.test/"},
		"another host":                {route("cart.test", toShop), target("shop", "shop.test"), "NoMatchingBackend: no Ingress, HTTPRoute, VirtualService or Route has a backend with Service shop"},
		"one of two hosts":            {route("cart.test, shop.test", toShop), target("shop", "shop.test"), "Wired: HTTPRoute web, cart.test/ and others (requests that match no trigger get status 404)"},
		"the hosts of its listeners":  {route("", toShop), target("shop", "shop.test"), "Wired: HTTPRoute web, / (requests that match no trigger get status 404)"},
		"a wildcard":                  {route(`"*.test"`, toShop), target("shop", "shop.test"), "Wired: HTTPRoute web, *.test/ (requests"},
		"another Service":             {route("shop.test", `backendRefs: [{name: cart, port: 80}]`), target("shop", "shop.test"), "NoMatchingBackend"},
		"another port":                {route("shop.test", `backendRefs: [{name: shop, port: 81}]`), target("shop", "shop.test"), "NoMatchingBackend"},
		"no port":                     {route("shop.test", `backendRefs: [{name: shop}]`), target("shop", "shop.test"), "NoMatchingBackend"},
		"port out of range":           {route("shop.test", `backendRefs: [{name: shop, port: 4294967376}]`), target("shop", "shop.test"), "NoMatchingBackend"},
		"no rule":                     {`{kind: HTTPRoute, metadata: {name: web}, spec: {}}`, target("shop", "shop.test"), "NoMatchingBackend"},
		"a rule without a backend":    {route("shop.test", `filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]`), target("shop", "shop.test"), "NoMatchingBackend"},
		"in its namespace, by name":   {route("shop.test", `backendRefs: [{name: shop, namespace: team, port: 80}]`), target("shop", "shop.test"), "Wired"},
		"in another namespace":        {route("shop.test", `backendRefs: [{name: shop, namespace: b, port: 80}]`), target("shop", "shop.test"), "NoMatchingBackend"},
		"another kind":                {route("shop.test", `backendRefs: [{name: shop, kind: ServiceImport, port: 80}]`), target("shop", "shop.test"), "NoMatchingBackend"},
		"another group":               {route("shop.test", `backendRefs: [{name: shop, group: a, port: 80}]`), target("shop", "shop.test"), "NoMatchingBackend"},
		"a shorter prefix":            {route("shop.test", matching("PathPrefix", "/api/v1")), paths("/api"), "Wired: HTTPRoute web, shop.test/api/v1"},
		"a longer prefix":             {route("shop.test", matching("PathPrefix", "/")), paths("/api"), "Wired: HTTPRoute web, shop.test/ (requests"},
		"another prefix":              {route("shop.test", matching("PathPrefix", "/api")), paths("/ap"), "NoMatchingBackend"},
		"an exact path":               {route("shop.test", matching("Exact", "/api")), paths("/api"), "Wired: HTTPRoute web, shop.test/api"},
		"exact path of another app":   {route("shop.test", matching("Exact", "/")), paths("/api"), "NoMatchingBackend"},
		"an expression":               {route("shop.test", matching("RegularExpression", `"/api/v[12]"`)), paths("/api"), "Wired"},
		"another expression":          {route("shop.test", matching("RegularExpression", "/a/b.*")), paths("/api"), "NoMatchingBackend"},
		"one of two paths":            {route("shop.test", `matches: [{path: {value: /x}}, {path: {value: /api}}], `+toShop), paths("/api"), "Wired: HTTPRoute web, shop.test/x and others (requests"},
		"a header":                    {route("shop.test", `matches: [{headers: [{name: a, value: b}]}], `+toShop), target("shop", "shop.test"), "Wired: HTTPRoute web, shop.test/"},
		"another host by a filter":    {route("shop.test", `filters: [{urlRewrite: {hostname: b.test}}], `+toShop), target("shop", "shop.test"), "NoMatchingBackend"},
		"target host by a filter":     {route("b.test", `filters: [{urlRewrite: {hostname: shop.test}}], `+toShop), target("shop", "shop.test"), "Wired: HTTPRoute web, b.test/"},
		"target path by a filter":     {route("shop.test", `matches: [{path: {value: /x}}], filters: [{urlRewrite: {path: {replacePrefixMatch: /api}}}], `+toShop), paths("/api"), "Wired: HTTPRoute web, shop.test/x"},
		"another path by a filter":    {route("shop.test", `matches: [{path: {value: /api}}], filters: [{urlRewrite: {path: {replaceFullPath: /}}}], `+toShop), paths("/api"), "NoMatchingBackend"},
		"by a filter of the backend":  {route("b.test", `backendRefs: [{name: shop, port: 80, filters: [{urlRewrite: {hostname: shop.test}}]}]`), target("shop", "shop.test"), "Wired"},
		"the same Service twice":      {route("shop.test", `backendRefs: [{name: shop, port: 80, weight: 1}, {name: shop, port: 80, weight: 2}]`), target("shop", "shop.test"), "Wired: HTTPRoute web, shop.test/; HTTPRoute web, shop.test/"},
		"HTTPRoutes only":             {route("shop.test", toShop), of(trigger.AutowireHTTPRoute), "Wired"},
		"Ingresses only":              {route("shop.test", toShop), of(trigger.AutowireIngress), "NoMatchingBackend: no Ingress has a backend"},
		"manual":                      {route("shop.test", `backendRefs: [{name: kedify-proxy, port: 8080}]`), target("shop", "shop.test"), "Wired: HTTPRoute web, shop.test/"},
		"with a manual proxy backend": {route("shop.test", `backendRefs: [{name: shop, port: 80, weight: 9}, {name: kedify-proxy, port: 8080, weight: 1}]`), target("shop", "shop.test"), "UnsupportedSetting: HTTPRoute web, shop.test/: its rule also has a backend that the agent did not write, Service kedify-proxy"},
		"a Rollout's router":          {route("shop.test", toShop), target("shop", "shop.test"), "ManagedByTrafficRouter: HTTPRoute web, shop.test/: plugin argoproj-labs/gatewayAPI of Rollout team/shop manages its weights"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.route)
			w.Targets = []autowire.Target{test.target}
			if strings.HasPrefix(test.says, "ManagedByTrafficRouter") {
				w.rollouts = []apis.Rollout{rollout(t, "team", `{httpRoute: web}`)}
			}
			condition := w.converge(t).Conditions["shop"]
			if says := condition.Reason + ": " + condition.Message; !strings.HasPrefix(says, test.says) {
				t.Errorf("condition %q, want %q", says, test.says)
			}
			isWired := condition.Reason == "Wired"
			isMarked := annotation(t, w.stored[0], undo) != ""
			if isMarked != isWired && name != "manual" {
				t.Errorf("wired: %v\n%s", isMarked, asYAML(t, w.stored[0]))
			}
			if isWired != (condition.Status == "True") {
				t.Errorf("condition %+v", condition)
			}
			if diff := cmp.Diff(canonicalJSON(t, test.route), w.unwired(t)[0]); diff != "" {
				t.Errorf("unwired (-want +got):\n%s", diff)
			}
		})
	}
}

// rollout returns a Rollout with a plugin configuration.
func rollout(t *testing.T, namespace, config string) apis.Rollout {
	t.Helper()
	var made apis.Rollout
	text := `{metadata: {namespace: ` + namespace + `, name: shop}, spec: {strategy: {canary: {trafficRouting: {plugins: {
		argoproj-labs/gatewayAPI: ` + config + `}}}}}}`
	if err := yaml.UnmarshalStrict([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	return made
}

// TestRoutings has configurations of plugin argoproj-labs/gatewayAPI and HTTPRoute web of namespace team with
// label app: shop.
func TestRoutings(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		namespace, config string
		isRouted          bool
		namespaces        []string
	}{
		"by its name":                       {"team", `{httpRoute: web}`, true, []string{"team"}},
		"with different spelling":           {"team", `{HTTPROUTE: web}`, true, []string{"team"}},
		"another one":                       {"team", `{httpRoute: api}`, false, []string{"team"}},
		"in a list":                         {"team", `{httpRoutes: [{name: api}, {name: web, useHeaderRoutes: true}]}`, true, []string{"team"}},
		"from another namespace":            {"other", `{httpRoute: web, namespace: team}`, true, []string{"team"}},
		"from another namespace, in a list": {"other", `{httpRoutes: [{name: web, namespace: team}]}`, true, []string{"other", "team"}},
		"other namespace":                   {"other", `{httpRoute: web}`, false, []string{"other"}},
		"other namespace, in a list":        {"team", `{httpRoutes: [{name: web, namespace: other}]}`, false, []string{"team", "other"}},
		"by its labels":                     {"team", `{httpRouteSelector: {matchLabels: {app: shop}}}`, true, []string{"team"}},
		"by labels, other namespace":        {"other", `{httpRouteSelector: {matchLabels: {app: shop}}}`, false, []string{"other"}},
		"by other labels":                   {"team", `{httpRouteSelector: {matchLabels: {app: cart}}}`, false, []string{"team"}},
		"a route of another protocol":       {"team", `{grpcRoute: web}`, false, []string{"team"}},
		"unreadable":                        {"team", `[web]`, false, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := rollout(t, test.namespace, test.config)
			var namespaces []string
			for _, routing := range autowire.Routings(made) {
				namespaces = append(namespaces, routing.Namespaces()...)
			}
			if diff := cmp.Diff(test.namespaces, namespaces); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
			w := newFixture(t, route("shop.test", toShop))
			w.Targets, w.rollouts = []autowire.Target{target("shop", "shop.test")}, []apis.Rollout{{}, made}
			if got := w.converge(t).Conditions["shop"].Reason == "ManagedByTrafficRouter"; got != test.isRouted {
				t.Errorf("routed: %v\n%s", got, asYAML(t, w.stored[0]))
			}
		})
	}
}

// TestRolloutTakesOverRoute has a Rollout reference a route that is wired, and an Ingress that stays wired.
func TestRolloutTakesOverRoute(t *testing.T) {
	t.Parallel()
	w := newFixture(t, route("shop.test", toShop), ingress("shop.test", "Prefix", "/", port80))
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.converge(t)
	w.rollouts = []apis.Rollout{rollout(t, "team", `{httpRoute: web}`)}
	condition := w.converge(t).Conditions["shop"]
	if diff := cmp.Diff(canonicalJSON(t, route("shop.test", toShop)), w.stored[0]); diff != "" {
		t.Errorf("the route (-want +got):\n%s", diff)
	}
	if condition.Status != "True" || !strings.Contains(condition.Message, "manages its weights") || !strings.Contains(condition.Message, "Ingress web") {
		t.Errorf("condition %+v", condition)
	}
	w.rollouts = nil
	if w.converge(t); !strings.Contains(w.stored[0], "kedify-proxy") {
		t.Errorf("the Rollout is gone:\n%s", asYAML(t, w.stored[0]))
	}
}

// TestRuleWithTwoTriggers has a rule with weights for Services of two triggers: the proxies would not keep the
// weights.
func TestRuleWithTwoTriggers(t *testing.T) {
	t.Parallel()
	original := route("shop.test", `backendRefs: [{name: shop, port: 80, weight: 90}, {name: cart, port: 80, weight: 10}]`)
	w := newFixture(t, original)
	cart := target("cart", "shop.test")
	cart.Service = "cart"
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	if reason := w.converge(t).Conditions["shop"].Reason; reason != "Wired" {
		t.Errorf("one trigger: %s", reason)
	}
	w.Targets = append(w.Targets, cart)
	found := w.converge(t)
	for name, other := range map[string]string{"shop": "cart", "cart": "shop"} {
		want := "HTTPRoute web, shop.test/: its rule also splits traffic to Service " + other +
			" of another trigger; the proxies would not keep its weights"
		if got := found.Conditions[name]; got.Reason != "UnsupportedSetting" || got.Message != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if diff := cmp.Diff(canonicalJSON(t, original), w.stored[0]); diff != "" {
		t.Errorf("two triggers (-want +got):\n%s", diff)
	}
}
