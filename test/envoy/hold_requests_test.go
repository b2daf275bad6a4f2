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

// What is heavy is not parallel: other tests of this package measure rates beside it.

// TestUploads: a body that is held stays with its client but for a window, and arrives whole.
func TestUploads(t *testing.T) {
	for _, protocol := range spoken() {
		t.Run(protocol, func(t *testing.T) {
			const size = 100 << 20
			all := hostsWorld(t)
			r := startHolding(t, "DELTA_GRPC", without(all, "shop"))
			body := &counted{Reader: io.LimitReader(zeros{}, size)}
			done := make(chan answered, 1)
			go func() { done <- r.ask(t.Context(), protocol, "shop.example.com", "/size", nil, body) }()
			r.awaitHeld(t, "shop", 1)
			await.True(t, "the client stands still", body.standsStill)
			if sent := body.sent.Load(); sent > 16<<20 {
				t.Errorf("the client has sent %d bytes while it was held", sent)
			}
			r.show(t, all)
			if got := <-done; got.body != strconv.Itoa(size) || !got.isCold() {
				t.Errorf("%d bytes were sent: %+v", size, got)
			}
		})
	}
}

// TestHeldUploadsAreInNobodysWay: a connection with as many held uploads as it may have streams, but for one, carries another
// upload, to an app that is ready.
func TestHeldUploadsAreInNobodysWay(t *testing.T) {
	const held, size = 255, 4 << 20
	all := hostsWorld(t)
	r := startHolding(t, "DELTA_GRPC", without(all, "shop"))
	client := &http.Transport{Protocols: new(http.Protocols)}
	client.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(client.CloseIdleConnections)
	connection, err := client.NewClientConn(t.Context(), "http", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	upload := func(host string) answered {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.address+"/size", io.LimitReader(zeros{}, size))
		if err != nil {
			return answered{err: err}
		}
		request.Host = host
		return answerTo(request, connection)
	}
	answers := make(chan answered, held)
	for range held {
		go func() { answers <- upload("shop.example.com") }()
	}
	r.awaitHeld(t, "shop", held)
	if got := upload("a.example.com"); got.body != strconv.Itoa(size) {
		t.Errorf("beside %d held uploads: %+v", held, got)
	}
	r.show(t, all)
	for range held {
		if got := <-answers; got.body != strconv.Itoa(size) || !got.isCold() {
			t.Errorf("%+v", got)
		}
	}
}

// TestZeroAndBackUnderLoad takes an app to zero and back under requests, whose workers of Envoy are busy: none may
// fail, and no connection is closed.
func TestZeroAndBackUnderLoad(t *testing.T) {
	all := hostsWorld(t)
	r := startHolding(t, "DELTA_GRPC", all)
	load := traffic.Start(t, r.address, "shop.example.com", 2000, "shop")
	other := traffic.Start(t, r.address, "A.example.com", 1000, "wide")
	for range 20 {
		zero := r.show(t, without(all, "shop"))
		r.await(t, zero)
		await.True(t, "a request is held", func() bool { return r.held("shop").Waiting > 0 })
		r.await(t, r.show(t, all))
		await.True(t, "no request is held", func() bool { return r.held("shop").Waiting == 0 })
	}
	load.Stop()
	other.Stop()
	t.Logf("calls: %v", r.calls(t))
}

// TestWhatIsNoPlainRequest: a WebSocket that is opened at zero, and a gRPC call that meets its deadline there.
func TestWhatIsNoPlainRequest(t *testing.T) {
	t.Parallel()
	all := hostsWorld(t)
	all.ScaledObjects[3].Spec.Timeouts = coldStart(time.Second)
	r := startHolding(t, "DELTA_GRPC", without(all, "shop", "wide"))

	connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_, err = fmt.Fprint(connection, "GET /websocket HTTP/1.1\r\nHost: shop.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	r.awaitHeld(t, "shop", 1)
	r.show(t, without(all, "wide"))
	from := bufio.NewReader(connection)
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v", response)
	}
	_, _ = fmt.Fprintln(connection, "hello")
	if line, err := from.ReadString('\n'); line != "hello\n" {
		t.Errorf("the echo is %q, %v", line, err)
	}

	got := r.ask(t.Context(), "HTTP/2", "a.example.com", "/Service/Method", http.Header{
		"Content-Type": {"application/grpc"}, "Te": {"trailers"},
	}, strings.NewReader("\x00\x00\x00\x00\x00"))
	if got.status != http.StatusOK || got.header.Get("Grpc-Status") != strconv.Itoa(int(codes.Unavailable)) {
		t.Errorf("a gRPC call at its deadline: %+v", got)
	}
}

// TestATalkThatBeginsAtZero is a gRPC stream in both directions: its first message waits, and then each is answered before the next one is sent. It goes on
// when the app goes to zero once more.
func TestATalkThatBeginsAtZero(t *testing.T) {
	t.Parallel()
	all := hostsWorld(t)
	for _, service := range all.Services {
		service.Ports[0].Protocol = model.HTTP2
	}
	r := startHolding(t, "DELTA_GRPC", without(all, "shop"))
	connection, err := grpc.NewClient(r.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("shop.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	stream, err := connection.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/test.Talk/Talk")
	if err != nil {
		t.Fatal(err)
	}
	say := func(text string) {
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
	say("0")
	r.awaitHeld(t, "shop", 1)
	r.await(t, r.show(t, all))
	expect("0")
	if header, err := stream.Header(); err != nil || len(header.Get(extauthz.ColdStartHeader)) != 1 {
		t.Errorf("%v, %v", header, err)
	}
	for i := range 10 {
		if i == 5 {
			r.await(t, r.show(t, without(all, "shop")))
		}
		say(strconv.Itoa(i))
		expect(strconv.Itoa(i))
	}
}

// TestManyForAnHTTP2App: more requests are released than the app takes on one connection. None is refused.
func TestManyForAnHTTP2App(t *testing.T) {
	const requests = 800
	all := hostsWorld(t)
	for _, service := range all.Services {
		service.Ports[0].Protocol = model.HTTP2
	}
	r := startHolding(t, "DELTA_GRPC", without(all, "shop"))
	var waiting []<-chan answered
	for range requests {
		waiting = append(waiting, r.beginWith(t, "HTTP/2", "shop.example.com", "/slow", nil))
	}
	r.awaitHeld(t, "shop", requests)
	r.show(t, all)
	failed := map[int]int{}
	for _, each := range waiting {
		if got := <-each; got.by() != "shop" {
			failed[got.status]++
		}
	}
	if len(failed) > 0 {
		t.Errorf("of %d requests so many failed, by status: %v", requests, failed)
	}
}

// TestWhatABrowserSees: the waiting page, and then the app. A health check's path is answered, and starts nothing.
func TestWhatABrowserSees(t *testing.T) {
	t.Parallel()
	all := hostsWorld(t)
	all.ScaledObjects[2].Annotations = map[string]string{
		httpv1alpha1.AnnotationWaitingPage: "true", httpv1alpha1.AnnotationHealthcheckPath: "/healthz",
		httpv1alpha1.AnnotationHealthcheckResponse: httpv1alpha1.HealthcheckStatic,
	}
	r := startHolding(t, "DELTA_GRPC", without(all, "shop"))
	browser := http.Header{"Accept": {"text/html,application/xhtml+xml"}}
	got := r.ask(t.Context(), "HTTP/1.1", "shop.example.com", "/healthz?deep=1", browser, nil)
	if got.status != http.StatusOK || got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonProbe || r.held("shop").Waiting > 0 {
		t.Errorf("a health check: %+v", got)
	}
	for _, protocol := range spoken() {
		got := r.ask(t.Context(), protocol, "shop.example.com", "/", browser, nil)
		if got.status != http.StatusServiceUnavailable || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") ||
			got.header.Get("Retry-After") == "" || !strings.Contains(got.body, `http-equiv="refresh"`) {
			t.Errorf("%s: %+v", protocol, got)
		}
	}
	if got := r.held("shop"); got.Waiting != 1 {
		t.Errorf("%+v waits, want the page", got)
	}
	r.await(t, r.show(t, all))
	await.True(t, "the app answers", func() bool {
		got := r.ask(t.Context(), "HTTP/1.1", "shop.example.com", "/", browser, nil)
		return got.by() == "shop" && !got.isCold()
	})
	if got := r.held("shop"); got.Waiting != 0 {
		t.Errorf("%+v still waits", got)
	}
}

// TestTheLargestPage of a ConfigMap gets through whole, with its status.
func TestTheLargestPage(t *testing.T) {
	t.Parallel()
	all := hostsWorld(t)
	all.ScaledObjects[2].Annotations = map[string]string{httpv1alpha1.AnnotationWaitingPage: "true"}
	r := startHolding(t, "DELTA_GRPC", without(all, "shop"))
	r.page = page.Page{Body: strings.Repeat("page ", page.MaxBody/5), Status: http.StatusAccepted, RetryAfter: 10 * time.Second}
	r.tell(t, without(all, "shop"))
	for _, protocol := range spoken() {
		got := r.ask(t.Context(), protocol, "shop.example.com", "/", http.Header{"Accept": {"text/html"}}, nil)
		if got.status != http.StatusAccepted || got.body != r.page.Body || got.header.Get("Retry-After") != "10" || got.err != nil {
			t.Errorf("%s: %d, %d bytes, %v, %v", protocol, got.status, len(got.body), got.header, got.err)
		}
	}
}

// TestAProxyThatIsFull: as many requests as a proxy may hold, for a hundred apps that never become ready and whose Services
// are so new that they have no EndpointSlice. The next one is refused, and who goes makes room. As many requests to
// a hundred other apps are answered at their deadline.
func TestAProxyThatIsFull(t *testing.T) {
	const apps, each = 100, 15
	var world resolve.Inputs
	for kind, deadline := range map[string]time.Duration{"patient": 50 * time.Minute, "hasty": time.Second} {
		for i := range apps {
			name := fmt.Sprintf("%s-%d", kind, i)
			object := kit.NewScaledObject(namespace, name, name, 1, name+".example.com")
			object.Spec.Timeouts = coldStart(deadline)
			world.ScaledObjects = append(world.ScaledObjects, object)
			world.Services = append(world.Services, resolve.NewService(kit.NewService(namespace, name)))
		}
	}
	r := startReplica(t, holding.Limits{Object: each, Namespace: 10_000, Proxy: apps * each, Total: 10_000})
	r.proxy = &proxy{}
	r.show(t, world)
	r.run(t, "DELTA_GRPC", r.at)
	client := &http.Transport{Protocols: new(http.Protocols)}
	client.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(client.CloseIdleConnections)
	answers := make(chan answered, apps*each)
	ask := func(kind string, contexts ...context.Context) {
		for i := range apps * each {
			go func() {
				answers <- askOver(contexts[i%len(contexts)], client, r.address, fmt.Sprintf("%s-%d.example.com", kind, i%apps))
			}()
		}
	}
	outcomes := func() map[string]int {
		outcomes := map[string]int{}
		for range apps * each {
			got := <-answers
			if got.err != nil {
				outcomes["gone"]++
			} else {
				outcomes[fmt.Sprint(got.status, " ", got.header.Get(extauthz.ReasonHeader), " ", got.header.Get("Retry-After"))]++
			}
		}
		return outcomes
	}
	awaitTotal := func(what string, want int) {
		t.Helper()
		await.True(t, what, func() bool {
			sum := 0
			counts, _ := r.checks.Counts()
			for _, count := range counts {
				sum += count.Waiting
			}
			return sum == want
		})
	}
	some, leave := context.WithCancel(t.Context())
	defer leave()
	others, leaveToo := context.WithCancel(t.Context())
	defer leaveToo()
	ask("patient", some, others)
	awaitTotal("the proxy is full", apps*each)
	got := r.ask(t.Context(), "HTTP/1.1", "patient-0.example.com", "/", nil, nil)
	if got.status != http.StatusServiceUnavailable || got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonLimit {
		t.Errorf("one too many: %+v", got)
	}
	leave()
	awaitTotal("those who go make room", apps*each/2)
	leaveToo()
	awaitTotal("all go", 0)
	if got, want := outcomes(), map[string]int{"gone": apps * each}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	ask("hasty", t.Context())
	if got, want := outcomes(), map[string]int{"503 deadline 5": apps * each}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	awaitTotal("none is held any more", 0)
}
