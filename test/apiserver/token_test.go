package apiserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/identity"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/transport"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// useTokens connects to an interceptor with a certificate, from an address of a namespace, with and without tokens that
// the API server has issued.
func useTokens(t *testing.T, namespace string) {
	t.Helper()
	data := kit.NewServerCertificate(t, transport.Name("keda"))
	secret, err := json.Marshal(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: "kedify-http-interceptor-tls"}, Type: corev1.SecretTypeTLS, Data: data,
	})
	if err != nil {
		t.Fatal(err)
	}
	shared.apply(t, "keda", string(secret))
	shared.apply(t, namespace, `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kedify-proxy, labels: {kubernetes.io/service-name: kedify-proxy}}
addressType: IPv4
endpoints: [{addresses: [127.0.0.1], targetRef: {kind: Pod, name: proxy-1}}]
`)
	const elsewhere = "usage-elsewhere"
	shared.newNamespace(t, elsewhere)
	running := shared.startInterceptor(t, "interceptor-tokens")
	address := ""
	await.True(t, "the interceptor serves proxies", func() bool {
		log, err := running.Log()
		found := regexp.MustCompile(`"port":"xds","address":"([^"]+)"`).FindSubmatch(log)
		if err == nil && found != nil {
			address = string(found[1])
		}
		return address != "" && strings.Contains(string(log), "certificate of the interceptor loaded")
	})
	token := func(namespace, pod, audience string) string {
		issued, err := apiserver.PodToken(t.Context(), shared.admin, namespace, pod, audience)
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + issued
	}
	for name, test := range map[string]struct {
		header string
		want   codes.Code
	}{
		"a Pod of the namespace":    {token(namespace, "proxy-1", identity.Audience), codes.OK},
		"without a token":           {"", codes.OK},
		"another audience":          {token(namespace, "proxy-1", "https://kubernetes.default.svc"), codes.Unauthenticated},
		"a Pod elsewhere":           {token(elsewhere, "proxy-1", identity.Audience), codes.PermissionDenied},
		"a token of another issuer": {"Bearer e30.e30.c2ln", codes.Unauthenticated},
	} {
		if err := request(t, address, data, test.header); status.Code(err) != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	log, err := running.Log()
	if err != nil || strings.Count(string(log), `"authenticated":true`) != 2 { // connected and disconnected
		t.Errorf("%v, authenticated streams in the log:\n%s", err, log)
	}
	running.Stop(t)
}

// request requests listeners as a proxy with an Authorization header, and returns the error of the stream.
func request(t *testing.T, address string, data map[string][]byte, header string) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data["ca.crt"])
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: roots, ServerName: transport.Name("keda"), MinVersion: tls.VersionTLS13,
	})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
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
