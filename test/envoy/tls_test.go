package envoy_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

// withTLS translates inputs without validation errors, and their Secrets, to the xDS resources of one fleet.
func withTLS(t *testing.T, fleet model.Fleet, inputs resolve.Inputs, secrets ...*corev1.Secret) translate.Resources {
	t.Helper()
	options := translate.DefaultOptions()
	options.TLS = true
	return withCertificates(t, options, fleet, inputs, secrets...)
}

// withCertificates is withTLS with other options.
func withCertificates(
	t *testing.T, options translate.Options, fleet model.Fleet, inputs resolve.Inputs, secrets ...*corev1.Secret,
) translate.Resources {
	t.Helper()
	config, problems := resolve.Build(inputs)
	if len(problems) > 0 {
		t.Fatalf("the test's objects have validation errors: %+v", problems)
	}
	config = model.ByFleet(config)[fleet]
	hosts, parsed := map[model.Host]model.Config{}, map[model.Key]*certificates.Secret{}
	for _, route := range config.Routes {
		host := route.Match.Host
		hosts[host] = model.Config{Routes: append(hosts[host].Routes, route)}
	}
	for _, secret := range secrets {
		parsed[model.Key{Namespace: secret.Namespace, Name: secret.Name}] = certificates.Parse(secret)
	}
	resolver := certificates.NewResolver()
	resolver.Update(map[model.Fleet]model.Update{fleet: {Hosts: hosts}}, parsed)
	config.Certificates = resolver.ForFleet(fleet)
	resources, err := options.Envoy(config)
	if err != nil {
		t.Fatal(err)
	}
	return resources
}

// withTLSSecret returns a copy of the object that references a Secret.
func withTLSSecret(object *httpv1alpha1.HTTPScaledObject, secret string) *httpv1alpha1.HTTPScaledObject {
	return kit.WithAnnotation(object, httpv1alpha1.AnnotationTLSSecretName, secret)
}

// tlsAddress returns the address of the TLS listener.
func (s *served) tlsAddress(t *testing.T) string {
	t.Helper()
	address, err := s.ListenerAddress(t.Context(), translate.TLSListenerName)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// handshake opens a connection with name as SNI, and returns the serial number of the certificate.
func handshake(ctx context.Context, address, name string) (*tls.Conn, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, await.Patience())
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{ServerName: name, InsecureSkipVerify: true}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, 0, err
	}
	tlsConnection, ok := connection.(*tls.Conn)
	if !ok {
		return nil, 0, errors.Join(errors.New("not a TLS connection"), connection.Close())
	}
	return tlsConnection, tlsConnection.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

// tlsClient returns a client that sends the requests for all hosts over TLS to one address.
func tlsClient(address, protocol string) *http.Client {
	transport := &http.Transport{
		Protocols:       new(http.Protocols),
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
	}
	transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
	transport.Protocols.SetHTTP2(protocol == "HTTP/2")
	return &http.Client{Transport: transport, Timeout: await.Patience()}
}

// tlsAnswer is a response over TLS: the request that the app received, and the certificate.
type tlsAnswer struct {
	echoed

	status int
	serial int64
	proto  string
}

// getTLS sends one GET request.
func getTLS(ctx context.Context, client *http.Client, url string) (tlsAnswer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return tlsAnswer{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return tlsAnswer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	got := tlsAnswer{
		status: response.StatusCode, proto: response.Proto, serial: response.TLS.PeerCertificates[0].SerialNumber.Int64(),
	}
	if err == nil && response.StatusCode == http.StatusOK {
		err = json.Unmarshal(body, &got.echoed)
	}
	return got, err
}

// tenants returns the objects and Secrets of two tenants and a wildcard, and a host without TLS.
func tenants(t *testing.T) (resolve.Inputs, []*corev1.Secret) {
	t.Helper()
	objects := []*httpv1alpha1.HTTPScaledObject{
		withTLSSecret(kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"), "shop-tls"),
		withTLSSecret(kit.NewScaledObject(namespace, "bank", "bank", 2, "bank.example.org"), "bank-tls"),
		withTLSSecret(kit.NewScaledObject(namespace, "wide", "wide", 3, "*.example.com"), "wide-tls"),
		kit.NewScaledObject(namespace, "plain", "plain", 4, "plain.example.com"),
	}
	var backends []*backend
	for _, object := range objects {
		backends = append(backends, startBackend(t, object.Name))
	}
	return newInputs(t, backends, objects...), []*corev1.Secret{
		kit.NewTLSSecret(t, namespace, "shop-tls", 1, "shop.example.com"),
		kit.NewTLSSecret(t, namespace, "bank-tls", 2, "bank.example.org"),
		kit.NewTLSSecret(t, namespace, "wide-tls", 3, "*.example.com"),
	}
}

// TestCertificateByHost sends requests for hosts of two tenants over TLS: each host has its own certificate and its own
// routes, in HTTP/1.1 and HTTP/2, and stays available in clear text. A handshake with an unknown or invalid SNI fails.
// A client without SNI receives the certificate of the oldest object.
func TestCertificateByHost(t *testing.T) {
	t.Parallel()
	objects, secrets := tenants(t)
	resources := withTLS(t, namespace, objects, secrets...)
	s := serve(t, "DELTA_GRPC", resources)
	s.await(t, resources)
	address := s.tlsAddress(t)
	for host, want := range map[string]tlsAnswer{
		"shop.example.com": {echoed: echoed{Backend: "shop"}, serial: 1},
		"SHOP.example.com": {echoed: echoed{Backend: "shop"}, serial: 1},
		"bank.example.org": {echoed: echoed{Backend: "bank"}, serial: 2},
		"a.example.com":    {echoed: echoed{Backend: "wide"}, serial: 3},
		"b.c.example.com":  {echoed: echoed{Backend: "wide"}, serial: 3},
	} {
		for protocol, proto := range map[string]string{"HTTP/1.1": "HTTP/1.1", "HTTP/2": "HTTP/2.0"} {
			got, err := getTLS(t.Context(), tlsClient(address, protocol), "https://"+host+"/")
			if err != nil {
				t.Errorf("%s %s: %v", protocol, host, err)
				continue
			}
			if got.Backend != want.Backend || got.serial != want.serial || got.proto != proto ||
				got.Header.Get("X-Forwarded-Proto") != "https" {
				t.Errorf("%s %s: answered by %q with certificate %d in %s, X-Forwarded-Proto %q", protocol, host, got.Backend,
					got.serial, got.proto,
					got.Header.Get("X-Forwarded-Proto"))
			}
		}
		if status, body := s.request(t, "HTTP/1.1", host, "/", nil); status != http.StatusOK ||
			!strings.Contains(body, want.Backend) {
			t.Errorf("%s in clear text: %d %s", host, status, body)
		}
	}
	// The Host header selects the route, as without TLS.
	if got, err := getTLS(t.Context(), tlsClient(address, "HTTP/2"), "https://a.example.com/"); err != nil ||
		got.Host != "a.example.com" {
		t.Errorf("a.example.com: %+v, %v", got, err)
	}
	for _, name := range []string{
		"plain.example.com", "unknown.example.net", "example.com", "*", "-", "(none)", "*.example.com", "xdstp:x",
		"xdstp://a/b/c", "a b", "a/b", "\xff\xfe.example.com",
		strings.Repeat("a", 200), "a..b",
	} {
		if connection, serial, err := handshake(t.Context(), address, name); err == nil {
			t.Errorf("SNI %.20q: got certificate %d", name, serial)
			_ = connection.Close()
		}
	}
	for _, name := range []string{"shop.example.com", ""} {
		if _, serial, err := handshake(t.Context(), address, name); err != nil || serial != 1 {
			t.Errorf("afterwards, SNI %q: certificate %d, %v", name, serial, err)
		}
	}
	checkNoKeys(t, s, secrets)
}

// checkNoKeys fails the test if an admin page of the proxy contains a private key.
func checkNoKeys(t *testing.T, s *served, secrets []*corev1.Secret) {
	t.Helper()
	for _, page := range []string{"/config_dump?include_eds", "/stats", "/listeners?format=json"} {
		dump, err := s.Admin(t.Context(), page)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			key := secret.Data[corev1.TLSPrivateKeyKey]
			if strings.Contains(string(dump), string(key)) ||
				strings.Contains(string(dump), base64.StdEncoding.EncodeToString(key)) {
				t.Errorf("%s shows the key of Secret %s", page, secret.Name)
			}
		}
	}
}

// TestCertificateRotationUnderLoad changes a host's certificate, and then its weights, under TLS load. No request
// fails, lasting connections stay open, clients receive the new certificate, and the split is the same as in clear
// text. After its Secret is deleted, handshakes fail, but open connections stay.
func TestCertificateRotationUnderLoad(t *testing.T) {
	t.Parallel()
	const host = "shop.example.com"
	stable, canary := startBackend(t, "stable"), startBackend(t, "canary")
	object := withTLSSecret(kit.NewScaledObject(namespace, "shop", "stable", 1, host), "shop-tls")
	weighted := kit.WithSplit(object, split.Backend{Service: "stable", Weight: 80},
		split.Backend{Service: "canary", Weight: 20})
	backends := []*backend{stable, canary}
	serial := int64(1)
	publish := func(s *served, object *httpv1alpha1.HTTPScaledObject) translate.Resources {
		t.Helper()
		resources := withTLS(t, namespace, newInputs(t, backends, object),
			kit.NewTLSSecret(t, namespace, "shop-tls", serial, host))
		if s != nil {
			s.publish(t, resources)
		}
		return resources
	}
	resources := publish(nil, object)
	s := serve(t, "DELTA_GRPC", resources)
	s.await(t, resources)
	updates := s.stat(t, "listener_manager.lds.update_success")
	load := startTLSLoad(t, s.tlsAddress(t), host)
	for range 5 {
		before := load.done.Load()
		await.True(t, "requests are sent", func() bool { return load.done.Load() > before+20 })
		serial++
		began := time.Now()
		publish(s, object)
		await.True(t, fmt.Sprint("certificate ", serial, " is seen"), func() bool { return load.newest.Load() == serial })
		t.Logf("certificate %d was seen after %v", serial, time.Since(began))
	}
	resources = publish(s, weighted)
	s.await(t, resources)
	stables, canaries := load.count("stable"), load.count("canary")
	const sample = 1500
	await.True(t, "a sample of requests is answered", func() bool {
		return load.count("stable")-stables+load.count("canary")-canaries >= sample
	})
	stables, canaries = load.count("stable")-stables, load.count("canary")-canaries
	got := stats.Split{Hits: canaries, Total: stables + canaries}
	const most = 4 // standard deviations: one of 16,000 samples deviates more by chance
	if got.Sigmas(0.2) > most {
		t.Errorf("%d of %d requests over TLS went to the canary, want 20 %%: off by %.1f standard deviations", got.Hits,
			got.Total, got.Sigmas(0.2))
	}
	connection, _, err := handshake(t.Context(), s.tlsAddress(t), host)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	load.end()
	if failed, lost := load.failed.Load(), load.lost.Load(); failed > 0 || lost > 0 {
		t.Errorf("of %d requests %d failed, for example %v; %d lasting connections were lost", load.done.Load(), failed,
			load.firstError.Load(), lost)
	}
	t.Logf("%d requests; %d of %d to the canary", load.done.Load(), got.Hits, got.Total)
	if now := s.stat(t, "listener_manager.lds.update_success"); now != updates {
		t.Errorf("the listeners were updated %d times", now-updates)
	}

	s.publish(t, withTLS(t, namespace, newInputs(t, backends, weighted)))
	await.True(t, "handshakes fail without the Secret", func() bool {
		other, _, err := handshake(t.Context(), s.tlsAddress(t), host)
		if err == nil {
			_ = other.Close()
		}
		return err != nil
	})
	if _, err := fmt.Fprintf(connection, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(connection); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Errorf("on a connection from before: %q, %v", answer, err)
	}
}

// TestCertificatesStayInFleet requests hosts of another fleet from a proxy.
func TestCertificatesStayInFleet(t *testing.T) {
	t.Parallel()
	all := newInputs(t, []*backend{startBackend(t, "shop")},
		withTLSSecret(kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"), "shop-tls"),
		withTLSSecret(kit.NewScaledObject("greedy", "shop", "shop", 1, "shop.example.com", "bank.example.org", "*"),
			"shop-tls"))
	all.Services = append(all.Services, kit.ResolveServices(kit.NewService("greedy", "shop"))...)
	secrets := []*corev1.Secret{
		kit.NewTLSSecret(t, namespace, "shop-tls", 1, "shop.example.com"),
		kit.NewTLSSecret(t, "greedy", "shop-tls", 2, "shop.example.com", "bank.example.org"),
	}
	resources := withTLS(t, namespace, all, secrets...)
	s := serve(t, "DELTA_GRPC", resources)
	if err := s.server.Publish("greedy", withTLS(t, "greedy", all, secrets...)); err != nil {
		t.Fatal(err)
	}
	s.await(t, resources)
	address := s.tlsAddress(t)
	if connection, serial, err := handshake(t.Context(), address, "shop.example.com"); err != nil || serial != 1 {
		t.Errorf("its own host: certificate %d, %v", serial, err)
	} else {
		_ = connection.Close()
	}
	if _, serial, err := handshake(t.Context(), address, "bank.example.org"); err == nil {
		t.Errorf("a host of another fleet: certificate %d", serial)
	}
	dump, err := s.Admin(t.Context(), "/config_dump")
	if err != nil {
		t.Fatal(err)
	}
	other := base64.StdEncoding.EncodeToString(secrets[1].Data[corev1.TLSCertKey])
	if strings.Contains(string(dump), other) || strings.Contains(string(dump), "bank.example.org") {
		t.Error("the dump contains resources of the other fleet")
	}
}

// TestCertificatesOutliveTheInterceptor: a proxy with a host's certificate completes handshakes without the
// interceptor.
func TestCertificatesOutliveTheInterceptor(t *testing.T) {
	t.Parallel()
	objects, secrets := tenants(t)
	resources := withTLS(t, namespace, objects, secrets...)
	s := serve(t, "DELTA_GRPC", resources)
	s.await(t, resources)
	address := s.tlsAddress(t)
	for _, isServed := range []bool{true, false} {
		if !isServed {
			s.server.Close()
			await.True(t, "the proxy has lost its connection",
				func() bool { return s.stat(t, "control_plane.connected_state") == 0 })
		}
		for range 10 {
			connection, serial, err := handshake(t.Context(), address, "shop.example.com")
			if err != nil || serial != 1 {
				t.Fatalf("certificate %d, %v; the interceptor runs: %t", serial, err, isServed)
			}
			_ = connection.Close()
		}
	}
}

// TestStateOfTheWorldHasNoTLSListener: state-of-the-world xDS cannot reject an unknown SNI. Everything else works.
func TestStateOfTheWorldHasNoTLSListener(t *testing.T) {
	t.Parallel()
	objects, secrets := tenants(t)
	resources := withTLS(t, namespace, objects, secrets...)
	s := serve(t, "GRPC", resources)
	s.await(t, resources)
	s.eventually(t, "shop.example.com", "shop")
	if address, err := s.ListenerAddress(t.Context(), translate.TLSListenerName); err == nil {
		t.Errorf("the proxy listens for TLS at %s", address)
	}
}
