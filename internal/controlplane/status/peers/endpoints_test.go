package peers

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
)

// endpointsOf returns the EndpointSlices of replicas at addresses, by name.
func endpointsOf(replicas map[string]string) []*discoveryv1.EndpointSlice {
	var slices []*discoveryv1.EndpointSlice
	for name, address := range replicas {
		at := netip.MustParseAddrPort(address)
		port, portName := int32(at.Port()), PortName
		slices = append(slices, &discoveryv1.EndpointSlice{
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
			Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{at.Addr().String()}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: name},
			}},
		})
	}
	return slices
}

func TestOthers(t *testing.T) {
	slices := endpointsOf(map[string]string{
		"interceptor-0": "10.0.0.1:5678", "interceptor-1": "10.0.0.2:5678", "interceptor-2": "10.0.0.3:5679",
	})
	slices = append(slices, endpointsOf(map[string]string{"interceptor-1": "[fd00::2]:5678"})...)
	metrics := "metrics"
	strange := endpointsOf(map[string]string{"interceptor-7": "10.0.0.7:2223"})
	strange[0].Ports[0].Name = &metrics
	got := Others(append(slices, strange...), "interceptor-0")
	want := []endpoints.Pod{
		{Name: "interceptor-1", Address: "10.0.0.2:5678"}, {Name: "interceptor-2", Address: "10.0.0.3:5679"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
}
