package engine_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// sharedRouting is a fakeRouting whose object other writers change at the same time.
type sharedRouting struct {
	fakeRouting

	stored atomic.Uint32
	reads  atomic.Int32
	panics atomic.Bool
	absent bool // no watch keeps the object up to date
}

func (f *sharedRouting) Targets(_ context.Context, request engine.Request) ([]engine.Target[weight], error) {
	return []engine.Target[weight]{&sharedTarget{
		&fakeTarget{&f.fakeRouting, weight(request.Split.Canary.Weight)}, f,
	}}, nil
}

func (f *sharedRouting) configure(*v1alpha1.Rollout) (engine.Configuration[weight], error) {
	return f, nil
}

// sharedTarget is the object of a sharedRouting, bound to a request.
type sharedTarget struct {
	*fakeTarget

	routing *sharedRouting
}

func (t *sharedTarget) Get(context.Context) (weight, bool, error) {
	t.routing.reads.Add(1)
	if t.routing.panics.Load() {
		panic("a bug")
	}
	return weight(t.routing.stored.Load()), !t.routing.absent, nil
}

func (t *sharedTarget) GetLive(context.Context) (weight, error) {
	return weight(t.routing.stored.Load()), nil
}

func (t *sharedTarget) Plan(context.Context, weight) (engine.Change, error) {
	return engine.Change{Write: func(context.Context) error {
		t.routing.stored.Store(uint32(t.want))
		return nil
	}}, nil
}

// watched is a Reconciler whose WatchObjects runs.
type watched struct {
	*engine.Reconciler[weight]
	*sharedRouting

	t   *testing.T
	api *routertest.APIServer
}

// inBubble runs a test with a new watched in a bubble.
func inBubble(t *testing.T, test func(w watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := watched{t: t, api: routertest.NewInMemory(t), sharedRouting: &sharedRouting{}}
		client := kube.NewClient(func() (*rest.Config, error) { return w.api.Config(), nil })
		w.Reconciler = engine.New(engine.Routing[weight]{Type: kind, Configure: w.configure}, client, "router",
			slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			w.WatchObjects(ctx)
		}()
		test(w)
		cancel()
		<-stopped
	})
}

// set calls SetWeight.
func (w watched) set(weight int32) {
	w.t.Helper()
	if err := w.SetWeight(w.t.Context(), routertest.Rollout(kind, "{}"), weight, nil); err != nil {
		w.t.Fatal(err)
	}
}

// after checks the number of requests for a reconcile so far, after a time.
func (w watched) after(pause time.Duration, want int) {
	w.t.Helper()
	time.Sleep(pause) // The clock is synctest's.
	synctest.Wait()
	requests := w.api.Requests(http.MethodPatch)
	if len(requests) != want {
		w.t.Fatalf("%d requests, want %d: %+v", len(requests), want, requests)
	}
	for _, request := range requests {
		if request.Path != "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/web" ||
			!strings.Contains(request.Body, engine.DriftAnnotation) || !strings.Contains(request.Body, "uid-of-web") {
			w.t.Errorf("request %+v", request)
		}
	}
}

// TestDriftRequestsAReconcile changes an object in a pause.
func TestDriftRequestsAReconcile(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w watched) {
		w.set(20)
		w.after(50*time.Minute, 0)
		w.stored.Store(0)
		w.after(3*time.Second, 1)
		w.set(20)
		if got := w.stored.Load(); got != 20 {
			w.t.Errorf("the weight is %d", got)
		}
		w.after(time.Hour, 1)
	})
}

// TestDriftOfABusyRollout: what a call changes is no drift.
func TestDriftOfABusyRollout(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w watched) {
		for weight := range int32(50) {
			w.set(weight + 1)
			w.stored.Store(0)
			w.after(900*time.Millisecond, 0)
		}
	})
}

// TestDriftAtRest: an object may differ while no canary has weight.
func TestDriftAtRest(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w watched) {
		w.set(20)
		w.set(0)
		w.stored.Store(50)
		w.after(time.Hour, 0)
	})
}

// TestDriftThatReturns: a writer that reverts each weight at once is answered less and less often.
func TestDriftThatReturns(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w watched) {
		seen := 0
		var at []time.Duration
		begin := time.Now()
		for time.Since(begin) < 30*time.Minute {
			w.set(20)
			w.stored.Store(0)
			for len(w.api.Requests(http.MethodPatch)) == seen {
				time.Sleep(time.Second) // The clock is synctest's.
				synctest.Wait()
			}
			seen++
			at = append(at, time.Since(begin))
		}
		if len(at) < 8 || len(at) > 12 || at[0] > 3*time.Second || at[1]-at[0] > 12*time.Second {
			w.t.Errorf("requests after %v", at)
		}
	})
}

// TestDriftWithoutAWatch: each comparison is a request then.
func TestDriftWithoutAWatch(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w watched) {
		w.absent = true
		w.set(20)
		before := w.reads.Load()
		const minutes = 50
		w.after(minutes*time.Minute, 0)
		if reads := w.reads.Load() - before; reads > minutes+1 {
			w.t.Errorf("%d reads in %d minutes", reads, minutes)
		}
		w.stored.Store(0)
		w.after(90*time.Second, 1)
	})
}

// TestDriftOfAForgottenRollout: without a call, the objects are compared for an hour only.
func TestDriftOfAForgottenRollout(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w watched) {
		w.set(20)
		w.after(time.Hour+5*time.Second, 0)
		w.stored.Store(0)
		w.after(time.Hour, 0)
	})
}

// TestDriftAfterAPanic: a panic does not end the process.
func TestDriftAfterAPanic(t *testing.T) {
	t.Parallel()
	inBubble(t, func(w watched) {
		w.set(20)
		w.panics.Store(true)
		w.after(time.Minute, 0)
		w.panics.Store(false)
		w.set(20)
		w.stored.Store(0)
		w.after(3*time.Second, 1)
	})
}
