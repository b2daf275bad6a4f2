package translate_test

import (
	"net/netip"
	"testing"

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
)

// canary returns one host with a split between two Services with endpoints.
func canary(stable, canary uint32) model.Config {
	at := func(name string, weight uint32) model.Backend {
		return model.Backend{
			Service: model.Key{Namespace: "apps", Name: name}, Port: 80, Weight: weight,
			Protocol: model.HTTP1,
		}
	}
	backends := []model.Backend{at("shop-stable", stable), at("shop-canary", canary)}
	return model.Config{
		Routes: []model.Route{{
			Owner: model.Key{Namespace: "apps", Name: "shop"},
			Match: model.Match{
				Host: "shop.example.com", PathPrefix: "/",
				Headers: []model.Header{{Name: "x", Value: "1"}, {Name: "y", Any: true}},
			},
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
