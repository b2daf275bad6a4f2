package translate_test

import (
	"maps"
	"slices"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestIPv6Listeners compares each listener for clients with its counterpart: only name and address differ.
func TestIPv6Listeners(t *testing.T) {
	t.Parallel()
	options := translate.DefaultOptions()
	options.TLS, options.IPv6 = true, true
	resources, err := options.Envoy(model.Config{})
	if err != nil {
		t.Fatal(err)
	}
	checkValid(t, resources)
	listeners := resources[resourcev3.ListenerType]
	names := slices.Sorted(maps.Keys(listeners))
	if diff := cmp.Diff(slices.Sorted(slices.Values(translate.ClientListeners())), names); diff != "" {
		t.Fatalf("listeners (-want +got):\n%s", diff)
	}
	for i, name := range []string{translate.ListenerName, translate.TLSListenerName} {
		listener := proto.CloneOf(as[*listenerv3.Listener](t, listeners[name]))
		listener.Name = translate.IPv6Listeners()[i]
		address := listener.GetAddress().GetSocketAddress()
		if address.GetAddress() != "0.0.0.0" {
			t.Errorf("%s: address %s", name, address.GetAddress())
		}
		address.Address = "::"
		if diff := cmp.Diff(listener, listeners[listener.GetName()], protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", listener.GetName(), diff)
		}
	}
}

// TestIPv6HostsAreInTheWildcardScope has the scope of a host that is an IPv6 address.
func TestIPv6HostsAreInTheWildcardScope(t *testing.T) {
	t.Parallel()
	config := canary(80, 20)
	config.Routes[0].Match.Host = "[2001:db8::1]"
	if name := translate.ScopeOf("[2001:db8::1]"); name != translate.WildcardScope {
		t.Errorf("scope %s", name)
	}
	hosts := scope(t, envoy(t, config), translate.WildcardScope).GetVirtualHosts()
	// The last virtual host answers health checks for unknown hosts.
	if len(hosts) != 2 || !slices.Equal(hosts[0].GetDomains(), []string{"[2001:db8::1]"}) {
		t.Errorf("virtual hosts %v", hosts)
	}
}
