package envoy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// Tests with much load are not parallel: other tests of this package measure rates.

// TestQueuedUploads: Envoy reads at most a window of a queued request's body. Later the app receives the whole body.
func TestQueuedUploads(t *testing.T) {
	for _, protocol := range protocols() {
		t.Run(protocol, func(t *testing.T) {
			const size = 100 << 20
			all := hostInputs(t)
			r := startWithReplica(t, "DELTA_GRPC", without(all, "shop"))
			body := &countingReader{Reader: io.LimitReader(zeros{}, size)}
			done := make(chan result, 1)
			go func() { done <- r.send(t.Context(), protocol, "shop.example.com", "/size", nil, body) }()
			r.awaitQueued(t, "shop", 1)
			await.True(t, "the client is blocked", body.isStalled)
			if sent := body.read.Load(); sent > 16<<20 {
				t.Errorf("the client has sent %d bytes while its request was queued", sent)
			}
			r.publishInputs(t, all)
			if got := <-done; got.body != strconv.Itoa(size) || !got.isCold() {
				t.Errorf("%d bytes were sent: %+v", size, got)
			}
		})
	}
}

// TestQueuedUploadsDoNotBlockOthers: a connection with the maximum number of streams minus one, all queued uploads,
// transfers another upload to an app that is ready.
func TestQueuedUploadsDoNotBlockOthers(t *testing.T) {
	const queued, size = 255, 4 << 20
	all := hostInputs(t)
	r := startWithReplica(t, "DELTA_GRPC", without(all, "shop"))
	client := &http.Transport{Protocols: new(http.Protocols)}
	client.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(client.CloseIdleConnections)
	connection, err := client.NewClientConn(t.Context(), "http", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	upload := func(host string) result {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.address+"/size",
			io.LimitReader(zeros{}, size))
		if err != nil {
			return result{err: err}
		}
		request.Host = host
		return roundTrip(request, connection)
	}
	answers := make(chan result, queued)
	for range queued {
		go func() { answers <- upload("shop.example.com") }()
	}
	r.awaitQueued(t, "shop", queued)
	if got := upload("a.example.com"); got.body != strconv.Itoa(size) {
		t.Errorf("with %d queued uploads: %+v", queued, got)
	}
	r.publishInputs(t, all)
	for range queued {
		if got := <-answers; got.body != strconv.Itoa(size) || !got.isCold() {
			t.Errorf("%+v", got)
		}
	}
}

// TestScaleToZeroAndBackUnderLoad scales an app to zero and back under load, while Envoy's workers are busy: no request
// fails, and no connection is closed.
func TestScaleToZeroAndBackUnderLoad(t *testing.T) {
	all := hostInputs(t)
	r := startWithReplica(t, "DELTA_GRPC", all)
	load := traffic.Start(t, r.address, "shop.example.com", 2000, "shop")
	other := traffic.Start(t, r.address, "A.example.com", 1000, "wide")
	for range 20 {
		zero := r.publishInputs(t, without(all, "shop"))
		r.await(t, zero)
		await.True(t, "a request is queued", func() bool { return r.queued("shop").Waiting > 0 })
		r.await(t, r.publishInputs(t, all))
		await.True(t, "no request is queued", func() bool { return r.queued("shop").Waiting == 0 })
	}
	load.Stop()
	other.Stop()
	t.Logf("calls: %v", r.calls(t))
}

// TestQueuedWebSocketAndGRPCCall: a WebSocket is opened at zero, and a gRPC call reaches its queue deadline.
func TestQueuedWebSocketAndGRPCCall(t *testing.T) {
	t.Parallel()
	all := hostInputs(t)
	all.ScaledObjects[3].Spec.Timeouts = queueDeadline(time.Second)
	r := startWithReplica(t, "DELTA_GRPC", without(all, "shop", "wide"))

	connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_, err = fmt.Fprint(connection,
		"GET /websocket HTTP/1.1\r\nHost: shop.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	r.awaitQueued(t, "shop", 1)
	r.publishInputs(t, without(all, "wide"))
	reader := bufio.NewReader(connection)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v", response)
	}
	_, _ = fmt.Fprintln(connection, "hello")
	if line, err := reader.ReadString('\n'); line != "hello\n" {
		t.Errorf("the echo is %q, %v", line, err)
	}

	got := r.send(t.Context(), "HTTP/2", "a.example.com", "/Service/Method", http.Header{
		"Content-Type": {"application/grpc"}, "Te": {"trailers"},
	}, strings.NewReader("\x00\x00\x00\x00\x00"))
	if got.status != http.StatusOK || got.header.Get("Grpc-Status") != strconv.Itoa(int(codes.Unavailable)) {
		t.Errorf("a gRPC call at its deadline: %+v", got)
	}
}

// TestQueuedGRPCStream: the first message of a bidirectional gRPC stream is queued. Later each message is answered
// before the next one is sent. The stream continues when the app is scaled to zero again.
func TestQueuedGRPCStream(t *testing.T) {
	t.Parallel()
	all := hostInputs(t)
	for _, service := range all.Services {
		service.Ports[0].Protocol = model.HTTP2
	}
	r := startWithReplica(t, "DELTA_GRPC", without(all, "shop"))
	connection, err := grpc.NewClient(r.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("shop.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	stream, err := connection.NewStream(await.Context(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/test.Talk/Talk")
	if err != nil {
		t.Fatal(err)
	}
	send := func(text string) {
		t.Helper()
		if err := stream.SendMsg(&grpc_health_v1.HealthCheckRequest{Service: text}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(text string) {
		t.Helper()
		answer := new(grpc_health_v1.HealthCheckRequest)
		if err := stream.RecvMsg(answer); err != nil || answer.GetService() != text {
			t.Fatalf("%q: %v, want %q", answer.GetService(), err, text)
		}
	}
	send("0")
	r.awaitQueued(t, "shop", 1)
	r.await(t, r.publishInputs(t, all))
	expect("0")
	if header, err := stream.Header(); err != nil || len(header.Get(extauthz.ColdStartHeader)) != 1 {
		t.Errorf("%v, %v", header, err)
	}
	for i := range 10 {
		if i == 5 {
			r.await(t, r.publishInputs(t, without(all, "shop")))
		}
		send(strconv.Itoa(i))
		expect(strconv.Itoa(i))
	}
}

// TestManyQueuedRequestsForHTTP2App releases more queued requests than the app accepts on one connection: none is
// rejected.
func TestManyQueuedRequestsForHTTP2App(t *testing.T) {
	const requests = 800
	all := hostInputs(t)
	for _, service := range all.Services {
		service.Ports[0].Protocol = model.HTTP2
	}
	r := startWithReplica(t, "DELTA_GRPC", without(all, "shop"))
	var waiting []<-chan result
	for range requests {
		waiting = append(waiting, r.startWith(t, "HTTP/2", "shop.example.com", "/slow", nil))
	}
	r.awaitQueued(t, "shop", requests)
	r.publishInputs(t, all)
	failed := map[int]int{}
	for _, request := range waiting {
		if got := <-request; got.backend() != "shop" {
			failed[got.status]++
		}
	}
	if len(failed) > 0 {
		t.Errorf("of %d requests failed, by status: %v", requests, failed)
	}
}

// TestWaitingPage: a browser receives the waiting page, and later the app's response. The proxy answers a health check,
// which does not wake the app.
func TestWaitingPage(t *testing.T) {
	t.Parallel()
	all := hostInputs(t)
	all.ScaledObjects[2].Annotations = map[string]string{
		httpv1alpha1.AnnotationWaitingPage: "true", httpv1alpha1.AnnotationHealthcheckPath: "/healthz",
		httpv1alpha1.AnnotationHealthcheckResponse: httpv1alpha1.HealthcheckStatic,
	}
	r := startWithReplica(t, "DELTA_GRPC", without(all, "shop"))
	browser := http.Header{"Accept": {"text/html,application/xhtml+xml"}}
	got := r.send(t.Context(), "HTTP/1.1", "shop.example.com", "/healthz?deep=1", browser, nil)
	if got.status != http.StatusOK || got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonProbe ||
		r.queued("shop").Waiting > 0 {
		t.Errorf("a health check: %+v", got)
	}
	for _, protocol := range protocols() {
		got := r.send(t.Context(), protocol, "shop.example.com", "/", browser, nil)
		if got.status != http.StatusServiceUnavailable || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") ||
			got.header.Get("Retry-After") == "" || !strings.Contains(got.body, `http-equiv="refresh"`) {
			t.Errorf("%s: %+v", protocol, got)
		}
	}
	if got := r.queued("shop"); got.Waiting != 1 {
		t.Errorf("queue: %+v, want the page's request", got)
	}
	r.await(t, r.publishInputs(t, all))
	await.True(t, "the app answers", func() bool {
		got := r.send(t.Context(), "HTTP/1.1", "shop.example.com", "/", browser, nil)
		return got.backend() == "shop" && !got.isCold()
	})
	if got := r.queued("shop"); got.Waiting != 0 {
		t.Errorf("queue: %+v, want no request", got)
	}
}

// TestLargestWaitingPage: the largest waiting page of a ConfigMap is sent completely, with its status.
func TestLargestWaitingPage(t *testing.T) {
	t.Parallel()
	all := hostInputs(t)
	all.ScaledObjects[2].Annotations = map[string]string{httpv1alpha1.AnnotationWaitingPage: "true"}
	r := startWithReplica(t, "DELTA_GRPC", without(all, "shop"))
	r.page = page.Page{
		Body: strings.Repeat("page ", page.MaxBody/5), Status: http.StatusAccepted, RetryAfter: 10 * time.Second,
	}
	r.observe(t, without(all, "shop"))
	for _, protocol := range protocols() {
		got := r.send(t.Context(), protocol, "shop.example.com", "/", http.Header{"Accept": {"text/html"}}, nil)
		if got.status != http.StatusAccepted || got.body != r.page.Body || got.header.Get("Retry-After") != "10" ||
			got.err != nil {
			t.Errorf("%s: %d, %d bytes, %v, %v", protocol, got.status, len(got.body), got.header, got.err)
		}
	}
}

// TestProxyQueueLimit queues the maximum number of requests of a proxy, for a hundred apps that never become ready and
// have Services without an EndpointSlice. The next request is rejected, and canceled requests free their slots.
// Requests to a hundred other apps are answered at their deadline.
func TestProxyQueueLimit(t *testing.T) {
	const apps, perApp = 100, 15
	var inputs resolve.Inputs
	for kind, deadline := range map[string]time.Duration{"patient": 50 * time.Minute, "hasty": time.Second} {
		for i := range apps {
			name := fmt.Sprintf("%s-%d", kind, i)
			object := kit.NewScaledObject(namespace, name, name, 1, name+".example.com")
			object.Spec.Timeouts = queueDeadline(deadline)
			inputs.ScaledObjects = append(inputs.ScaledObjects, object)
			inputs.Services = append(inputs.Services, resolve.NewService(kit.NewService(namespace, name)))
		}
	}
	r := startReplica(t, holding.Limits{Object: perApp, Namespace: 10_000, Proxy: apps * perApp, Total: 10_000})
	r.proxy = &proxy{}
	r.publishInputs(t, inputs)
	r.run(t, "DELTA_GRPC", r.grpcAddress)
	client := &http.Transport{Protocols: new(http.Protocols)}
	client.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(client.CloseIdleConnections)
	answers := make(chan result, apps*perApp)
	ask := func(kind string, contexts ...context.Context) {
		for i := range apps * perApp {
			go func() {
				answers <- getOver(contexts[i%len(contexts)], client, r.address, fmt.Sprintf("%s-%d.example.com", kind, i%apps))
			}()
		}
	}
	outcomes := func() map[string]int {
		outcomes := map[string]int{}
		for range apps * perApp {
			got := <-answers
			if got.err != nil {
				outcomes["canceled"]++
			} else {
				outcomes[fmt.Sprint(got.status, " ", got.header.Get(extauthz.ReasonHeader), " ", got.header.Get("Retry-After"))]++
			}
		}
		return outcomes
	}
	awaitTotal := func(what string, want int) {
		t.Helper()
		sum := 0
		await.Described(t, what, func() bool {
			sum = 0
			counts, _ := r.checks.Counts()
			for _, count := range counts {
				sum += count.Waiting
			}
			return sum == want
		}, func() string { return fmt.Sprintf("%d requests are queued, want %d", sum, want) })
	}
	first, cancelFirst := context.WithCancel(t.Context())
	defer cancelFirst()
	second, cancelSecond := context.WithCancel(t.Context())
	defer cancelSecond()
	ask("patient", first, second)
	awaitTotal("the proxy is full", apps*perApp)
	got := r.send(t.Context(), "HTTP/1.1", "patient-0.example.com", "/", nil, nil)
	if got.status != http.StatusServiceUnavailable || got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonLimit {
		t.Errorf("one too many: %+v", got)
	}
	cancelFirst()
	awaitTotal("canceled requests free their slots", apps*perApp/2)
	cancelSecond()
	awaitTotal("all requests are canceled", 0)
	if got, want := outcomes(), map[string]int{"canceled": apps * perApp}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	ask("hasty", t.Context())
	if got, want := outcomes(), map[string]int{"503 deadline 5": apps * perApp}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	awaitTotal("no request is queued", 0)
}
