package translate_test

import (
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// probed returns the paths for which a scope answers health checks, in the order of its routes. The first element of
// each is the name of the route.
func probed(t *testing.T, scope *routev3.RouteConfiguration) (paths [][2]string) {
	t.Helper()
	for _, host := range scope.GetVirtualHosts() {
		for _, route := range host.GetRoutes() {
			if route.GetDirectResponse().GetStatus() != 200 {
				continue
			}
			match := route.GetMatch()
			paths = append(paths, [2]string{
				route.GetName(), match.GetPrefix() + match.GetPathSeparatedPrefix() + match.GetPath(),
			})
			var hasAgent bool
			for _, header := range match.GetHeaders() {
				hasAgent = hasAgent || header.GetName() == "user-agent"
			}
			if !hasAgent {
				t.Errorf("route %s answers requests of any client", route.GetName())
			}
		}
	}
	return paths
}

// TestProbeRoutes: only routes whose requests wait, and paths for a static answer, have a route for health checks. It is
// the first one.
func TestProbeRoutes(t *testing.T) {
	t.Parallel()
	withPath := func(config model.Config, path, prefix string) model.Config {
		for i := range config.Routes {
			config.Routes[i].HealthPath, config.Routes[i].Match.PathPrefix = path, prefix
		}
		return config
	}
	never := canaryWithoutEndpoints(0, model.Endpoints{})
	never.Routes[0].MinReplicas = 1
	missing := canaryWithoutEndpoints(0, model.Endpoints{IsMissing: true})
	for name, c := range map[string]struct {
		config model.Config
		want   [][2]string
	}{
		"ready":           {canary(80, 20), nil},
		"at zero":         {canaryWithoutEndpoints(0, model.Endpoints{}), [][2]string{{"apps/shop/probe", "/"}}},
		"canary at zero":  {canaryWithoutEndpoints(1, model.Endpoints{}), nil},
		"never at zero":   {never, nil},
		"missing Service": {missing, nil},
		"static answer":   {withPath(canary(80, 20), "/healthz", "/"), [][2]string{{"apps/shop/probe", "/healthz"}}},
		"static answer at zero": {
			withPath(canaryWithoutEndpoints(0, model.Endpoints{}), "/healthz", "/"), [][2]string{{"apps/shop/probe", "/"}},
		},
		"within the prefix":     {withPath(canary(80, 20), "/app/healthz", "/app"), [][2]string{{"apps/shop/probe", "/app/healthz"}}},
		"outside of the prefix": {withPath(canary(80, 20), "/healthz", "/app"), nil},
	} {
		for _, options := range []translate.Options{translate.DefaultOptions(), holdOptions()} {
			resources, err := options.Envoy(c.config)
			if err != nil {
				t.Fatal(err)
			}
			checkValid(t, resources)
			routes := scope(t, resources, "shop.example.com")
			if diff := cmp.Diff(c.want, probed(t, routes)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			if first := routes.GetVirtualHosts()[0].GetRoutes()[0]; (first.GetDirectResponse() != nil) != (c.want != nil) {
				t.Errorf("%s: the first route is %s", name, first.GetName())
			}
		}
	}
}

// TestProbesOfUnknownHosts: the scope of unknown hosts answers health checks, unless an object has all hosts.
func TestProbesOfUnknownHosts(t *testing.T) {
	t.Parallel()
	wildcard, everything := canary(80, 20), canary(80, 20)
	wildcard.Routes[0].Match.Host, everything.Routes[0].Match.Host = "*.example.com", "*"
	for name, c := range map[string]struct {
		config model.Config
		want   [][2]string
	}{
		"no object":    {model.Config{}, [][2]string{{"probe", "/"}}},
		"a wildcard":   {wildcard, [][2]string{{"probe", "/"}}},
		"an exact one": {canary(80, 20), [][2]string{{"probe", "/"}}},
		"all hosts":    {everything, nil},
	} {
		if diff := cmp.Diff(c.want, probed(t, scope(t, envoy(t, c.config), "*"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
