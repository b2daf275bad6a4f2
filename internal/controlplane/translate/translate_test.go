package translate_test

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestEmptyConfig checks what a proxy needs to become ready.
func TestEmptyConfig(t *testing.T) {
	t.Parallel()
	resources := envoy(t, model.Config{})
	config := kit.NewEnvoyConfig(t, resources)
	if len(config.Listeners) != 1 || len(config.Scopes) != 1 || len(config.Clusters) != 0 || len(config.Endpoints) != 0 {
		t.Errorf("got %d listeners, %d scopes, %d clusters, %d load assignments; want 1, 1, 0, 0",
			len(config.Listeners), len(config.Scopes), len(config.Clusters), len(config.Endpoints))
	}
	for _, typeURL := range []string{
		resourcev3.ListenerType, resourcev3.ScopedRouteType, resourcev3.ClusterType,
		resourcev3.EndpointType,
	} {
		if _, present := resources[typeURL]; !present {
			t.Errorf("no entry for %s", typeURL)
		}
	}
}

// TestOutputIsDeterministic translates one Config many times: maps inside of the resources must not change the order.
func TestOutputIsDeterministic(t *testing.T) {
	t.Parallel()
	want := wire(t, envoy(t, canary(80, 20)))
	for range 50 {
		if diff := cmp.Diff(want, wire(t, envoy(t, canary(80, 20)))); diff != "" {
			t.Fatalf("equal Configs give different bytes:\n%s", diff)
		}
	}
}

// TestWeightStepChangesRoutesOnly ensures that connections survive a canary step.
func TestWeightStepChangesRoutesOnly(t *testing.T) {
	t.Parallel()
	before, after := wire(t, envoy(t, canary(80, 20))), wire(t, envoy(t, canary(50, 50)))
	for typeURL := range before {
		same := cmp.Equal(before[typeURL], after[typeURL])
		if want := typeURL != resourcev3.ScopedRouteType; same != want {
			t.Errorf("%s: same bytes after a weight step: %t, want %t", typeURL, same, want)
		}
	}
}

// TestEndpointChangeStaysInEndpoints: Pods are added and removed all the time.
func TestEndpointChangeStaysInEndpoints(t *testing.T) {
	t.Parallel()
	config := canary(80, 20)
	before := wire(t, envoy(t, config))
	stable := config.Routes[0].Backends[0].ServicePort()
	config.Services[stable] = model.Endpoints{Ready: []netip.AddrPort{netip.MustParseAddrPort("10.9.9.9:80")}}
	after := wire(t, envoy(t, config))
	for typeURL := range before {
		same := cmp.Equal(before[typeURL], after[typeURL])
		if want := typeURL != resourcev3.EndpointType; same != want {
			t.Errorf("%s: same bytes after an endpoint change: %t, want %t", typeURL, same, want)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	options := translate.Options{TrustedHops: 2, MaxConnections: 1, MaxPendingRequests: 2, MaxRequests: 3, MaxRetries: 4}
	resources, err := options.Envoy(canary(80, 20))
	if err != nil {
		t.Fatal(err)
	}
	checkValid(t, resources)
	manager := connectionManager(t, resources)
	if manager.GetXffNumTrustedHops() != 2 || len(manager.GetAccessLog()) != 0 {
		t.Errorf("got %d trusted hops and %d access logs, want 2 and none", manager.GetXffNumTrustedHops(),
			len(manager.GetAccessLog()))
	}
	for name, message := range resources[resourcev3.ClusterType] {
		threshold := as[*clusterv3.Cluster](t, message).GetCircuitBreakers().GetThresholds()[0]
		got := []uint32{
			threshold.GetMaxConnections().GetValue(), threshold.GetMaxPendingRequests().GetValue(),
			threshold.GetMaxRequests().GetValue(), threshold.GetMaxRetries().GetValue(),
		}
		if !slices.Equal(got, []uint32{1, 2, 3, 4}) {
			t.Errorf("%s: circuit breakers %v", name, got)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	manager := connectionManager(t, envoy(t, model.Config{}))
	if manager.GetStatPrefix() != "kedify-proxy" || len(manager.GetAccessLog()) != 1 ||
		manager.GetScopedRoutes().GetScopedRds().GetScopedRdsConfigSource().GetAds() == nil {
		t.Errorf("stat prefix, access log or source of routes is wrong: %v", manager)
	}
	if patience := manager.GetScopedRoutes().GetScopedRds().GetScopedRdsConfigSource().GetInitialFetchTimeout(); patience == nil || patience.AsDuration() != 0 {
		t.Errorf("a proxy without routes would serve 404 after %v", patience)
	}
}

// TestRequestAndIdleTimeout: the object has precedence over the settings, also if it sets no limit. A queued request
// may be idle.
func TestRequestAndIdleTimeout(t *testing.T) {
	t.Parallel()
	none, second, day := model.TimeoutOf(0), model.TimeoutOf(time.Second), model.TimeoutOf(24*time.Hour)
	settings := func(request, idle model.Timeout) *model.EnvoySettings {
		return &model.EnvoySettings{Route: model.RouteSettings{
			Timeout: model.Given[time.Duration](request), IdleTimeout: idle,
		}}
	}
	for name, c := range map[string]struct {
		object        model.Timeouts
		settings      *model.EnvoySettings
		request, idle time.Duration // 0 for none
		queued        time.Duration // idle timeout of a queued request
	}{
		"neither":      {idle: time.Hour, queued: time.Hour},
		"the settings": {settings: settings(second, second), request: time.Second, idle: time.Second, queued: time.Hour},
		"the object": {
			object:  model.Timeouts{Request: second, Idle: second},
			request: time.Second, idle: time.Second, queued: time.Hour,
		},
		"both": {
			object: model.Timeouts{Request: second, Idle: day}, settings: settings(day, second),
			request: time.Second, idle: 24 * time.Hour, queued: 24 * time.Hour,
		},
		"none of the object": {object: model.Timeouts{Request: none, Idle: none}, settings: settings(second, second)},
		"none in settings":   {settings: settings(none, none)},
		"a nanosecond": {
			object:  model.Timeouts{Request: model.TimeoutOf(1), Idle: model.TimeoutOf(1)},
			request: time.Millisecond, idle: time.Millisecond, queued: time.Hour,
		},
		"centuries": {
			object:  model.Timeouts{Request: model.TimeoutOf(math.MaxInt64), Idle: model.TimeoutOf(math.MaxInt64)},
			request: 100 * 365 * 24 * time.Hour, idle: 100 * 365 * 24 * time.Hour, queued: 100 * 365 * 24 * time.Hour,
		},
	} {
		route := routeWithSettings(c.settings)
		route.Timeouts = c.object
		for isQueued, want := range map[bool]time.Duration{false: c.idle, true: c.queued} {
			var endpoints model.Endpoints
			if !isQueued {
				endpoints.Ready = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80")}
			}
			resources, err := holdOptions().Envoy(model.Config{
				Routes:   []model.Route{route},
				Services: map[model.ServicePort]model.Endpoints{route.Backends[0].ServicePort(): endpoints},
			})
			if err != nil {
				t.Fatal(err)
			}
			checkValid(t, resources)
			scope := as[*routev3.ScopedRouteConfiguration](t, resources[resourcev3.ScopedRouteType]["shop.test"])
			routes := scope.GetRouteConfiguration().GetVirtualHosts()[0].GetRoutes()
			action := routes[len(routes)-1].GetRoute()
			request, idle := action.GetTimeout().AsDuration(), action.GetIdleTimeout().AsDuration()
			if request != c.request || idle != want {
				t.Errorf("%s, queued: %t: timeouts %v and %v, want %v and %v", name, isQueued, request, idle, c.request, want)
			}
		}
	}
}

// TestResponseHeaderTimeout: nothing limits the time to the response headers unless the object or the settings do. The
// object has precedence, also if it sets no limit.
func TestResponseHeaderTimeout(t *testing.T) {
	t.Parallel()
	none, five, hour := model.TimeoutOf(0), model.TimeoutOf(5*time.Second), model.TimeoutOf(time.Hour)
	for name, c := range map[string]struct {
		object, settings model.Timeout
		want             time.Duration // 0 for none
	}{
		"neither":             {},
		"the object":          {object: five, want: 5 * time.Second},
		"the settings":        {settings: hour, want: time.Hour},
		"both":                {object: five, settings: hour, want: 5 * time.Second},
		"none of the object":  {object: none, settings: hour},
		"none in settings":    {settings: none},
		"none and the object": {object: five, settings: none, want: 5 * time.Second},
	} {
		config := canary(80, 20)
		config.Routes[0].Timeouts.ResponseHeader = c.object
		config.Routes[0].EnvoySettings = &model.EnvoySettings{Route: model.RouteSettings{PerTryTimeout: c.settings}}
		action := scope(t, envoy(t, config), "shop.example.com").GetVirtualHosts()[0].GetRoutes()[0].GetRoute()
		got := action.GetRetryPolicy().GetPerTryTimeout()
		if got.AsDuration() != c.want || (got == nil) != (c.want == 0) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		// Neither a timeout nor any other failure of a request that a workload may have seen is retried.
		reasons := action.GetRetryPolicy().GetRetryOn()
		if action.GetTimeout() == nil || action.GetTimeout().AsDuration() != 0 ||
			reasons != "connect-failure,refused-stream" {
			t.Errorf("%s: the whole response is bounded, or requests are retried for %q: %v", name, reasons, action)
		}
	}
}

// TestNoTimeouts: 0 in the settings means that there is no limit.
func TestNoTimeouts(t *testing.T) {
	t.Parallel()
	config := canary(80, 20)
	config.Routes[0].EnvoySettings = &model.EnvoySettings{
		Route:   model.RouteSettings{IdleTimeout: model.TimeoutOf(0)},
		Cluster: model.ClusterSettings{ConnectTimeout: model.TimeoutOf(0)},
	}
	resources := envoy(t, config)
	action := scope(t, resources, "shop.example.com").GetVirtualHosts()[0].GetRoutes()[0].GetRoute()
	if got := action.GetIdleTimeout(); got == nil || got.AsDuration() != 0 {
		t.Errorf("idle timeout %v, want 0, with which Envoy has none", got)
	}
	cluster := as[*clusterv3.Cluster](t, resources[resourcev3.ClusterType]["apps/shop/shop-stable"])
	if got := cluster.GetConnectTimeout().AsDuration(); got < 3*time.Minute {
		t.Errorf("connect timeout %v, want more than the two minutes of the operating system", got)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	ready, leaving := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80")}, []netip.AddrPort{netip.MustParseAddrPort("[fd00::2]:80")}
	for name, c := range map[string]struct {
		endpoints model.Endpoints
		want      []string
	}{
		"nothing": {model.Endpoints{}, nil},
		"ready":   {model.Endpoints{Ready: ready}, []string{"10.0.0.1 HEALTHY"}},
		"draining and ready": {
			model.Endpoints{Ready: ready, Draining: leaving},
			[]string{"10.0.0.1 HEALTHY", "fd00::2 DRAINING"},
		},
		"draining alone": {model.Endpoints{Draining: leaving}, []string{"fd00::2 HEALTHY"}},
	} {
		config := canary(80, 20)
		backend := config.Routes[0].Backends[0]
		config.Services[backend.ServicePort()] = c.endpoints
		cluster := translate.ClusterName(config.Routes[0].Owner, backend.Service)
		assignment := as[*endpointv3.ClusterLoadAssignment](t, envoy(t, config)[resourcev3.EndpointType][cluster])
		var got []string
		for _, group := range assignment.GetEndpoints() {
			for _, endpoint := range group.GetLbEndpoints() {
				got = append(got, endpoint.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()+" "+endpoint.GetHealthStatus().String())
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestDrainingEndpointsCauseNoPanic has more draining endpoints than the panic threshold of the cluster allows for its
// ready ones: the remaining ones are omitted.
func TestDrainingEndpointsCauseNoPanic(t *testing.T) {
	t.Parallel()
	ready, leaving := netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddr("10.0.1.0")
	var draining []netip.AddrPort
	for range 250 {
		leaving = leaving.Next()
		draining = append(draining, netip.AddrPortFrom(leaving, 80))
	}
	for count, want := range map[int]int{1: 99, 2: 198, 3: 250} {
		config := canary(80, 20)
		backend := config.Routes[0].Backends[0]
		config.Services[backend.ServicePort()] = model.Endpoints{
			Ready: slices.Repeat([]netip.AddrPort{ready}, count), Draining: draining,
		}
		resources, name := envoy(t, config), translate.ClusterName(config.Routes[0].Owner, backend.Service)
		group := as[*endpointv3.ClusterLoadAssignment](t, resources[resourcev3.EndpointType][name]).GetEndpoints()[0]
		healthy, threshold := 100*count/len(group.GetLbEndpoints()), as[*clusterv3.Cluster](t,
			resources[resourcev3.ClusterType][name]).GetCommonLbConfig().GetHealthyPanicThreshold().GetValue()
		if got := len(group.GetLbEndpoints()) - count; got != want || float64(healthy) < threshold {
			t.Errorf("%d ready: %d draining, want %d; %d%% are healthy, panic below %v%%", count, got, want, healthy, threshold)
		}
	}
}

// TestBugsAreErrors: a Config that resolve never returns is rejected instead of sent.
func TestBugsAreErrors(t *testing.T) {
	t.Parallel()
	noWeight := canary(0, 0)
	noProtocol := canary(80, 20)
	noProtocol.Routes[0].Backends[1].Protocol = ""
	noBackend := canary(80, 20)
	noBackend.Routes[0].Backends = nil
	for name, config := range map[string]model.Config{
		"no weight": noWeight, "no protocol": noProtocol,
		"no backend": noBackend,
	} {
		if resources, err := translate.Envoy(config); err == nil || resources != nil {
			t.Errorf("%s: got %d resources, %v; want none and an error", name, len(resources), err)
		} else if !strings.Contains(err.Error(), "apps/shop") {
			t.Errorf("%s: the error %q does not name the object", name, err)
		}
	}
}

// TestInvalidMessagesAreErrors: messages are validated by the rules of Envoy's API before they are sent, and the
// error names the resource.
func TestInvalidMessagesAreErrors(t *testing.T) {
	t.Parallel()
	badHost := canary(80, 20)
	badHost.Routes[0].Match.Headers[0].Name = "x\r\n"
	badWildcard := canary(80, 20)
	badWildcard.Routes[0].Match.Host, badWildcard.Routes[0].Match.Headers = "*.example.com", []model.Header{{Name: ""}}
	for want, config := range map[string]model.Config{
		"scope shop.example.com": badHost, "scope *.example.com": badWildcard,
	} {
		if resources, err := translate.Envoy(config); err == nil || resources != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %d resources, %v; want none and an error that names %s", len(resources), err, want)
		}
	}
}

// TestScopes: an exact host has its own scope for every path, and all wildcards share one.
func TestScopes(t *testing.T) {
	t.Parallel()
	config := canary(80, 20)
	everything := config.Routes[0]
	everything.Match.Headers = nil
	config.Routes = append(config.Routes, everything)
	for _, host := range []model.Host{"all.example.com", "*.eu.example.com", "*.example.com", "*"} {
		route := everything
		route.Match.Host = host
		config.Routes = append(config.Routes, route)
	}
	config.Routes = append(config.Routes, config.Routes[0])
	config.Routes[len(config.Routes)-1].Match.Host = "some.example.com"
	slices.SortFunc(config.Routes, model.CompareRoutes)
	resources := envoy(t, config)
	for name, want := range map[string][]string{
		"shop.example.com": {"shop.example.com", "apps/shop", "apps/shop"},
		"all.example.com":  {"all.example.com", "apps/shop"},
		"some.example.com": {"some.example.com", "apps/shop", "none"},
		"*":                {"*.eu.example.com", "apps/shop", "*.example.com", "apps/shop", "*", "apps/shop"},
	} {
		routes := scope(t, resources, name)
		var got []string
		for _, host := range routes.GetVirtualHosts() {
			got = append(got, host.GetName())
			for _, route := range host.GetRoutes() {
				got = append(got, route.GetName())
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("scope %s: got %q, want %q", name, got, want)
		}
		if isExact := name != "*"; (len(routes.GetTypedPerFilterConfig()) == 1) != isExact ||
			routes.GetName() != "kedify-proxy/"+name {
			t.Errorf("scope %s: %s with %d filters switched off", name, routes.GetName(), len(routes.GetTypedPerFilterConfig()))
		}
	}
	if len(resources[resourcev3.ScopedRouteType]) != 4 {
		t.Errorf("got %d scopes, want 4", len(resources[resourcev3.ScopedRouteType]))
	}
}
