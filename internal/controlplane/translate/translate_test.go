package translate_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"

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
	for _, typeURL := range []string{resourcev3.ListenerType, resourcev3.ScopedRouteType, resourcev3.ClusterType,
		resourcev3.EndpointType} {
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

func TestResponseHeaderTimeout(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration]time.Duration{0: 30 * time.Second, 5 * time.Second: 5 * time.Second} {
		config := canary(80, 20)
		config.Routes[0].Timeouts.ResponseHeader = timeout
		action := scope(t, envoy(t, config), "shop.example.com").GetVirtualHosts()[0].GetRoutes()[0].GetRoute()
		if got := action.GetRetryPolicy().GetPerTryTimeout().AsDuration(); got != want {
			t.Errorf("timeout %v: got %v, want %v", timeout, got, want)
		}
		// Neither a timeout nor any other failure of a request that a workload may have seen is retried.
		reasons := action.GetRetryPolicy().GetRetryOn()
		if action.GetTimeout() == nil || action.GetTimeout().AsDuration() != 0 ||
			reasons != "connect-failure,refused-stream" {
			t.Errorf("timeout %v: the whole response is bounded, or requests are retried for %q: %v", timeout, reasons, action)
		}
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
		"draining and ready": {model.Endpoints{Ready: ready, Draining: leaving},
			[]string{"10.0.0.1 HEALTHY", "fd00::2 DRAINING"}},
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

// TestBugsAreErrors: a Config that resolve never returns is rejected instead of sent.
func TestBugsAreErrors(t *testing.T) {
	t.Parallel()
	noWeight := canary(0, 0)
	noProtocol := canary(80, 20)
	noProtocol.Routes[0].Backends[1].Protocol = ""
	noBackend := canary(80, 20)
	noBackend.Routes[0].Backends = nil
	for name, config := range map[string]model.Config{"no weight": noWeight, "no protocol": noProtocol,
		"no backend": noBackend} {
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

// canary returns one host with a split between two Services with endpoints.
func canary(stable, canary uint32) model.Config {
	at := func(name string, weight uint32) model.Backend {
		return model.Backend{Service: model.Key{Namespace: "apps", Name: name}, Port: 80, Weight: weight,
			Protocol: model.HTTP1}
	}
	backends := []model.Backend{at("shop-stable", stable), at("shop-canary", canary)}
	return model.Config{
		Routes: []model.Route{{
			Owner: model.Key{Namespace: "apps", Name: "shop"},
			Match: model.Match{Host: "shop.example.com", PathPrefix: "/",
				Headers: []model.Header{{Name: "x", Value: "1"}, {Name: "y", Any: true}}},
			Backends: backends,
		}},
		Services: map[model.ServicePort]model.Endpoints{
			backends[0].ServicePort(): {Ready: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:8080")}},
			backends[1].ServicePort(): {Ready: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.2:8080")}},
		},
	}
}

func envoy(t *testing.T, config model.Config) translate.Resources {
	t.Helper()
	resources, err := translate.Envoy(config)
	if err != nil {
		t.Fatal(err)
	}
	checkValid(t, resources)
	return resources
}

// wire serializes resources without a deterministic order of maps, as a careless server would. Anys inside of them
// are already serialized.
func wire(t *testing.T, resources translate.Resources) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for typeURL, byName := range resources {
		all[typeURL] = map[string]string{}
		for name, message := range byName {
			body, err := proto.Marshal(message)
			if err != nil {
				t.Fatal(err)
			}
			all[typeURL][name] = string(body)
		}
	}
	return all
}

func connectionManager(t *testing.T, resources translate.Resources) *hcmv3.HttpConnectionManager {
	t.Helper()
	listener := as[*listenerv3.Listener](t, resources[resourcev3.ListenerType][translate.ListenerName])
	manager := new(hcmv3.HttpConnectionManager)
	if err := listener.GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(manager); err != nil {
		t.Fatal(err)
	}
	return manager
}

// scope returns the routes of one scope.
func scope(t *testing.T, resources translate.Resources, name string) *routev3.RouteConfiguration {
	t.Helper()
	return as[*routev3.ScopedRouteConfiguration](t, resources[resourcev3.ScopedRouteType][name]).GetRouteConfiguration()
}

func as[T proto.Message](t *testing.T, message proto.Message) T {
	t.Helper()
	typed, ok := message.(T)
	if !ok {
		t.Fatalf("got a %T, want a %T", message, typed)
	}
	return typed
}

// checkValid validates every resource, and every message packed inside of one, against the constraints of Envoy's
// API, and checks references.
func checkValid(tb testing.TB, resources translate.Resources) {
	tb.Helper()
	for typeURL, byName := range resources {
		for name, message := range byName {
			if err := validate(message); err != nil {
				tb.Errorf("%s %s: %v", typeURL, name, err)
			}
		}
	}
	clusters, endpoints := resources[resourcev3.ClusterType], resources[resourcev3.EndpointType]
	for name := range clusters {
		if endpoints[name] == nil {
			tb.Errorf("cluster %s has no load assignment", name)
		}
	}
	for _, name := range referred(resources) {
		if clusters[name] == nil {
			tb.Errorf("a route names cluster %s, which is not there", name)
		}
	}
}

// referred returns the names of the clusters of routes.
func referred(resources translate.Resources) (names []string) {
	for _, message := range resources[resourcev3.ScopedRouteType] {
		scope, _ := message.(*routev3.ScopedRouteConfiguration)
		for _, host := range scope.GetRouteConfiguration().GetVirtualHosts() {
			for _, route := range host.GetRoutes() {
				if name := route.GetRoute().GetCluster(); name != "" {
					names = append(names, name)
				}
				for _, weighted := range route.GetRoute().GetWeightedClusters().GetClusters() {
					names = append(names, weighted.GetName())
				}
			}
		}
	}
	return names
}

// validate runs the generated checks on message and on every Any inside of it.
func validate(message proto.Message) error {
	if validator, ok := message.(interface{ ValidateAll() error }); ok {
		if err := validator.ValidateAll(); err != nil {
			return err
		}
	}
	var failure error
	var visit func(protoreflect.Message)
	each := func(value protoreflect.Value) {
		if packed, ok := value.Message().Interface().(*anypb.Any); ok {
			inner, err := packed.UnmarshalNew()
			if err == nil {
				err = validate(inner)
			}
			if err != nil {
				failure = err
			}
			return
		}
		visit(value.Message())
	}
	visit = func(m protoreflect.Message) {
		m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
			switch {
			case field.IsMap() && field.MapValue().Message() != nil:
				value.Map().Range(func(_ protoreflect.MapKey, element protoreflect.Value) bool { each(element); return true })
			case field.IsList() && field.Message() != nil:
				for i := range value.List().Len() {
					each(value.List().Get(i))
				}
			case !field.IsMap() && field.Message() != nil:
				each(value)
			}
			return failure == nil
		})
	}
	visit(message.ProtoReflect())
	return failure
}

// TestValidateIsRecursive ensures that checkValid detects errors inside of an Any.
func TestValidateIsRecursive(t *testing.T) {
	t.Parallel()
	resources := envoy(t, canary(80, 20))
	manager := connectionManager(t, resources)
	manager.StatPrefix = ""
	packed, err := anypb.New(manager)
	if err != nil {
		t.Fatal(err)
	}
	broken := proto.Clone(resources[resourcev3.ListenerType][translate.ListenerName])
	listener := as[*listenerv3.Listener](t, broken)
	listener.GetFilterChains()[0].GetFilters()[0].ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: packed}
	if cmp.Equal(broken, resources[resourcev3.ListenerType][translate.ListenerName], protocmp.Transform()) ||
		validate(broken) == nil {
		t.Error("a connection manager without stat prefix passed")
	}
}
