package translate_test

import (
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// holdOptions enable queueing.
func holdOptions() translate.Options {
	options := translate.DefaultOptions()
	options.Hold.Checks = netip.MustParseAddrPort("10.1.2.3:5678")
	return options
}

// canaryWithoutEndpoints returns a canary at 80 and 20 with one backend without ready endpoints.
func canaryWithoutEndpoints(backend int, endpoints model.Endpoints) model.Config {
	config := canary(80, 20)
	config.Services[config.Routes[0].Backends[backend].ServicePort()] = endpoints
	return config
}

// TestHoldConfigs checks that the filter is enabled, and the fallback listener used, only for the backend with queued
// requests.
func TestHoldConfigs(t *testing.T) {
	t.Parallel()
	draining := model.Endpoints{Draining: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.9:80")}}
	never := canaryWithoutEndpoints(0, model.Endpoints{})
	for i := range never.Routes {
		never.Routes[i].MinReplicas = 1
	}
	for name, c := range map[string]struct {
		options   translate.Options
		config    model.Config
		armed     []bool
		endpoints []string // of the stable Service
	}{
		"all ready": {holdOptions(), canary(80, 20), []bool{false, false}, []string{"10.0.0.1"}},
		"stable without endpoints": {
			holdOptions(), canaryWithoutEndpoints(0, model.Endpoints{}),
			[]bool{true, false},
			[]string{translate.DefaultHoldSocket},
		},
		"stable is draining": {
			holdOptions(), canaryWithoutEndpoints(0, draining),
			[]bool{true, false},
			[]string{translate.DefaultHoldSocket, "10.0.0.9 DRAINING"},
		},
		"canary without endpoints": {
			holdOptions(), canaryWithoutEndpoints(1, model.Endpoints{}),
			[]bool{false, false},
			[]string{"10.0.0.1"},
		},
		"minimum replicas above zero": {holdOptions(), never, []bool{false, false}, nil},
		"queueing disabled": {
			translate.DefaultOptions(), canaryWithoutEndpoints(0, model.Endpoints{}),
			[]bool{false, false},
			nil,
		},
		"none while both drain": {
			translate.DefaultOptions(), canaryWithoutEndpoints(0, draining),
			[]bool{false, false},
			[]string{"10.0.0.9"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resources, err := c.options.Envoy(c.config)
			if err != nil {
				t.Fatal(err)
			}
			checkValid(t, resources)
			for _, message := range resources[resourcev3.ScopedRouteType] {
				for _, host := range as[*routev3.ScopedRouteConfiguration](t, message).GetRouteConfiguration().GetVirtualHosts() {
					for _, route := range host.GetRoutes() {
						expectHold(t, route, c.armed)
					}
				}
			}
			stable := c.config.Routes[0]
			assignment := resources[resourcev3.EndpointType][translate.ClusterName(stable.Owner, stable.Backends[0].Service)]
			if diff := cmp.Diff(c.endpoints, endpointsIn(as[*endpointv3.ClusterLoadAssignment](t, assignment))); diff != "" {
				t.Errorf("endpoints -want +got:\n%s", diff)
			}
		})
	}
}

// expectHold expects the filter's configuration on the clusters of a route, and none on the route itself.
func expectHold(t *testing.T, route *routev3.Route, want []bool) {
	t.Helper()
	if len(route.GetTypedPerFilterConfig()) > 0 {
		t.Errorf("route %s has configurations of filters: %v", route.GetName(), route.GetTypedPerFilterConfig())
	}
	for i, side := range route.GetRoute().GetWeightedClusters().GetClusters() {
		if _, isHeld := side.GetTypedPerFilterConfig()[translate.HoldName]; isHeld != want[i] ||
			len(side.GetTypedPerFilterConfig()) > 1 {
			t.Errorf("%s is queued: %t, want %t: %v", side.GetName(), isHeld, want[i], side.GetTypedPerFilterConfig())
		}
	}
}

// TestFailoverRoute: the route exists while requests are queued, before all others except for health checks, and
// without the filter. Its cluster exists at all times.
func TestFailoverRoute(t *testing.T) {
	t.Parallel()
	late := model.Failover{
		Service: model.Key{Namespace: "apps", Name: "late"}, Port: 80, Protocol: model.HTTP1,
		Timeout: time.Minute,
	}
	for name, c := range map[string]struct {
		options translate.Options
		config  model.Config
		want    bool
	}{
		"at zero":           {holdOptions(), canaryWithoutEndpoints(0, model.Endpoints{}), true},
		"all ready":         {holdOptions(), canary(80, 20), false},
		"queueing disabled": {translate.DefaultOptions(), canaryWithoutEndpoints(0, model.Endpoints{}), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.config.Routes[0].Failover, c.config.Routes[0].Timeouts.Idle = &late, model.TimeoutOf(time.Second)
			c.config.Services[late.ServicePort()] = model.Endpoints{Ready: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.7:80")}}
			resources, err := c.options.Envoy(c.config)
			if err != nil {
				t.Fatal(err)
			}
			checkValid(t, resources)
			const cluster = "apps/shop/late/failover"
			routes := scope(t, resources, "shop.example.com").GetVirtualHosts()[0].GetRoutes()
			first := routes[slices.IndexFunc(routes, func(route *routev3.Route) bool { return route.GetDirectResponse() == nil })]
			if is := first.GetRoute().GetCluster() == cluster; is != c.want ||
				is != (len(first.GetMatch().GetDynamicMetadata()) == 1) {
				t.Errorf("the first route: %v", first)
			}
			if got := first.GetRoute().GetIdleTimeout().AsDuration(); got != time.Second && c.want {
				t.Errorf("idle timeout %v, want that of the object", got)
			}
			assignment := as[*endpointv3.ClusterLoadAssignment](t, resources[resourcev3.EndpointType][cluster])
			if diff := cmp.Diff([]string{"10.0.0.7"}, endpointsIn(assignment)); diff != "" ||
				resources[resourcev3.ClusterType][cluster] == nil {
				t.Errorf("its cluster: %s", diff)
			}
		})
	}
}

// endpointsIn returns the addresses of an assignment, with their health unless it is healthy.
func endpointsIn(assignment *endpointv3.ClusterLoadAssignment) []string {
	var addresses []string
	for _, group := range assignment.GetEndpoints() {
		for _, endpoint := range group.GetLbEndpoints() {
			address := endpoint.GetEndpoint().GetAddress()
			text := address.GetSocketAddress().GetAddress() + address.GetPipe().GetPath()
			if health := endpoint.GetHealthStatus().String(); health != "HEALTHY" {
				text += " " + health
			}
			addresses = append(addresses, text)
		}
	}
	return addresses
}

// TestRequestsThatAreNotQueued checks that requests avoid the filter. The virtual host of an exact host disables it
// for direct matches. The route configuration lets the other requests pass. If queueing is disabled, there is no
// configuration.
func TestRequestsThatAreNotQueued(t *testing.T) {
	t.Parallel()
	const disabled, passing = "envoy.config.route.v3.FilterConfig", "envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute"
	config := canary(80, 20)
	wildcard := config.Routes[0]
	wildcard.Match = model.Match{Host: "*.example.com", PathPrefix: "/"}
	config.Routes = append(config.Routes, wildcard)
	resources, err := holdOptions().Envoy(config)
	if err != nil {
		t.Fatal(err)
	}
	marks := func(configs map[string]*anypb.Any) string {
		if configs[translate.HoldName] == nil {
			return ""
		}
		return string(configs[translate.HoldName].MessageName())
	}
	for _, c := range []struct{ scope, routes, host string }{
		{"shop.example.com", passing, disabled},
		{translate.WildcardScope, passing, ""},
	} {
		routes := scope(t, resources, c.scope)
		if got := marks(routes.GetTypedPerFilterConfig()); got != c.routes {
			t.Errorf("the routes of %s are marked %q, want %q", c.scope, got, c.routes)
		}
		if got := marks(routes.GetVirtualHosts()[0].GetTypedPerFilterConfig()); got != c.host {
			t.Errorf("the host of %s is marked %q, want %q", c.scope, got, c.host)
		}
	}
	for _, name := range []string{"shop.example.com", translate.WildcardScope} {
		if routes := scope(t, envoy(t, config), name); marks(routes.GetTypedPerFilterConfig()) != "" {
			t.Errorf("%s is marked although queueing is disabled: %v", name, routes)
		}
	}
}

// TestQueueingChangesNoListener: queueing changes routes and endpoints, but neither listener nor cluster.
func TestQueueingChangesNoListener(t *testing.T) {
	t.Parallel()
	translated := func(config model.Config) map[string]map[string]string {
		resources, err := holdOptions().Envoy(config)
		if err != nil {
			t.Fatal(err)
		}
		return wire(t, resources)
	}
	ready, zero := translated(canary(80, 20)), translated(canaryWithoutEndpoints(0, model.Endpoints{}))
	for _, typeURL := range []string{resourcev3.ListenerType, resourcev3.ClusterType} {
		if diff := cmp.Diff(ready[typeURL], zero[typeURL]); diff != "" {
			t.Errorf("%s:\n%s", typeURL, diff)
		}
	}
	for _, typeURL := range []string{resourcev3.ScopedRouteType, resourcev3.EndpointType} {
		if cmp.Equal(ready[typeURL], zero[typeURL]) {
			t.Errorf("%s is the same", typeURL)
		}
	}
}

// TestFallbackListenerIsLocal: the listener is unreachable from outside of the proxy.
func TestFallbackListenerIsLocal(t *testing.T) {
	t.Parallel()
	resources, err := holdOptions().Envoy(model.Config{})
	if err != nil {
		t.Fatal(err)
	}
	checkValid(t, resources)
	listener := as[*listenerv3.Listener](t, resources[resourcev3.ListenerType][translate.HoldName])
	if got := listener.GetAddress().GetPipe().GetPath(); got != translate.DefaultHoldSocket || got[0] != '@' {
		t.Errorf("it listens on %v", listener.GetAddress())
	}
}

// TestHoldTimeouts: the object's own timeout applies. In the fallback listener it is shorter than the timeouts of the
// response, if there are any.
func TestHoldTimeouts(t *testing.T) {
	t.Parallel()
	none := model.TimeoutOf(0)
	timeouts := func(coldStart, responseHeader model.Timeout) model.Route {
		return model.Route{Timeouts: model.Timeouts{ColdStart: coldStart, ResponseHeader: responseHeader}}
	}
	withSettings := func(route model.Route, settings model.RouteSettings) model.Route {
		route.EnvoySettings = &model.EnvoySettings{Route: settings}
		return route
	}
	second, minute, hour := model.TimeoutOf(time.Second), model.TimeoutOf(time.Minute), model.TimeoutOf(time.Hour)
	unset := timeouts(model.Timeout{}, model.Timeout{})
	failover := timeouts(hour, model.Timeout{})
	failover.Failover = &model.Failover{Timeout: 30 * time.Second}
	unlimited := func(route model.Route) model.Route {
		route.Failover = &model.Failover{Timeout: 0}
		return route
	}
	for name, c := range map[string]struct {
		route        model.Route
		held, caught time.Duration
	}{
		"the default":                         {unset, 20 * time.Minute, 20 * time.Minute},
		"the object's own":                    {timeouts(minute, none), time.Minute, time.Minute},
		"too long":                            {timeouts(model.TimeoutOf(5*time.Hour), none), 55 * time.Minute, 55 * time.Minute},
		"centuries":                           {timeouts(model.TimeoutOf(math.MaxInt64), model.TimeoutOf(math.MaxInt64)), 55 * time.Minute, 55 * time.Minute},
		"no limit":                            {timeouts(none, none), 55 * time.Minute, 55 * time.Minute},
		"failover":                            {failover, 30 * time.Second, 30 * time.Second},
		"failover without a limit of its own": {unlimited(timeouts(minute, none)), time.Minute, time.Minute},
		"failover with the default limit":     {unlimited(unset), 20 * time.Minute, 20 * time.Minute},
		"failover without any limit":          {unlimited(timeouts(none, none)), 55 * time.Minute, 55 * time.Minute},
		"short response timeout":              {timeouts(model.Timeout{}, second), 20 * time.Minute, time.Second / 2},
		"response timeout":                    {timeouts(model.Timeout{}, minute), 20 * time.Minute, 58 * time.Second},
		"long response timeout":               {timeouts(model.Timeout{}, hour), 20 * time.Minute, 20 * time.Minute},
		"response timeout in the settings": {
			withSettings(unset, model.RouteSettings{PerTryTimeout: minute}), 20 * time.Minute, 58 * time.Second,
		},
		"no response timeout of the object": {
			withSettings(timeouts(model.Timeout{}, none), model.RouteSettings{PerTryTimeout: minute}),
			20 * time.Minute, 20 * time.Minute,
		},
		"timeout of the whole request of the object": {
			model.Route{Timeouts: model.Timeouts{Request: minute, Idle: hour}}, 20 * time.Minute, 58 * time.Second,
		},
		"idle timeout of the object": {
			withSettings(model.Route{Timeouts: model.Timeouts{Idle: second}}, model.RouteSettings{IdleTimeout: hour}),
			20 * time.Minute, time.Second / 2,
		},
		"idle timeout in the settings": {
			withSettings(unset, model.RouteSettings{IdleTimeout: minute}), 20 * time.Minute, 58 * time.Second,
		},
		"no idle timeout of the object": {
			withSettings(model.Route{Timeouts: model.Timeouts{Idle: none}}, model.RouteSettings{IdleTimeout: minute}),
			20 * time.Minute, 20 * time.Minute,
		},
		"timeout of the whole request": {
			withSettings(unset, model.RouteSettings{Timeout: model.Given[time.Duration](minute)}),
			20 * time.Minute, 58 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if held, caught := translate.HoldTimeouts(c.route, 20*time.Minute); held != c.held || caught != c.caught {
				t.Errorf("%v and %v, want %v and %v", held, caught, c.held, c.caught)
			}
		})
	}
	if held, caught := translate.HoldTimeouts(unset, 0); held != translate.MaxHold || caught != translate.MaxHold {
		t.Errorf("without a limit: %v and %v, want %v", held, caught, translate.MaxHold)
	}
}
