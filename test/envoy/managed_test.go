package envoy_test

import (
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
)

// canaryWith returns the object shop with a canary at a weight, and with header and mirror routes.
func canaryWith(weight uint32, routes ...managedroute.Route) *httpv1alpha1.HTTPScaledObject {
	object := kit.WithSplit(kit.NewScaledObject(namespace, "shop", "stable", 1, "shop.example.com", "*.shop.example.com"),
		split.Backend{Service: "stable", Weight: 100 - weight}, split.Backend{Service: "canary", Weight: weight})
	return kit.WithAnnotation(object, httpv1alpha1.AnnotationManagedRoutes, managedroute.Format(routes))
}

// condition returns a condition on a string.
func condition(kind managedroute.MatchType, value string) managedroute.StringMatch {
	return managedroute.StringMatch{Type: kind, Value: value}
}

// onHeader returns a condition on a header.
func onHeader(name string, condition managedroute.StringMatch) managedroute.HeaderMatch {
	return managedroute.HeaderMatch{Name: name, StringMatch: condition}
}

// TestHeaderRoutes: at weight 0 the canary receives exactly the requests that match a header route.
func TestHeaderRoutes(t *testing.T) {
	t.Parallel()
	stable, canary := startBackend(t, "stable"), startBackend(t, "canary")
	object := canaryWith(0,
		managedroute.Route{
			Name: "qa",
			Matches: []managedroute.Match{
				{Headers: []managedroute.HeaderMatch{onHeader("Role", condition(managedroute.Exact, "qa"))}},
			},
		},
		managedroute.Route{Name: "team", Matches: []managedroute.Match{{Headers: []managedroute.HeaderMatch{
			onHeader("x-team", condition(managedroute.Prefix, "shop-")),
			onHeader("x-user", condition(managedroute.Regex, "[0-9]{2,4}|dev")),
		}}}},
		managedroute.Route{Name: "part", Matches: []managedroute.Match{
			{Method: condition(managedroute.Exact, "GET"), Path: condition(managedroute.Prefix, "/api/")},
			{Path: condition(managedroute.Exact, "/one")},
			{Path: condition(managedroute.Regex, "/v[12]/.*")},
		}})
	object.Spec.PathPrefixes = []string{"/", "/inner"}
	p := start(t, translated(t, newInputs(t, []*backend{stable, canary}, object), translate.DefaultOptions()))
	for _, c := range []struct {
		path   string
		header http.Header
		want   string
	}{
		{"/", nil, "stable"},
		{"/", http.Header{"Role": {"qa"}}, "canary"},
		{"/inner/x?y", http.Header{"Role": {"qa"}}, "canary"},
		{"/", http.Header{"Role": {"QA"}}, "stable"},
		{"/", http.Header{"Role": {"qa2"}}, "stable"},
		{"/", http.Header{"X-Team": {"shop-a"}}, "stable"},
		{"/", http.Header{"X-Team": {"shop-a"}, "X-User": {"42"}}, "canary"},
		{"/", http.Header{"X-Team": {"shop-a"}, "X-User": {"dev"}}, "canary"},
		{"/", http.Header{"X-Team": {"shop-a"}, "X-User": {"12345"}}, "stable"},
		{"/", http.Header{"X-Team": {"a-shop-"}, "X-User": {"42"}}, "stable"},
		{"/api", nil, "canary"},
		{"/api/x?y", nil, "canary"},
		{"/apis", nil, "stable"},
		{"/one", nil, "canary"},
		{"/one?x=/v1/", nil, "canary"},
		{"/one/", nil, "stable"},
		{"/v1/", nil, "canary"},
		{"/v2/x?y=1", nil, "canary"},
		{"/v3/x", nil, "stable"},
		{"/x?y=/v1/", nil, "stable"},
		{"/inner/v1/", nil, "stable"},
		{"/inner", nil, "stable"},
	} {
		for _, host := range []string{"shop.example.com", "Shop.example.com.:80", "a.shop.example.com"} {
			got := p.mustGet(t, "http://"+host+c.path, c.header)
			if got.status != http.StatusOK || got.seen.Backend != c.want {
				t.Errorf("%s%s %v: got %d from %q, want %q", host, c.path, c.header, got.status, got.seen.Backend, c.want)
			}
		}
	}
}

// TestHeaderRouteWithoutCanary: while the canary has no ready endpoint, the requests of its header route are sent to
// the stable Service.
func TestHeaderRouteWithoutCanary(t *testing.T) {
	t.Parallel()
	stable, canary := startBackend(t, "stable"), startBackend(t, "canary")
	object := canaryWith(0, managedroute.Route{Name: "qa", Matches: []managedroute.Match{
		{Headers: []managedroute.HeaderMatch{onHeader("role", condition(managedroute.Exact, "qa"))}},
	}})
	objects := newInputs(t, []*backend{stable, canary}, object)
	with := translated(t, objects, translate.DefaultOptions())
	objects.EndpointSlices = objects.EndpointSlices[:1]
	p := start(t, translated(t, objects, translate.DefaultOptions()))
	qa := http.Header{"Role": {"qa"}}
	if got := p.mustGet(t, "http://shop.example.com/", qa); got.seen.Backend != "stable" {
		t.Errorf("without a canary: %d from %q, want stable", got.status, got.seen.Backend)
	}
	p.update(t, with, "http.kedify-proxy.scoped_rds.kedify-proxy.update_success")
	await.True(t, "the canary answers",
		func() bool { return p.mustGet(t, "http://shop.example.com/", qa).seen.Backend == "canary" })
}

// TestMirrorRoutes counts mirrored requests: they match the percentage, clients do not receive their responses, and
// they are not in the statistics of the canary's requests.
func TestMirrorRoutes(t *testing.T) {
	t.Parallel()
	const requests, percent = 2000, 20
	stable, canary := startBackend(t, "stable"), startBackend(t, "canary")
	object := canaryWith(0,
		managedroute.Route{
			Name: "all", MirrorPercent: 100, Matches: []managedroute.Match{{Path: condition(managedroute.Exact, "/all")}},
		},
		managedroute.Route{
			Name: "some", MirrorPercent: percent, Matches: []managedroute.Match{{Path: condition(managedroute.Prefix, "/some")}},
		})
	p := start(t, translated(t, newInputs(t, []*backend{stable, canary}, object), translate.DefaultOptions()))
	copies := func() int { return p.stat(t, "cluster.apps/shop/canary/mirror.upstream_rq_total") }
	for range 50 {
		p.mustGet(t, "http://shop.example.com/all", nil)
		p.mustGet(t, "http://shop.example.com/other", nil)
	}
	// Envoy sends mirrored requests asynchronously, possibly after the response.
	await.True(t, "one request in two was mirrored", func() bool { return copies() == 50 })
	for i := range requests {
		if got := p.mustGet(t, "http://shop.example.com/some/x", nil); got.status != http.StatusOK ||
			got.seen.Backend != "stable" {
			t.Fatalf("request %d: %d from %q, want stable", i, got.status, got.seen.Backend)
		}
	}
	// Six standard deviations are 107.
	if got := copies() - 50; got < requests*percent/100-107 || got > requests*percent/100+107 {
		t.Errorf("%d of %d requests were mirrored, want %d %%", got, requests, percent)
	}
	if got := p.stat(t, "cluster.apps/shop/canary.upstream_rq_total"); got != 0 {
		t.Errorf("the canary received %d regular requests, want none", got)
	}
}

// TestRegularExpressions: Envoy accepts every regular expression that package managedroute accepts, with Envoy's
// default limit. It tests random expressions, some of them close to the limit.
func TestRegularExpressions(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var (
		routes   []*routev3.Route
		rejected int
	)
	for range 5000 {
		text := randomRegex(random, random.IntN(6))
		match := managedroute.Match{Path: condition(managedroute.Regex, text)}
		if err := managedroute.Validate([]managedroute.Route{{Name: "a", Matches: []managedroute.Match{match}}}); err != nil {
			rejected++
			continue
		}
		routes = append(routes, &routev3.Route{
			Match: &routev3.RouteMatch{
				PathSpecifier: &routev3.RouteMatch_SafeRegex{
					SafeRegex: &matcherv3.RegexMatcher{Regex: managedroute.WithQuery(text)},
				},
			},
			Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: http.StatusOK}},
		})
	}
	if accepted := len(routes); accepted < 2000 || rejected < 500 {
		t.Fatalf("%d random expressions were accepted and %d rejected: too few to test the limit", accepted, rejected)
	}
	resources := translated(t, newInputs(t, nil), translate.DefaultOptions())
	config := kit.NewEnvoyConfig(t, resources)
	changeManager(t, config.Listeners[0], func(manager *hcmv3.HttpConnectionManager) {
		manager.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			VirtualHosts: []*routev3.VirtualHost{{Name: "any", Domains: []string{"*"}, Routes: routes}},
		}}
	})
	p := &proxy{files: t.TempDir()}
	p.write(t, "static.json", &bootstrapv3.Bootstrap{
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{Listeners: []*listenerv3.Listener{config.Listeners[0]}},
	})
	command := exec.CommandContext(t.Context(), envoyproc.Binary(t), "--mode", "validate", "--log-level", "warning",
		"--config-path", filepath.Join(p.files, "static.json"))
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("Envoy rejects an expression (%v):\n%s", err, output)
	}
}

// randomRegex returns a regular expression with a number of levels.
func randomRegex(random *rand.Rand, levels int) string {
	pick := func(choices ...string) string { return choices[random.IntN(len(choices))] }
	if levels == 0 {
		return pick("a", "abc", "xyz", "[a-z]", "[^/]", "[aeiou0-9]", "[acegikmoqsuwy]", ".", `\d`, `\w`, `\.`, `\xe9`,
			"(?i:k)", "(?i:shop)", `\b`, "^", "$",
			"[[:alpha:]_-]", "(?s:.)", `\|`, `\\`, "[|]")
	}
	expression := func() string { return randomRegex(random, levels-1) }
	switch random.IntN(8) {
	case 0:
		return "(?:" + expression() + ")" + pick("*", "*?", "+", "+?", "?", "??")
	case 1:
		return "(" + expression() + "|" + expression() + "|" + expression() + ")"
	case 2:
		return "(?:" + expression() + "){" + pick("2", "0,3", "1,4", "3,") + "}"
	case 3:
		return "(?:" + expression() + "|" + expression() + "|)"
	default:
		return expression() + expression() + expression()
	}
}
