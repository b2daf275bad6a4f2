package held

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/identity"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/transport"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
)

// TestTokens connects to an interceptor by TLS, from the address of the proxy, with and without tokens that the API
// server has issued. The interceptor may do only what config/ permits. A token of another namespace or audience receives
// nothing.
func TestTokens(t *testing.T) {
	data := kit.NewServerCertificate(t, transport.Name("keda"))
	s := newEnvironmentWith(t, never, data)
	const elsewhere = "elsewhere"
	if err := apiserver.CreateNamespace(t.Context(), s.Admin, elsewhere); err != nil {
		t.Fatal(err)
	}
	running := s.replica(0)
	token := func(namespace, audience string) string {
		issued, err := apiserver.PodToken(t.Context(), s.Admin, namespace, "proxy-1", audience)
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + issued
	}
	for name, test := range map[string]struct {
		header string
		want   codes.Code
	}{
		"a Pod of the namespace":    {token(coldstart.Namespace, identity.Audience), codes.OK},
		"without a token":           {"", codes.OK},
		"another audience":          {token(coldstart.Namespace, "https://kubernetes.default.svc"), codes.Unauthenticated},
		"a Pod elsewhere":           {token(elsewhere, identity.Audience), codes.PermissionDenied},
		"a token of another issuer": {"Bearer e30.e30.c2ln", codes.Unauthenticated},
	} {
		if err := request(t, running.Address, data, test.header); status.Code(err) != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	log, err := running.Log()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`"msg":"proxy connected"`: true, `"authenticated":true`: true, `"authenticated":false`: true, "Bearer": false,
	} {
		if strings.Contains(string(log), text) != want {
			t.Errorf("the log contains %s: %t, want %t:\n%s", text, !want, want, log)
		}
	}
}

// request requests listeners as the proxy with an Authorization header, and returns the error of the stream.
func request(t *testing.T, interceptor netip.Addr, data map[string][]byte, header string) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data["ca.crt"])
	dialer := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netspace.Address(), 0))}
	conn, err := grpc.NewClient("passthrough:///"+netip.AddrPortFrom(interceptor, 5678).String(),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", to)
		}),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			RootCAs: roots, ServerName: transport.Name("keda"), MinVersion: tls.VersionTLS13,
		})))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(await.Context(t))
	defer cancel()
	if header != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", header)
	}
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err == nil {
		err = stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: resourcev3.ListenerType})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}
