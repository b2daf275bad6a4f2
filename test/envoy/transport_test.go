package envoy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/certificate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/transport"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
)

// interceptorName is the DNS name of the interceptor in namespace keda.
const interceptorName = sinkService + ".svc"

// tappedListener records the accepted connections, so that a test can close them.
type tappedListener struct {
	net.Listener

	mu   sync.Mutex
	open []net.Conn
}

func (l *tappedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.open = append(l.open, conn)
	}
	return conn, err
}

// disconnect closes all connections, so that clients open new ones.
func (l *tappedListener) disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.open {
		_ = conn.Close()
	}
	l.open = nil
}

// logBuffer contains the lines of a log.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

// count returns how often the log contains a text.
func (b *logBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

// secureServer is an xDS server that serves TLS and plaintext on one port. It accepts tokens that begin with "good".
type secureServer struct {
	served

	mu     sync.Mutex
	header string // the last Authorization header

	certificates *transport.Certificates
	port         string
	tap          *tappedListener
	log          *logBuffer
}

// serveSecurely starts an xDS server, without Envoy.
func serveSecurely(t *testing.T) *secureServer {
	t.Helper()
	envoyproc.Binary(t)
	s := &secureServer{
		certificates: &transport.Certificates{Name: interceptorName},
		tap:          &tappedListener{Listener: listen(t)}, log: new(logBuffer),
	}
	s.served = served{proxy: &proxy{}, server: xds.NewServer(xds.Options{Identify: s.identify})}
	s.server.SetMembers(xds.Members{Fleets: map[netip.Addr][]string{netip.MustParseAddr("127.0.0.1"): {namespace}}})
	_, port, err := net.SplitHostPort(s.tap.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s.port = port
	grpcServer := grpcserver.New(grpcserver.Options{})
	s.server.Register(grpcServer)
	logger := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	serveGRPC(t, grpcServer, transport.Listen(s.tap, transport.Options{Certificates: s.certificates, Logger: logger}))
	return s
}

// identify implements xds.Options.Identify.
func (s *secureServer) identify(ctx context.Context) (string, error) {
	header := strings.Join(metadata.ValueFromIncomingContext(ctx, "authorization"), ", ")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.header = header
	switch {
	case !transport.IsSecure(ctx):
		return "", nil
	case strings.HasPrefix(header, "Bearer good"):
		return namespace, nil
	default:
		return "", status.Error(codes.Unauthenticated, "bad token")
	}
}

// lastHeader returns the last Authorization header.
func (s *secureServer) lastHeader() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.header
}

// newMount returns the volumes of a proxy of the agent with a token, and its bootstrap.
func (s *secureServer) newMount(t *testing.T, ca []byte) (*envoyproc.Mount, string) {
	t.Helper()
	mount := &envoyproc.Mount{Folder: t.TempDir()}
	bootstrap, err := mount.Write(ca, s.localChanges()...)
	if err := errors.Join(err, mount.WriteToken("good 1")); err != nil {
		t.Fatal(err)
	}
	return mount, bootstrap
}

// set replaces the server's certificate.
func (s *secureServer) set(t *testing.T, data map[string][]byte) {
	t.Helper()
	if _, err := s.certificates.Set(data); err != nil {
		t.Fatal(err)
	}
}

// localChanges replace the interceptor's addresses in a bootstrap.
func (s *secureServer) localChanges() [][2]string {
	return [][2]string{
		{"{address: " + sinkService, "{address: 127.0.0.1"},
		{"port_value: 5678", "port_value: " + s.port},
		{"port_value: 9901", "port_value: 0"},
		{"port_value: 9902", "port_value: 0"},
	}
}

// runEnvoy starts Envoy with a bootstrap.
func (s *secureServer) runEnvoy(t *testing.T, bootstrap string) {
	t.Helper()
	s.Envoy = envoyproc.Run(t, bootstrap, 2)
	var err error
	if s.address, err = s.ListenerAddress(t.Context(), translate.ListenerName); err != nil {
		t.Fatal(err)
	}
}

// reconnect closes the connections and waits until the proxy has a new stream.
func (s *secureServer) reconnect(t *testing.T, when string) {
	t.Helper()
	before := s.connections()
	s.tap.disconnect()
	await.True(t, when+": the proxy has connected again", func() bool {
		now := s.connections()
		return len(now) == 1 && !slices.Equal(now, before)
	})
}

// connections returns the source addresses of the streams.
func (s *secureServer) connections() (peers []string) {
	s.server.Poll(func(state xds.StreamState) { peers = append(peers, state.Peer()) })
	return peers
}

// agentCertificate returns the data of the Secret that the agent creates for the interceptor. The CAs of two of them
// have the same subject.
func agentCertificate(t *testing.T) map[string][]byte {
	t.Helper()
	name := types.NamespacedName{Namespace: "keda", Name: "tls"}
	issuer := &certificate.Issuer{
		Client: fake.NewClientBuilder().Build(), Secret: name, Services: []string{transport.ServerName},
		Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := issuer.Run(ctx); err != nil {
			t.Errorf("run the issuer: %v", err)
		}
	})
	await.True(t, "the agent has created a certificate", func() bool { return issuer.CA() != nil })
	cancel()
	running.Wait()
	var secret corev1.Secret
	if err := issuer.Client.Get(t.Context(), name, &secret); err != nil {
		t.Fatal(err)
	}
	return secret.Data
}

// TestProxyVerifiesTheInterceptor runs Envoy with the files of the agent's proxies, and certificates of the agent. The
// CA is renewed in the mounted ConfigMap without a restart of Envoy. An interceptor with a certificate of another CA,
// or of a trusted CA for another name, receives no stream.
func TestProxyVerifiesTheInterceptor(t *testing.T) {
	t.Parallel()
	s := serveSecurely(t)
	first, second := agentCertificate(t), agentCertificate(t)
	other := kit.NewServerCertificate(t, "other.keda.svc")
	s.set(t, first)
	objects, secrets := tenants(t)
	resources := withTLS(t, namespace, objects, secrets...)
	s.publish(t, resources)
	mount, bootstrap := s.newMount(t, slices.Concat(first["ca.crt"], other["ca.crt"]))
	s.runEnvoy(t, bootstrap)
	s.await(t, resources)
	if _, serial, err := handshake(t.Context(), s.tlsAddress(t), "shop.example.com"); err != nil || serial != 1 {
		t.Errorf("a client's handshake: certificate %d, %v", serial, err)
	}

	for what, data := range map[string]map[string][]byte{
		"another CA":   kit.NewServerCertificate(t, interceptorName),
		"another name": other,
	} {
		s.set(t, data)
		before := s.log.count("connection rejected")
		s.tap.disconnect()
		await.True(t, what+": the proxy rejects the interceptor", func() bool {
			return s.log.count("connection rejected") >= before+2
		})
		if streams := s.connections(); len(streams) > 0 {
			t.Errorf("%s: streams from %v", what, streams)
		}
		s.set(t, first)
		s.reconnect(t, "after "+what)
	}

	update := s.stat(t, "listener_manager.lds.update_success")
	both := slices.Concat(first["ca.crt"], second["ca.crt"])
	if _, err := mount.Write(both); err != nil {
		t.Fatal(err)
	}
	s.set(t, second)
	s.reconnect(t, "with the second certificate")
	if _, err := mount.Write(second["ca.crt"]); err != nil {
		t.Fatal(err)
	}
	s.reconnect(t, "without the first CA")
	if now := s.stat(t, "listener_manager.lds.update_success"); now < update {
		t.Errorf("Envoy has restarted: %d updates of listeners after %d", now, update)
	}
}

// TestProxySendsItsToken replaces the token in the mounted volume. Envoy sends the new one with the next stream,
// without a restart. With a token that the interceptor rejects, it keeps its configuration.
func TestProxySendsItsToken(t *testing.T) {
	t.Parallel()
	s := serveSecurely(t)
	data := kit.NewServerCertificate(t, interceptorName)
	s.set(t, data)
	objects, secrets := tenants(t)
	resources := withTLS(t, namespace, objects, secrets...)
	s.publish(t, resources)
	mount, bootstrap := s.newMount(t, data["ca.crt"])
	s.runEnvoy(t, bootstrap)
	s.await(t, resources)
	if header := s.lastHeader(); header != "Bearer good 1" {
		t.Errorf("header %q", header)
	}
	for _, token := range []string{"good 2", "bad 3", "good 4"} {
		if err := mount.WriteToken(token); err != nil {
			t.Fatal(err)
		}
		await.True(t, "the proxy sends "+token, func() bool {
			if s.lastHeader() != "Bearer "+token {
				s.tap.disconnect() // Envoy may not have read the file yet.
			}
			return s.lastHeader() == "Bearer "+token
		})
		await.True(t, "a stream exists exactly with a valid token", func() bool {
			return len(s.connections()) == 1 == strings.HasPrefix(token, "good")
		})
		s.eventually(t, "shop.example.com", "shop")
		if _, serial, err := handshake(t.Context(), s.tlsAddress(t), "shop.example.com"); err != nil || serial != 1 {
			t.Errorf("with %s, a client's handshake: certificate %d, %v", token, serial, err)
		}
	}
}

// TestPlaintextProxyReceivesNoKeys runs Envoy with the installed bootstrap, which connects without TLS. It routes
// requests, and has no certificate for its clients.
func TestPlaintextProxyReceivesNoKeys(t *testing.T) {
	t.Parallel()
	s := serveSecurely(t)
	s.set(t, kit.NewServerCertificate(t, interceptorName))
	objects, secrets := tenants(t)
	resources := withTLS(t, namespace, objects, secrets...)
	s.publish(t, resources)
	bootstrap, err := envoyproc.InstalledBootstrap("../..", s.localChanges()...)
	if err != nil {
		t.Fatal(err)
	}
	s.runEnvoy(t, bootstrap)
	s.await(t, resources)
	s.eventually(t, "shop.example.com", "shop")
	for range 3 {
		if connection, serial, err := handshake(t.Context(), s.tlsAddress(t), "shop.example.com"); err == nil {
			t.Errorf("a client received certificate %d", serial)
			_ = connection.Close()
		}
	}
	checkNoKeys(t, &s.served, secrets)
}

// TestCallsOfTheInterceptorUseTLS has Envoy validate the cluster of its calls of the interceptor.
func TestCallsOfTheInterceptorUseTLS(t *testing.T) {
	t.Parallel()
	s := serveSecurely(t)
	data := kit.NewServerCertificate(t, interceptorName)
	s.set(t, data)
	options := translate.DefaultOptions()
	options.Hold = translate.Hold{
		Checks: netip.MustParseAddrPort("127.0.0.1:" + s.port), Socket: "@" + t.Name(),
		CA: string(data["ca.crt"]), Name: interceptorName,
	}
	resources := withCertificates(t, options, namespace, newInputs(t, []*backend{startBackend(t, "shop")},
		kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com")))
	s.publish(t, resources)
	_, bootstrap := s.newMount(t, data["ca.crt"])
	s.runEnvoy(t, bootstrap)
	s.await(t, resources)
	dump, err := s.Admin(context.WithoutCancel(t.Context()), "/config_dump?name_regex="+translate.HoldName)
	if err != nil || !strings.Contains(string(dump), fmt.Sprintf("%q", interceptorName)) {
		t.Errorf("the cluster of calls does not verify the interceptor: %v\n%s", err, dump)
	}
}
