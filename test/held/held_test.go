package held

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/transport"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

const (
	// requests is the number of queued requests.
	requests = 100
	// never is a deadline that no request reaches.
	never = time.Hour
)

func TestMain(m *testing.M) {
	os.Exit(netspace.Main(m, func(folder string) error {
		return program.Build(context.Background(), folder, "v9.9.9-test", "interceptor")
	}))
}

// environment has two workloads at zero.
type environment struct {
	*coldstart.Testbed

	t *testing.T
}

// withoutTLS is the name of tests with proxies without TLS and an interceptor with a certificate.
const withoutTLS = "permissive"

// newEnvironment starts everything except an interceptor. deadline is that of queued requests. It ends with the test.
func newEnvironment(t *testing.T, deadline time.Duration) environment {
	t.Helper()
	return newEnvironmentWith(t, deadline, nil)
}

// newEnvironmentWith is newEnvironment with a certificate of the interceptor, nil for proxies without TLS.
func newEnvironmentWith(t *testing.T, deadline time.Duration, certificate map[string][]byte) environment {
	t.Helper()
	binaries, err := apiserver.FromEnvironment(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	s, err := coldstart.Start(context.WithoutCancel(t.Context()), coldstart.Options{
		Binaries: binaries, Envoy: envoyproc.Binary(t), Repository: "../..", Built: netspace.Folder(), Folder: t.TempDir(),
		Apps: 2, QueueDeadline: deadline, Workers: 2, Arguments: []string{"--shutdown-delay=1s"},
		Certificate: certificate, IsPlaintext: strings.HasSuffix(t.Name(), withoutTLS),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return environment{s, t}
}

// replica starts the interceptor with a number. It ends with the test.
func (s environment) replica(number int) *coldstart.Replica {
	s.t.Helper()
	r, err := s.StartInterceptor(context.WithoutCancel(s.t.Context()), number)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = r.Kill() })
	return r
}

// proxy starts Envoy.
func (s environment) proxy() {
	s.t.Helper()
	if err := s.StartProxy(context.WithoutCancel(s.t.Context())); err != nil {
		s.t.Fatal(err)
	}
}

// enqueue sends requests to an app, and waits until all are queued.
func (s environment) enqueue(ctx context.Context, at *coldstart.Replica, app int) []<-chan coldstart.Response {
	s.t.Helper()
	waiting := send(ctx, app)
	s.awaitQueued(ctx, at, requests)
	return waiting
}

// send sends requests to an app.
func send(ctx context.Context, app int) []<-chan coldstart.Response {
	var waiting []<-chan coldstart.Response
	for range requests {
		waiting = append(waiting, coldstart.Send(ctx, coldstart.Proxy, app))
	}
	return waiting
}

// awaitSome waits until requests are queued at a replica.
func (s environment) awaitSome(at *coldstart.Replica) {
	s.t.Helper()
	await.True(s.t, "requests are queued", func() bool {
		queued, err := at.Queued(s.t.Context())
		return err == nil && queued > 0
	})
}

// awaitQueued waits until want requests are queued at a replica.
func (s environment) awaitQueued(ctx context.Context, at *coldstart.Replica, want int) {
	s.t.Helper()
	queued := 0
	err := await.Until(ctx, fmt.Sprint(want, " requests are queued"), func() bool {
		now, err := at.Queued(ctx)
		queued = now
		return err == nil && queued == want
	}, func() string { return strconv.Itoa(queued) })
	if err != nil {
		s.t.Fatal(err)
	}
}

// addEndpoint gives an app its endpoint.
func (s environment) addEndpoint(app int) {
	s.t.Helper()
	if err := s.SetReady(s.t.Context(), app, true); err != nil {
		s.t.Fatal(err)
	}
}

// awaitAnswer waits until an app responds.
func (s environment) awaitAnswer(app int) {
	s.t.Helper()
	await.True(s.t, "the app answers", func() bool {
		return await.Receive(s.t, "an answer", coldstart.Send(s.t.Context(), coldstart.Proxy, app)).Status == 200
	})
}

// expect compares the responses. It ignores the cold start header: a client that retries after a pause may find that
// the app is ready.
func (s environment) expect(waiting []<-chan coldstart.Response, want coldstart.Response) {
	s.t.Helper()
	all := map[string]int{}
	for _, response := range waiting {
		got := await.Receive(s.t, "an answer", response)
		got.At, got.IsColdStart = time.Time{}, false
		all[fmt.Sprintf("%+v", got)]++
	}
	if expected := fmt.Sprintf("%+v", want); len(all) != 1 || all[expected] != requests {
		s.t.Errorf("%v, want %d times %s", all, requests, expected)
	}
}

// served returns the response of an app.
func served() coldstart.Response { return coldstart.Response{Status: 200, IsFromApp: true} }

// TestInterceptorIsKilled kills the interceptor while requests are queued: they keep waiting, and are served once the
// interceptor is back and the app is ready. Envoy retries with a doubling pause, so the first retry is enough to show
// it. The object has an Event about the cold start.
func TestInterceptorIsKilled(t *testing.T) {
	s := newEnvironment(t, never)
	first := s.replica(0)
	s.proxy()
	waiting := s.enqueue(t.Context(), first, 0)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	second := s.replica(0)
	s.awaitSome(second)
	s.addEndpoint(0)
	s.expect(waiting, served())
	var events eventsv1.EventList
	await.True(t, "the Event about the cold start", func() bool {
		err := s.Admin.Get().AbsPath(
			"/apis/events.k8s.io/v1/namespaces/" + coldstart.Namespace + "/events",
		).Do(t.Context()).Into(&events)
		return err == nil && slices.ContainsFunc(
			events.Items, func(event eventsv1.Event) bool { return event.Reason == "ColdStart" },
		)
	})
}

// TestInterceptorIsReplaced replaces the interceptor as a rolling update does: the new replica is ready before the old
// one stops. No request fails, neither the queued ones nor those to a ready app. It has proxies with and without TLS.
func TestInterceptorIsReplaced(t *testing.T) {
	for name, certificate := range map[string]map[string][]byte{
		"plaintext": nil, "TLS": kit.NewServerCertificate(t, transport.Name("keda")),
		withoutTLS: kit.NewServerCertificate(t, transport.Name("keda")),
	} {
		t.Run(name, func(t *testing.T) { replaceInterceptor(t, certificate) })
	}
}

// replaceInterceptor is the test with a certificate of the interceptor, nil for proxies without TLS.
func replaceInterceptor(t *testing.T, certificate map[string][]byte) {
	t.Helper()
	s := newEnvironmentWith(t, never, certificate)
	first := s.replica(0)
	s.proxy()
	log, err := first.Log()
	if isProven := strings.Contains(string(log), `"authenticated":true`); err != nil || isProven != (certificate != nil && !s.IsPlaintext) {
		t.Errorf("the proxy is authenticated: %t, %v:\n%s", isProven, err, log)
	}
	withoutKeys := 0
	if s.IsPlaintext {
		withoutKeys = 1
	}
	if got, err := first.Metric(t.Context(), "kedify_xds_unauthenticated_streams"); err != nil || got != withoutKeys {
		t.Errorf("%d streams without keys, %v", got, err)
	}
	await.True(t, "the proxy reports its metrics", func() bool {
		streams, err := first.Metric(t.Context(), "kedify_metric_sink_streams")
		return err == nil && streams == 1
	})
	s.addEndpoint(1)
	s.awaitAnswer(1)
	waiting := s.enqueue(t.Context(), first, 0)
	s.replica(1)
	if err := first.Terminate(); err != nil {
		t.Fatal(err)
	}
	others := map[int]int{}
	for isOver := false; !isOver; {
		others[await.Receive(t, "an answer", coldstart.Send(t.Context(), coldstart.Proxy, 1)).Status]++
		select {
		case <-first.Ended():
			isOver = true
		default:
		}
	}
	s.addEndpoint(0)
	s.expect(waiting, served())
	if !slices.Equal(slices.Collect(maps.Keys(others)), []int{200}) {
		t.Errorf("the other app's answers by status: %v", others)
	}
}

// TestEnvoyIsKilled kills Envoy while requests are queued: they end with their connections and leave the queue at once,
// and requests to the next Envoy are served.
func TestEnvoyIsKilled(t *testing.T) {
	s := newEnvironment(t, never)
	r := s.replica(0)
	s.proxy()
	waiting := s.enqueue(t.Context(), r, 0)
	if err := s.Envoy.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, response := range waiting {
		if got := await.Receive(t, "the end of a request", response); got.Err == nil {
			t.Errorf("%+v", got)
		}
	}
	s.awaitQueued(t.Context(), r, 0)
	s.proxy()
	again := s.enqueue(t.Context(), r, 0)
	s.addEndpoint(0)
	s.expect(again, served())
}

// TestAPIServerIsStopped stops the API server while requests are queued, so that nothing can become ready: these and
// later requests get a 503 at their deadline, and requests to a ready app are served.
func TestAPIServerIsStopped(t *testing.T) {
	// The deadline is that of the product, and the test waits for it.
	s := newEnvironment(t, 20*time.Second)
	r := s.replica(0)
	s.proxy()
	s.addEndpoint(1)
	s.awaitAnswer(1)
	before := send(t.Context(), 0)
	s.awaitSome(r)
	if err := s.Plane.Stop(); err != nil {
		t.Fatal(err)
	}
	s.Plane = nil
	after := send(t.Context(), 0)
	if got := await.Receive(t, "an answer", coldstart.Send(t.Context(), coldstart.Proxy, 1)); got.Status != 200 {
		t.Errorf("an app that is ready: %+v", got)
	}
	for _, waiting := range [][]<-chan coldstart.Response{before, after} {
		s.expect(waiting, coldstart.Response{Status: 503, Reason: "deadline"})
	}
	s.awaitQueued(t.Context(), r, 0)
}
