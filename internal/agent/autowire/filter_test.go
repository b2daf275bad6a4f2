package autowire_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// TestFilters has filters of rules and backendRefs of HTTPRoutes.
func TestFilters(t *testing.T) {
	t.Parallel()
	inRule := func(filters string) string { return route("shop.test", "filters: ["+filters+"], "+toShop) }
	inRef := func(filters string) string {
		return route("shop.test", "backendRefs: [{name: shop, port: 80, filters: ["+filters+"]}]")
	}
	accepting := func(route, names string) string {
		return strings.Replace(route, "name: web,", `name: web, annotations: {http.kedify.io/autowire-accept: "`+names+`"},`, 1)
	}
	unknown := func(text, name string) string {
		return "UnsupportedFilter: HTTPRoute web, shop.test/: filter " + text + " may change its requests in a way that the " +
			"agent cannot determine; remove it, or list " + name + " in annotation http.kedify.io/autowire-accept of the " +
			"HTTPRoute if it changes neither host nor path, and answers no request that the application must receive"
	}
	const (
		envoyGateway = `{type: ExtensionRef, extensionRef: {group: gateway.envoyproxy.io, kind: HTTPRouteFilter, name: rewrite}}`
		traefik      = `{type: ExtensionRef, extensionRef: {group: traefik.io, kind: Middleware, name: strip}}`
		headers      = `{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-a, value: b}], add: [{name: b, value: c}], remove: [host]}}`
		host         = `{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: b}, {name: hOST, value: cart.test}]}}`
		authority    = `{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: ":authority", value: cart.test}]}}`
		response     = `{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: host, value: b}]}}`
		mirror       = `{type: RequestMirror, requestMirror: {backendRef: {name: shop, port: 80}, percent: 10}}`
		redirect     = `{type: RequestRedirect, requestRedirect: {scheme: https}}`
		cors         = `{type: CORS, cors: {allowOrigins: ["*"]}}`
		auth         = `{type: ExternalAuth, externalAuth: {protocol: GRPC, backendRef: {name: auth, port: 9000}}}`
		future       = `{type: PathTransform, pathTransform: {}}`
		rewrite      = `{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}`
		wired        = "Wired: HTTPRoute web, shop.test/"
		ofGateway    = "ExtensionRef HTTPRouteFilter/rewrite"
	)
	tests := map[string]struct{ route, want string }{
		"Envoy Gateway":                  {inRule(envoyGateway), unknown(ofGateway, "HTTPRouteFilter/rewrite")},
		"Traefik":                        {inRule(traefik), unknown("ExtensionRef Middleware/strip", "Middleware/strip")},
		"of the backendRef":              {inRef(envoyGateway), unknown(ofGateway, "HTTPRouteFilter/rewrite")},
		"after a known one":              {inRule(rewrite + "," + envoyGateway), unknown(ofGateway, "HTTPRouteFilter/rewrite")},
		"accepted":                       {accepting(inRule(envoyGateway), "HTTPRouteFilter/rewrite"), wired},
		"another one accepted":           {accepting(inRule(envoyGateway), "HTTPRouteFilter/other, rewrite"), unknown(ofGateway, "HTTPRouteFilter/rewrite")},
		"one of two accepted":            {accepting(inRule(envoyGateway+","+traefik), "HTTPRouteFilter/rewrite"), unknown("ExtensionRef Middleware/strip", "Middleware/strip")},
		"both accepted":                  {accepting(inRule(envoyGateway+","+traefik), " Middleware/strip , HTTPRouteFilter/rewrite"), wired},
		"a type of a later version":      {inRule(future), unknown("PathTransform", "PathTransform")},
		"a later version's, accepted":    {accepting(inRef(future), "PathTransform"), wired},
		"headers":                        {inRule(headers), wired},
		"header Host":                    {inRule(host), unknown("RequestHeaderModifier with header Host", "RequestHeaderModifier")},
		"header Host, of the backendRef": {inRef(authority), unknown("RequestHeaderModifier with header Host", "RequestHeaderModifier")},
		"response headers":               {inRule(response), wired},
		"a mirror":                       {inRule(mirror), wired},
		"a mirror of the backendRef":     {inRef(mirror), wired},
		"a redirect":                     {inRule(redirect), wired},
		"CORS":                           {inRule(cors), wired},
		"an authorization service":       {inRule(auth), wired},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, test.route)
			w.Targets = []autowire.Target{target("shop", "shop.test")}
			condition := w.converge(t).Conditions["shop"]
			if got := condition.Reason + ": " + condition.Message; got != test.want {
				t.Errorf("condition %q, want %q", got, test.want)
			}
			if isWired := strings.Contains(w.stored[0], "kedify-proxy"); isWired != (condition.Reason == "Wired") {
				t.Errorf("wired: %v\n%s", isWired, asYAML(t, w.stored[0]))
			}
			if diff := cmp.Diff(canonicalJSON(t, test.route), w.unwired(t)[0]); diff != "" {
				t.Errorf("unwired (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFilterIsAdded adds a filter to a wired rule of a route with two rules, and removes it.
func TestFilterIsAdded(t *testing.T) {
	t.Parallel()
	original := `{kind: HTTPRoute, metadata: {name: web, namespace: team}, spec: {hostnames: [shop.test], rules: [
		{matches: [{path: {value: /a}}], backendRefs: [{name: shop, port: 80}]},
		{matches: [{path: {value: /b}}], backendRefs: [{name: shop, port: 80}]}]}}`
	w := newFixture(t, original)
	w.Targets = []autowire.Target{target("shop", "shop.test")}
	w.converge(t)
	if count := proxied(w.stored[0]); count != 2 {
		t.Fatalf("%d backends are wired:\n%s", count, asYAML(t, w.stored[0]))
	}
	setFilters := func(filters ...any) {
		w.stored[0] = edited(t, w.stored[0], func(route map[string]any) {
			rules := route["spec"].(map[string]any)["rules"].([]any)
			rules[1].(map[string]any)["filters"] = filters
		})
	}
	ref := map[string]any{"group": "traefik.io", "kind": "Middleware", "name": "strip"}
	setFilters(map[string]any{"type": "ExtensionRef", "extensionRef": ref})
	condition := w.converge(t).Conditions["shop"]
	if proxied(w.stored[0]) != 1 || condition.Status != "False" || !strings.Contains(condition.Message, "shop.test/b: filter ExtensionRef Middleware/strip") {
		t.Errorf("with the filter: %+v\n%s", condition, asYAML(t, w.stored[0]))
	}
	setFilters()
	if condition = w.converge(t).Conditions["shop"]; proxied(w.stored[0]) != 2 || condition.Status != "True" {
		t.Errorf("without it: %+v\n%s", condition, asYAML(t, w.stored[0]))
	}
}
