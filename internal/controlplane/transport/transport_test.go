package transport_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/transport"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// name is the interceptor's DNS name.
var name = transport.Name("keda")

// kindOfCaller is a gRPC service that answers with what it finds out about its caller.
type kindOfCaller struct {
	grpc_health_v1.UnimplementedHealthServer

	certificates *transport.Certificates
}

// Watch answers SERVING to replicas, NOT_SERVING to other callers with TLS, and UNKNOWN to those without.
func (s kindOfCaller) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
	kind := grpc_health_v1.HealthCheckResponse_UNKNOWN
	if transport.IsSecure(stream.Context()) {
		kind = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	if s.certificates.IsReplica(stream.Context()) {
		kind = grpc_health_v1.HealthCheckResponse_SERVING
	}
	return stream.Send(&grpc_health_v1.HealthCheckResponse{Status: kind})
}

// listen opens a local port with certificates until the test ends.
func listen(t *testing.T, certificates *transport.Certificates) *transport.Listener {
	t.Helper()
	plain, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := transport.Listen(plain, transport.Options{
		Certificates: certificates, Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() { _ = listener.Close() }) // It may be closed already.
	return listener
}

// serveGRPC serves kindOfCaller until the test ends, and returns its address.
func serveGRPC(t *testing.T, certificates *transport.Certificates) string {
	t.Helper()
	listener, server := listen(t, certificates), grpcserver.New(grpcserver.Options{})
	grpc_health_v1.RegisterHealthServer(server, kindOfCaller{certificates: certificates})
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listener); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return listener.Addr().String()
}

// call calls kindOfCaller once.
func call(t *testing.T, address string, with credentials.TransportCredentials) (string, error) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(with))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return kindOf(t, conn)
}

// kindOf calls kindOfCaller once on a connection.
func kindOf(t *testing.T, conn *grpc.ClientConn) (string, error) {
	t.Helper()
	stream, err := grpc_health_v1.NewHealthClient(conn).Watch(await.Context(t), new(grpc_health_v1.HealthCheckRequest))
	if err != nil {
		return "", err
	}
	answer, err := stream.Recv()
	return answer.GetStatus().String(), err
}

// newCertificates returns certificates with data, none if it is nil.
func newCertificates(t *testing.T, data map[string][]byte) *transport.Certificates {
	t.Helper()
	certificates := &transport.Certificates{Name: name}
	if data != nil {
		if ca, err := certificates.Set(data); err != nil || ca != string(data["ca.crt"]) {
			t.Fatalf("Set = %q, %v", ca, err)
		}
	}
	return certificates
}

// tlsClient returns the credentials of a client that trusts the CA in data and has no certificate.
func tlsClient(data map[string][]byte) credentials.TransportCredentials {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data["ca.crt"])
	return credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS13})
}

// TestCallersOfOnePort has all kinds of callers of a replica, with and without a certificate of the replica.
func TestCallersOfOnePort(t *testing.T) {
	t.Parallel()
	own, other := kit.NewServerCertificate(t, name), kit.NewServerCertificate(t, name)
	const replica, secure, plaintext, rejected = "SERVING", "NOT_SERVING", "UNKNOWN", ""
	for _, test := range []struct {
		name   string
		server map[string][]byte
		client credentials.TransportCredentials
		want   string
	}{
		{"without TLS", own, insecure.NewCredentials(), plaintext},
		{"TLS without a certificate", own, tlsClient(own), secure},
		{"another replica", own, newCertificates(t, own).Credentials(), replica},
		{"a replica that has no certificate yet", own, newCertificates(t, nil).Credentials(), plaintext},
		{"a replica of another installation", own, newCertificates(t, other).Credentials(), rejected},
		{"a client that trusts another CA", own, tlsClient(other), rejected},
		{"TLS before the first certificate", nil, tlsClient(own), rejected},
		{"no TLS before the first certificate", nil, insecure.NewCredentials(), replica},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := call(t, serveGRPC(t, newCertificates(t, test.server)), test.client)
			if test.want == rejected {
				if status.Code(err) != codes.Unavailable {
					t.Errorf("%s, %v; want Unavailable", got, err)
				}
			} else if err != nil || got != test.want {
				t.Errorf("%s, %v; want %s", got, err, test.want)
			}
		})
	}
}

// TestCertificatesOfTheSameCAAreNoReplicas has a CA that signs the certificates of others too, as one of cert-manager
// may.
func TestCertificatesOfTheSameCAAreNoReplicas(t *testing.T) {
	t.Parallel()
	own, foreign := kit.NewServerCertificate(t, name), kit.NewServerCertificate(t, "shop.test")
	both := map[string][]byte{
		"tls.crt": own["tls.crt"], "tls.key": own["tls.key"], "ca.crt": append(own["ca.crt"], foreign["ca.crt"]...),
	}
	foreign["ca.crt"] = both["ca.crt"]
	got, err := call(t, serveGRPC(t, newCertificates(t, both)), newCertificates(t, foreign).Credentials())
	if err != nil || got != "NOT_SERVING" {
		t.Errorf("%s, %v; want NOT_SERVING", got, err)
	}
}

// TestReplacedCertificate replaces the certificate of a server that runs, by a valid one and then by invalid ones. A
// connection from before stays.
func TestReplacedCertificate(t *testing.T) {
	t.Parallel()
	first, second := kit.NewServerCertificate(t, name), kit.NewServerCertificate(t, name)
	certificates := newCertificates(t, first)
	address := serveGRPC(t, certificates)
	expect := func(when string, trusts map[string][]byte, want codes.Code) {
		t.Helper()
		if _, err := call(t, address, tlsClient(trusts)); status.Code(err) != want {
			t.Errorf("%s: %v, want %s", when, err, want)
		}
	}
	old, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(tlsClient(first)))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	expectOld := func(when string) {
		t.Helper()
		if _, err := kindOf(t, old); err != nil {
			t.Errorf("%s, a connection from before: %v", when, err)
		}
	}
	expect("the first certificate", first, codes.OK)
	expectOld("the first certificate")
	if _, err := certificates.Set(second); err != nil {
		t.Fatal(err)
	}
	expectOld("after a change")
	expect("after a change, a client that trusts the first", first, codes.Unavailable)
	expect("after a change, a client that trusts the second", second, codes.OK)
	for what, invalid := range map[string]map[string][]byte{
		"empty":             {},
		"the key of others": {"tls.crt": first["tls.crt"], "tls.key": second["tls.key"], "ca.crt": first["ca.crt"]},
		"no CA":             {"tls.crt": first["tls.crt"], "tls.key": first["tls.key"], "ca.crt": []byte("none")},
	} {
		if _, err := certificates.Set(invalid); err == nil {
			t.Errorf("%s: no error", what)
		}
		expect(what, second, codes.OK)
	}
}

// TestCAsContainNoKeys has a Secret with a private key in the key of the CAs, which all proxies receive.
func TestCAsContainNoKeys(t *testing.T) {
	t.Parallel()
	data := kit.NewServerCertificate(t, name)
	authorities := string(data["ca.crt"])
	data["ca.crt"] = slices.Concat([]byte("# CAs\n"), data["tls.key"], data["ca.crt"], []byte("\nend\n"))
	if ca, err := new(transport.Certificates).Set(data); err != nil || ca != authorities {
		t.Errorf("Set = %q, %v; want %q", ca, err, authorities)
	}
}

// TestSilentClientsDelayNoOthers has clients that send nothing, or an unfinished handshake, and closes the port while
// they are connected.
func TestSilentClientsDelayNoOthers(t *testing.T) {
	t.Parallel()
	data := kit.NewServerCertificate(t, name)
	certificates := newCertificates(t, data)
	listener := listen(t, certificates)
	var silent []net.Conn
	for _, sent := range []string{"", "\x16", "\x16\x03\x01"} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		silent = append(silent, conn)
	}
	talking, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer talking.Close()
	if _, err := io.WriteString(talking, "PRI"); err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	start := make([]byte, 3)
	if _, err := io.ReadFull(accepted, start); err != nil || string(start) != "PRI" {
		t.Errorf("received %q, %v", start, err)
	}
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	for _, conn := range silent {
		_, _ = io.Copy(io.Discard, conn) // It returns when the server has closed the connection.
	}
	if _, err := listener.Accept(); err == nil {
		t.Error("Accept of a closed port succeeds")
	}
}

// TestOnePeerCannotUseAllConnections has a peer with the maximum number of connections that send nothing. Another one is
// closed, and a connection of another peer is accepted.
func TestOnePeerCannotUseAllConnections(t *testing.T) {
	t.Parallel()
	listener := listen(t, newCertificates(t, kit.NewServerCertificate(t, name)))
	dial := func(from string) net.Conn {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	const limit = 256
	for range limit {
		dial("127.0.0.1")
	}
	if n, err := dial("127.0.0.1").Read(make([]byte, 1)); err == nil {
		t.Errorf("received %d bytes", n)
	}
	if _, err := io.WriteString(dial("127.0.0.2"), "PRI"); err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if from := accepted.RemoteAddr().String(); !strings.HasPrefix(from, "127.0.0.2:") {
		t.Errorf("accepted a connection from %s", from)
	}
	_ = accepted.Close()
}

// TestHTTPServerOnAListener serves HTTP/2 with and without TLS by net/http, as the metric sink does.
func TestHTTPServerOnAListener(t *testing.T) {
	t.Parallel()
	data := kit.NewServerCertificate(t, name)
	listener := listen(t, newCertificates(t, data))
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP2(true)
	server := &http.Server{
		Protocols: protocols, ConnContext: server.ConnContext,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.Proto)
			if transport.IsSecure(r.Context()) {
				_, _ = io.WriteString(w, " secure")
			}
		}),
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	defer serving.Wait()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data["ca.crt"])
	for scheme, want := range map[string]string{"http": "HTTP/2.0", "https": "HTTP/2.0 secure"} {
		client := &http.Transport{
			Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS13},
		}
		request, err := http.NewRequestWithContext(await.Context(t), http.MethodGet,
			scheme+"://"+listener.Addr().String(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.RoundTrip(request)
		if err != nil {
			t.Errorf("%s: %v", scheme, err)
			continue
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || string(body) != want {
			t.Errorf("%s: %q, %v; want %q", scheme, body, err, want)
		}
		_ = response.Body.Close()
		client.CloseIdleConnections()
	}
}
