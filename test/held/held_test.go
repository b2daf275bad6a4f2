package held

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
	"github.com/kedify/argo-rollouts-plugin/test/kit/zerostage"
)

const (
	// requests is how many wait.
	requests = 100
	// never is a deadline of requests that is not reached.
	never = time.Hour
)

func TestMain(m *testing.M) {
	os.Exit(netspace.Main(m, func(folder string) error {
		return program.Build(context.Background(), folder, "v9.9.9-test", "interceptor")
	}))
}

// stage has one app at zero.
type stage struct {
	*zerostage.Stage

	t *testing.T
}

// newStage starts everything but an interceptor. Requests wait until a deadline. It ends with the test.
func newStage(t *testing.T, deadline time.Duration) stage {
	t.Helper()
	binaries, err := apiserver.FromEnvironment(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	s, err := zerostage.Start(context.WithoutCancel(t.Context()), zerostage.Options{
		Binaries: binaries, Envoy: envoyproc.Binary(t), Repository: "../..", Built: netspace.Folder(), Folder: t.TempDir(),
		Apps: 2, Patience: deadline, Workers: 2, Arguments: []string{"--shutdown-delay=1s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return stage{s, t}
}

// replica starts the interceptor of a number, which ends with the test.
func (s stage) replica(number int) *zerostage.Replica {
	s.t.Helper()
	r, err := s.StartInterceptor(context.WithoutCancel(s.t.Context()), number)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = r.Kill() })
	return r
}

// proxy starts Envoy.
func (s stage) proxy() {
	s.t.Helper()
	if err := s.StartProxy(context.WithoutCancel(s.t.Context())); err != nil {
		s.t.Fatal(err)
	}
}

// begin makes requests for an app, and waits until all are held.
func (s stage) begin(ctx context.Context, at *zerostage.Replica, app int) []<-chan zerostage.Answer {
	s.t.Helper()
	waiting := send(ctx, app)
	s.awaitHeld(ctx, at, requests)
	return waiting
}

// send makes requests for an app.
func send(ctx context.Context, app int) []<-chan zerostage.Answer {
	var waiting []<-chan zerostage.Answer
	for range requests {
		waiting = append(waiting, zerostage.Begin(ctx, zerostage.Proxy, app))
	}
	return waiting
}

// awaitSome waits until requests are held at a replica.
func (s stage) awaitSome(at *zerostage.Replica) {
	s.t.Helper()
	await.True(s.t, "requests are held", func() bool {
		held, err := at.Held(s.t.Context())
		return err == nil && held > 0
	})
}

// awaitHeld waits until so many requests are held at a replica.
func (s stage) awaitHeld(ctx context.Context, at *zerostage.Replica, want int) {
	s.t.Helper()
	held := 0
	err := await.Until(ctx, fmt.Sprint(want, " requests are held"), func() bool {
		now, err := at.Held(ctx)
		held = now
		return err == nil && held == want
	}, func() string { return strconv.Itoa(held) })
	if err != nil {
		s.t.Fatal(err)
	}
}

// wake gives an app its endpoint.
func (s stage) wake(app int) {
	s.t.Helper()
	if err := s.SetAwake(s.t.Context(), app, true); err != nil {
		s.t.Fatal(err)
	}
}

// awaitAnswer waits until an app answers.
func (s stage) awaitAnswer(app int) {
	s.t.Helper()
	await.True(s.t, "the app answers", func() bool {
		return await.Receive(s.t, "an answer", zerostage.Begin(s.t.Context(), zerostage.Proxy, app)).Status == 200
	})
}

// expect compares what requests came to. Whether an answer tells of a cold start is left out: who asks again after a break may find that the app is ready.
func (s stage) expect(waiting []<-chan zerostage.Answer, want zerostage.Answer) {
	s.t.Helper()
	all := map[string]int{}
	for _, each := range waiting {
		got := await.Receive(s.t, "an answer", each)
		got.At, got.IsCold = time.Time{}, false
		all[fmt.Sprintf("%+v", got)]++
	}
	if expected := fmt.Sprintf("%+v", want); len(all) != 1 || all[expected] != requests {
		s.t.Errorf("%v, want %d times %s", all, requests, expected)
	}
}

// served is an app's answer.
func served() zerostage.Answer { return zerostage.Answer{Status: 200, IsApp: true} }

// TestTheInterceptorIsKilled while requests wait: they wait on, and are answered when it is back and the app is ready. Envoy asks again after pauses that double,
// so the first one of them is enough to tell that they do. The app's owner has heard of the cold start.
func TestTheInterceptorIsKilled(t *testing.T) {
	s := newStage(t, never)
	first := s.replica(0)
	s.proxy()
	waiting := s.begin(t.Context(), first, 0)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	second := s.replica(0)
	s.awaitSome(second)
	s.wake(0)
	s.expect(waiting, served())
	var events eventsv1.EventList
	await.True(t, "the cold start is told", func() bool {
		err := s.Admin.Get().AbsPath("/apis/events.k8s.io/v1/namespaces/" + zerostage.Namespace + "/events").Do(t.Context()).Into(&events)
		return err == nil && slices.ContainsFunc(events.Items, func(event eventsv1.Event) bool { return event.Reason == "ColdStart" })
	})
}

// TestTheInterceptorIsReplaced, as by a rolling update: the next one is ready before the first one ends. No request fails, neither those that wait nor those
// for an app that is ready.
func TestTheInterceptorIsReplaced(t *testing.T) {
	s := newStage(t, never)
	first := s.replica(0)
	s.proxy()
	s.wake(1)
	s.awaitAnswer(1)
	waiting := s.begin(t.Context(), first, 0)
	s.replica(1)
	if err := first.Terminate(); err != nil {
		t.Fatal(err)
	}
	others := map[int]int{}
	for isOver := false; !isOver; {
		others[await.Receive(t, "an answer", zerostage.Begin(t.Context(), zerostage.Proxy, 1)).Status]++
		select {
		case <-first.Ended():
			isOver = true
		default:
		}
	}
	s.wake(0)
	s.expect(waiting, served())
	if !slices.Equal(slices.Collect(maps.Keys(others)), []int{200}) {
		t.Errorf("the other app's answers by status: %v", others)
	}
}

// TestEnvoyIsKilled while requests wait: they end with their connections, their places are free at once, and who asks the next Envoy is answered.
func TestEnvoyIsKilled(t *testing.T) {
	s := newStage(t, never)
	r := s.replica(0)
	s.proxy()
	waiting := s.begin(t.Context(), r, 0)
	if err := s.Envoy.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, each := range waiting {
		if got := await.Receive(t, "the end of a request", each); got.Err == nil {
			t.Errorf("%+v", got)
		}
	}
	s.awaitHeld(t.Context(), r, 0)
	s.proxy()
	again := s.begin(t.Context(), r, 0)
	s.wake(0)
	s.expect(again, served())
}

// TestTheAPIServerIsGone while requests wait, and nothing can become ready: those and later ones are refused at their deadline, and those for an app that is
// ready are answered.
func TestTheAPIServerIsGone(t *testing.T) {
	// The deadline is the product's, and the test waits until it has passed.
	s := newStage(t, 20*time.Second)
	r := s.replica(0)
	s.proxy()
	s.wake(1)
	s.awaitAnswer(1)
	before := send(t.Context(), 0)
	s.awaitSome(r)
	if err := s.Plane.Stop(); err != nil {
		t.Fatal(err)
	}
	s.Plane = nil
	after := send(t.Context(), 0)
	if got := await.Receive(t, "an answer", zerostage.Begin(t.Context(), zerostage.Proxy, 1)); got.Status != 200 {
		t.Errorf("an app that is ready: %+v", got)
	}
	for _, waiting := range [][]<-chan zerostage.Answer{before, after} {
		s.expect(waiting, zerostage.Answer{Status: 503, Reason: "deadline"})
	}
	s.awaitHeld(t.Context(), r, 0)
}
