package envoy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// namespace is the namespace of all objects.
const namespace = "apps"

// chunkPause is the time between two chunks of a stream.
const chunkPause = 300 * time.Millisecond

// echoed is a backend's response: the request that it received.
type echoed struct {
	Backend string
	Method  string
	Host    string
	Path    string
	Proto   string
	Header  http.Header
	Trailer http.Header
}

// backend is an app behind a Service with the same name.
type backend struct {
	name    string
	server  *httptest.Server
	arrived chan struct{} // one element for each request to /held
	release chan struct{} // closed to answer them
}

// startBackend starts an app for HTTP/1.1 and HTTP/2 in clear text. The app stops with the test.
func startBackend(t *testing.T, name string) *backend {
	t.Helper()
	b := newBackend(name)
	b.server.Config.Protocols = new(http.Protocols)
	b.server.Config.Protocols.SetHTTP1(true)
	b.server.Config.Protocols.SetUnencryptedHTTP2(true)
	b.server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 250} // Go's default, made explicit
	b.server.Start()
	b.closeAfter(t)
	return b
}

// newBackend returns an app that does not serve yet.
func newBackend(name string) *backend {
	b := &backend{name: name, arrived: make(chan struct{}, 100), release: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/", b.echo)
	mux.HandleFunc(traffic.Path, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, "%q", name) })
	mux.HandleFunc("/held", b.waitForRelease)
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/stream", stream)
	mux.HandleFunc("/websocket", upgrade)
	mux.HandleFunc("/websocket/header", upgradeWithHeader)
	mux.HandleFunc("/received", b.echoAfterBody)
	mux.HandleFunc("/size", size)
	mux.HandleFunc("/slow", b.slow)
	mux.HandleFunc("/headers", largeHeaders)
	mux.HandleFunc("/trailers", trailers)
	mux.HandleFunc("/offer", b.offerUpgrade)
	mux.HandleFunc("/hints", b.hint)
	mux.HandleFunc("/abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/reject", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})
	calls := grpc.NewServer(grpc.UnknownServiceHandler(echoStream))
	grpc_health_v1.RegisterHealthServer(calls, health.NewServer())
	mux.Handle("/grpc.health.v1.Health/", calls)
	mux.Handle("/test.Talk/", calls)
	b.server = httptest.NewUnstartedServer(mux)
	b.server.Config.MaxHeaderBytes = 4 << 20 // more than the proxy accepts
	return b
}

// closeAfter stops the app with the test.
func (b *backend) closeAfter(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		b.server.CloseClientConnections()
		b.server.Close()
	})
}

// echo responds with the received request.
func (b *backend) echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "the-app")
	_ = json.NewEncoder(w).Encode(echoed{
		Backend: b.name, Method: r.Method, Host: r.Host, Path: r.URL.Path, Proto: r.Proto, Header: r.Header,
		Trailer: r.Trailer,
	})
}

// echoAfterBody is echo after the body, which is before the trailers.
func (b *backend) echoAfterBody(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	b.echo(w, r)
}

// echoStream sends each message of a gRPC stream back.
func echoStream(_ any, stream grpc.ServerStream) error {
	for {
		message := new(grpc_health_v1.HealthCheckRequest)
		if err := stream.RecvMsg(message); err != nil {
			return nil //nolint:nilerr // the client has closed the stream
		}
		if err := stream.SendMsg(message); err != nil {
			return err
		}
	}
}

// waitForRelease responds when the test closes release.
func (b *backend) waitForRelease(w http.ResponseWriter, r *http.Request) {
	b.arrived <- struct{}{}
	select {
	case <-b.release:
		b.echo(w, r)
	case <-r.Context().Done():
	}
}

// slow responds after a pause.
func (b *backend) slow(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(chunkPause): //testbounds:allow an app that is slow on purpose
		b.echo(w, r)
	case <-r.Context().Done():
	}
}

// stream sends four chunks with pauses.
func stream(w http.ResponseWriter, r *http.Request) {
	ticker := time.NewTicker(chunkPause)
	defer ticker.Stop()
	for range 4 {
		_, _ = fmt.Fprintln(w, "chunk")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		}
	}
}

// largeHeaders responds with as many header fields of as many bytes as the query says.
func largeHeaders(w http.ResponseWriter, r *http.Request) {
	count, _ := strconv.Atoi(r.URL.Query().Get("count"))
	size, _ := strconv.Atoi(r.URL.Query().Get("size"))
	for i := range count {
		w.Header().Set(fmt.Sprintf("X-Large-%d", i), strings.Repeat("x", size))
	}
}

// trailers responds with a trailer that has the value of a trailer of the request. It flushes, because a response with a
// length has no trailers over HTTP/1.1.
func trailers(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", "X-Sum")
	_, _ = io.Copy(w, r.Body)
	_ = http.NewResponseController(w).Flush()
	w.Header().Set("X-Sum", r.Trailer.Get("X-Sum"))
}

// offerUpgrade is echo with an offer of HTTP/2, as Apache makes it in each response.
func (b *backend) offerUpgrade(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Upgrade", "h2,h2c")
	w.Header().Set("Connection", "Upgrade")
	b.echo(w, r)
}

// hint is echo after two Early Hints (RFC 8297), and an interim response that few clients know.
func (b *backend) hint(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Link", "</style.css>; rel=preload; as=style")
	w.WriteHeader(http.StatusProcessing)
	w.WriteHeader(http.StatusEarlyHints)
	w.Header().Add("Link", "</script.js>; rel=preload; as=script")
	w.WriteHeader(http.StatusEarlyHints)
	b.echo(w, r)
}

// size responds with the length of the body.
func size(w http.ResponseWriter, r *http.Request) {
	length, _ := io.Copy(io.Discard, r.Body)
	_, _ = fmt.Fprint(w, length)
}

// upgrade accepts any upgrade and sends one line back.
func upgrade(w http.ResponseWriter, _ *http.Request) {
	connection, stream, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer connection.Close()
	_, _ = connection.Write(
		[]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
	line, _ := bufio.NewReader(stream).ReadString('\n')
	_, _ = connection.Write([]byte(line))
}

// upgradeWithHeader accepts any upgrade and sends one line with the header of the request.
func upgradeWithHeader(w http.ResponseWriter, r *http.Request) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer connection.Close()
	_, _ = connection.Write(
		[]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
	_ = json.NewEncoder(connection).Encode(r.Header)
}

// service returns the Service of a backend, and its slice with the port of the backend.
func (b *backend) service(t *testing.T) (*corev1.Service, *discoveryv1.EndpointSlice) {
	t.Helper()
	host, portText, err := net.SplitHostPort(b.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(portText, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	slice := kit.NewEndpointSlice(namespace, b.name, host)
	port := int32(number)
	slice.Ports[0].Port = &port
	return kit.NewService(namespace, b.name), slice
}

// newInputs returns objects with the Service of every backend.
func newInputs(t *testing.T, backends []*backend, objects ...*httpv1alpha1.HTTPScaledObject) resolve.Inputs {
	t.Helper()
	inputs := resolve.Inputs{ScaledObjects: objects}
	for _, b := range backends {
		service, slice := b.service(t)
		inputs.Services = append(inputs.Services, kit.ResolveServices(service)...)
		inputs.EndpointSlices = append(inputs.EndpointSlices, kit.ResolveEndpointSlices(slice)...)
	}
	return inputs
}

// translated translates inputs without validation errors to xDS resources.
func translated(t *testing.T, inputs resolve.Inputs, options translate.Options) translate.Resources {
	t.Helper()
	config, problems := resolve.Build(inputs)
	if len(problems) > 0 {
		t.Fatalf("the test's objects have validation errors: %+v", problems)
	}
	resources, err := options.Envoy(config)
	if err != nil {
		t.Fatal(err)
	}
	return resources
}
