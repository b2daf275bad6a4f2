package translate_test

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestVerificationOfApplications has the validation context of a cluster for each setting. The fallback listener, in
// clear text, is not affected, nor is an application without TLS.
func TestVerificationOfApplications(t *testing.T) {
	t.Parallel()
	const names = `"trustedCa": {"inlineString": "ca"}, "matchTypedSubjectAltNames": [{"sanType": "DNS", "matcher": `
	for name, test := range map[string]struct {
		settings model.UpstreamTLS
		want     string // "" for none
	}{
		"nothing":  {model.UpstreamTLS{}, ""},
		"a CA":     {model.UpstreamTLS{CA: "ca"}, `{"trustedCa": {"inlineString": "ca"}}`},
		"a name":   {model.UpstreamTLS{CA: "ca", Name: "a.test"}, `{` + names + `{"exact": "a.test"}}]}`},
		"a suffix": {model.UpstreamTLS{CA: "ca", NameSuffix: ".test"}, `{` + names + `{"suffix": ".test"}}]}`},
	} {
		for _, protocol := range []model.Protocol{model.HTTPS, model.HTTP1} {
			route := routeWithSettings(&model.EnvoySettings{Cluster: model.ClusterSettings{TLS: test.settings}})
			route.Backends[0].Protocol = protocol
			resources, err := translate.Envoy(model.Config{
				Routes:   []model.Route{route},
				Services: map[model.ServicePort]model.Endpoints{route.Backends[0].ServicePort(): {}},
			})
			if err != nil {
				t.Fatal(err)
			}
			checkValid(t, resources)
			cluster, _ := resources[resourcev3.ClusterType]["apps/shop/shop"].(*clusterv3.Cluster)
			sockets := cluster.GetTransportSocketMatches()
			if protocol == model.HTTP1 {
				if len(sockets) > 0 {
					t.Errorf("%s: an application without TLS has %v", name, sockets)
				}
				continue
			}
			if len(sockets) != 2 || sockets[0].GetTransportSocket().GetName() != "envoy.transport_sockets.raw_buffer" {
				t.Fatalf("%s: sockets %v", name, sockets)
			}
			context := new(tlsv3.UpstreamTlsContext)
			if err := sockets[1].GetTransportSocket().GetTypedConfig().UnmarshalTo(context); err != nil {
				t.Fatal(err)
			}
			var want *tlsv3.CertificateValidationContext
			if test.want != "" {
				want = new(tlsv3.CertificateValidationContext)
				if err := protojson.Unmarshal([]byte(test.want), want); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(want, context.GetCommonTlsContext().GetValidationContext(), protocmp.Transform()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}
