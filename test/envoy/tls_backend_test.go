package envoy_test

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// startSecureBackend starts an app that accepts only TLS and stops with the test. The channel receives the SNI of each
// handshake.
func startSecureBackend(t *testing.T, name string) (*backend, <-chan string) {
	t.Helper()
	names := make(chan string, 100)
	b := newBackend(name)
	b.server.EnableHTTP2 = true
	b.server.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		names <- hello.ServerName
		return nil, nil //nolint:nilnil // nil keeps the tls.Config
	}}
	b.server.StartTLS()
	b.closeAfter(t)
	return b, names
}

// TestFallbackWithoutTLS: Envoy connects to the fallback listener of a TLS app in clear text.
func TestFallbackWithoutTLS(t *testing.T) {
	t.Parallel()
	app, _ := startSecureBackend(t, "shop")
	all := newInputs(t, []*backend{app}, kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"))
	all.Services[0].Ports[0].Protocol = model.HTTPS
	r := startWithReplica(t, "DELTA_GRPC", all)
	r.lag(t, all, "shop")
	waiting := r.start(t, "HTTP/1.1", "shop.example.com")
	r.awaitQueued(t, "shop", 1)
	if got := r.queued("shop"); got.ViaFallback != 1 {
		t.Errorf("queue: %+v, want one request via the fallback listener", got)
	}
	r.publishInputs(t, all)
	if got := <-waiting; got.backend() != "shop" {
		t.Errorf("%+v", got)
	}
}

// TestTLSToBackend: Envoy connects over TLS to a Service port with the appProtocol https. The SNI is the Host header,
// for clients in clear text and over TLS.
func TestTLSToBackend(t *testing.T) {
	t.Parallel()
	const host = "shop.example.com"
	app, names := startSecureBackend(t, "shop")
	objects := newInputs(t, []*backend{app},
		withTLSSecret(kit.NewScaledObject(namespace, "shop", "shop", 1, host), "shop-tls"))
	objects.Services[0].Ports[0].Protocol = model.HTTPS
	resources := withTLS(t, namespace, objects, kit.NewTLSSecret(t, namespace, "shop-tls", 1, host))
	s := serve(t, "DELTA_GRPC", resources)
	s.await(t, resources)
	got, err := getTLS(t.Context(), tlsClient(s.tlsAddress(t), "HTTP/2"), "https://"+host+"/")
	if err != nil || got.Backend != "shop" || got.Proto != "HTTP/1.1" || got.Header.Get("X-Forwarded-Proto") != "https" {
		t.Errorf("over TLS: %+v, %v", got, err)
	}
	if name := await.Receive(t, "a handshake with the app", names); name != host {
		t.Errorf("the SNI of the handshake is %q", name)
	}
	if status, body := s.request(t, "HTTP/1.1", host, "/", nil); status != http.StatusOK ||
		!strings.Contains(body, `"shop"`) {
		t.Errorf("in clear text: %d %s", status, body)
	}
}

// TestVerifiedTLSToBackend: with a CA, only an app with a certificate of the CA, and with the name, receives requests.
// The certificates of httptest have the DNS names example.com and *.example.com.
func TestVerifiedTLSToBackend(t *testing.T) {
	t.Parallel()
	app, _ := startSecureBackend(t, "shop")
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: app.server.Certificate().Raw}))
	otherCA := string(kit.NewTLSSecret(t, namespace, "other", 1, "example.com").Data["tls.crt"])
	objects := newInputs(t, []*backend{app}, kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"))
	objects.Services[0].Ports[0].Protocol = model.HTTPS
	resources := translated(t, objects, translate.DefaultOptions())
	s := serve(t, "DELTA_GRPC", resources)
	s.await(t, resources)
	for _, test := range []struct {
		tls  model.UpstreamTLS
		want int
	}{
		{model.UpstreamTLS{}, http.StatusOK},
		{model.UpstreamTLS{CA: ca}, http.StatusOK},
		{model.UpstreamTLS{CA: otherCA}, http.StatusServiceUnavailable},
		{model.UpstreamTLS{CA: otherCA + ca, Name: "example.com"}, http.StatusOK},
		{model.UpstreamTLS{CA: ca, Name: "shop.example.org"}, http.StatusServiceUnavailable},
		{model.UpstreamTLS{CA: ca, NameSuffix: ".com"}, http.StatusOK},
		{model.UpstreamTLS{CA: ca, NameSuffix: ".apps.svc"}, http.StatusServiceUnavailable},
	} {
		objects.EnvoySettings = resolve.SettingsByNamespace{
			namespace: {Cluster: model.ClusterSettings{TLS: test.tls}},
		}
		resources := translated(t, objects, translate.DefaultOptions())
		updated := s.stat(t, "cluster_manager.cluster_modified")
		s.publish(t, resources)
		if test.tls != (model.UpstreamTLS{}) {
			await.True(t, "the new cluster", func() bool { return s.stat(t, "cluster_manager.cluster_modified") > updated })
		}
		var status int
		var body string
		await.Described(t, "the answer", func() bool {
			status, body = s.request(t, "HTTP/1.1", "shop.example.com", "/", nil)
			return status == test.want
		}, func() string { return body })
		if strings.Contains(body, `"shop"`) != (test.want == http.StatusOK) {
			t.Errorf("with name %q and suffix %q: %d %s", test.tls.Name, test.tls.NameSuffix, status, body)
		}
	}
}
