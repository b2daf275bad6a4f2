package envoy_test

import (
	"testing"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestProtocolOfThePort: an app receives gRPC calls if the appProtocol or the name of the Service port is gRPC.
func TestProtocolOfThePort(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		appProtocol *string
		portName    string
		want        model.Protocol
	}{
		"a name":         {nil, "grpc", model.HTTP2},
		"a prefix":       {nil, "grpc-public", model.HTTP2},
		"appProtocol":    {new("kubernetes.io/H2C"), "http", model.HTTP2},
		"both disagree":  {new("http"), "grpc", model.HTTP1},
		"another domain": {new("mycompany.com/foo"), "grpc", model.HTTP1},
		"a WebSocket":    {new("kubernetes.io/ws"), "http2", model.HTTP1},
		"HTTP/2":         {nil, "http2-x", model.HTTP2},
		"gRPC-Web":       {nil, "grpc-web", model.HTTP1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := startBackend(t, "calls")
			object := kit.NewScaledObject(namespace, "calls", "calls", 1, "calls.example.com")
			object.Spec.ScaleTargetRef.Port, object.Spec.ScaleTargetRef.PortName = 0, c.portName
			service, slice := app.service(t)
			service.Spec.Ports[0].Name, service.Spec.Ports[0].AppProtocol = c.portName, c.appProtocol
			slice.Ports[0].Name = &c.portName
			p := start(t, translated(t, resolve.Inputs{
				ScaledObjects: []*httpv1alpha1.HTTPScaledObject{object}, Services: kit.ResolveServices(service),
				EndpointSlices: kit.ResolveEndpointSlices(slice),
			}, translate.DefaultOptions()))
			proto := map[model.Protocol]string{model.HTTP1: "HTTP/1.1", model.HTTP2: "HTTP/2.0"}[c.want]
			if got := p.mustGet(t, "http://calls.example.com/", nil); got.seen.Proto != proto {
				t.Errorf("the app was called over %q, want %q", got.seen.Proto, proto)
			}
			if c.want == model.HTTP2 {
				watch(t.Context(), t, p.address, 1)
			}
		})
	}
}
