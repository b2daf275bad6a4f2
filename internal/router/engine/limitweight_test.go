package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// kind is the router's name in the Rollouts of these tests.
const kind = "test/router"

// weight is a routing object: the canary's weight in the only object of a test. The data plane applies each weight.
type weight uint32

func (weight) Name() types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: "web"}
}
func (weight) Version() string { return "" }

// fakeRouting is the state of a Routing in memory, and its configuration in a Rollout.
type fakeRouting struct {
	limit  router.WeightLimit
	live   weight
	writes []weight
}

func (f *fakeRouting) Common() engine.Settings {
	settings := engine.DefaultSettings()
	settings.WeightLimit = f.limit
	return settings
}

func (f *fakeRouting) Targets(_ context.Context, request engine.Request) ([]engine.Target[weight], error) {
	return []engine.Target[weight]{&fakeTarget{f, weight(request.Split.Canary.Weight)}}, nil
}

func (*fakeRouting) OwnedTargets(engine.Request) []engine.Target[weight] { return nil }
func (*fakeRouting) CheckManagedRoutes(*v1alpha1.Rollout, string) error  { return nil }
func (f *fakeRouting) configure(*v1alpha1.Rollout) (engine.Configuration[weight], error) {
	return f, nil
}

// fakeTarget is the only object, bound to a request.
type fakeTarget struct {
	*fakeRouting

	want weight
}

func (*fakeTarget) String() string                              { return "object" }
func (t *fakeTarget) Get(context.Context) (weight, bool, error) { return t.live, true, nil }
func (t *fakeTarget) GetLive(context.Context) (weight, error)   { return t.live, nil }
func (*fakeTarget) HasCanaryTraffic(live weight) bool           { return live > 0 }
func (*fakeTarget) CanaryWeight(live weight) uint32             { return uint32(live) }
func (*fakeTarget) Explain(err error) error                     { return err }
func (*fakeTarget) IsMissing(error) bool                        { return false }
func (*fakeTarget) AcceptUnverified(weight, engine.Wait) (reasons.Warning, bool) {
	return reasons.Warning{}, false
}

func (t *fakeTarget) Await(context.Context, weight, func(weight) bool) (weight, error) {
	return t.live, nil
}

func (*fakeTarget) DataPlaneState(context.Context, weight) (engine.DataPlaneState, string) {
	return engine.Applied, ""
}

func (t *fakeTarget) CheckWritten(_ context.Context, live weight) error {
	if live != t.want {
		return errors.New("another weight")
	}
	return nil
}

func (t *fakeTarget) Plan(_ context.Context, live weight) (engine.Change, error) {
	if live == t.want {
		return engine.Change{}, nil
	}
	return engine.Change{Write: func(context.Context) error {
		t.live, t.writes = t.want, append(t.writes, t.want)
		return nil
	}}, nil
}

// skipped returns a Rollout of ten Pods whose steps the controller has skipped, with its weight in the status.
func skipped(steps ...int32) *v1alpha1.Rollout {
	rollout := routertest.Rollout(kind, "{}")
	rollout.Annotations = map[string]string{"rollout.argoproj.io/revision": "3"}
	rollout.Spec.Replicas = new(int32(10))
	for _, step := range steps {
		rollout.Spec.Strategy.Canary.Steps = append(rollout.Spec.Strategy.Canary.Steps, v1alpha1.CanaryStep{SetWeight: &step})
	}
	rollout.Status.StableRS, rollout.Status.CurrentPodHash = "new", "old"
	rollout.Status.CurrentStepIndex = new(int32(len(steps)))
	rollout.Status.Canary.Weights = &v1alpha1.TrafficWeights{
		Canary: v1alpha1.WeightDestination{PodTemplateHash: "old"}, Stable: v1alpha1.WeightDestination{Weight: 100},
	}
	return rollout
}

// pods sets the ready Pods of the canary Service by pod template hash.
func pods(api *routertest.APIServer, ready map[string]int) {
	addresses := []map[string]any{}
	for hash, count := range ready {
		for i := range count {
			addresses = append(addresses, map[string]any{
				"ip":        fmt.Sprintf("10.0.%d.%d", len(addresses)/250, len(addresses)%250),
				"targetRef": map[string]string{"kind": "Pod", "name": fmt.Sprintf("web-%s-%05d", hash, i)},
			})
		}
	}
	api.PutOther(canaryEndpoints, map[string]any{"subsets": []any{map[string]any{"addresses": addresses}}})
}

const canaryEndpoints = "/api/v1/namespaces/shop/endpoints/web-canary"

// TestWeightFollowsTheReadyPods plays a rollback within the window: the controller requests the last weight as soon as
// one of ten Pods is available, and the full one when all are.
func TestWeightFollowsTheReadyPods(t *testing.T) {
	t.Parallel()
	forbidden := routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{Resource: "endpoints"}, "",
		errors.New("no rule")))
	type call struct {
		ready   int // Pods of the canary; the Service also has two of the version before
		request int32
		want    weight
	}
	tests := map[string]struct {
		limit     router.WeightLimit
		steps     []int32
		live      weight
		change    func(*v1alpha1.Rollout)
		endpoints http.HandlerFunc
		calls     []call
		event     string
	}{
		"it rises with the Pods": {
			steps: []int32{20, 80}, event: "WeightLimited",
			calls: []call{{1, 80, 10}, {1, 80, 10}, {4, 80, 40}, {7, 80, 70}, {8, 80, 80}, {10, 100, 100}},
		},
		"it never falls": {
			steps: []int32{20, 80}, event: "WeightLimited",
			calls: []call{{4, 80, 40}, {1, 80, 40}, {0, 80, 40}, {5, 80, 50}, {10, 100, 100}},
		},
		"the end of a canary that has had the weight": {
			steps: []int32{20, 80}, live: 80, calls: []call{{1, 80, 80}, {10, 100, 100}},
		},
		"the weight of another version does not count": {
			steps: []int32{20, 80}, live: 50, event: "WeightLimited", calls: []call{{2, 80, 20}},
			change: func(r *v1alpha1.Rollout) { r.Status.Canary.Weights.Canary.PodTemplateHash = "older" },
		},
		"no weight yet": {
			steps: []int32{20, 80}, event: "WeightLimited", calls: []call{{2, 80, 20}},
			change: func(r *v1alpha1.Rollout) { r.Status.Canary.Weights = nil },
		},
		"the last weight is the full one": {
			steps: []int32{20, 100}, event: "WeightLimited", calls: []call{{1, 100, 10}, {9, 100, 90}, {10, 100, 100}},
		},
		"an abort":         {steps: []int32{20, 80}, live: 10, calls: []call{{1, 0, 0}}, change: aborted},
		"turned off":       {limit: router.LimitNever, steps: []int32{20, 80}, calls: []call{{1, 80, 80}}},
		"may not be known": {steps: []int32{20, 80}, endpoints: forbidden, event: "WeightNotLimited", calls: []call{{1, 80, 80}}},
		"more Pods than Endpoints contain": {
			steps: []int32{20, 80}, calls: []call{{1000, 80, 80}},
			change: func(r *v1alpha1.Rollout) { r.Spec.Replicas = new(int32(5000)) },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api, routing := routertest.NewInMemory(t), &fakeRouting{limit: test.limit, live: test.live}
				client := kube.NewClient(func() (*rest.Config, error) { return api.Config(), nil })
				reconciler := engine.New(engine.Routing[weight]{Type: kind, Configure: routing.configure}, client, "router",
					slog.New(slog.DiscardHandler))
				rollout := skipped(test.steps...)
				if test.change != nil {
					test.change(rollout)
				}
				for _, call := range test.calls {
					pods(api, map[string]int{"old": call.ready, "new": 2})
					if test.endpoints != nil {
						api.PutOther(canaryEndpoints, test.endpoints)
					}
					if err := reconciler.SetWeight(t.Context(), rollout, call.request, nil); err != nil || routing.live != call.want {
						t.Fatalf("%+v: weight %d, %v", call, routing.live, err)
					}
					verified, err := reconciler.VerifyWeight(t.Context(), rollout, call.request, nil)
					isComplete := call.want == weight(call.request)
					isUndecided := !isComplete && call.request == 100
					if verified != isComplete || errors.Is(err, router.ErrUndecided) != isUndecided || err != nil && !isUndecided {
						t.Errorf("%+v: VerifyWeight: %v, %v", call, verified, err)
					}
				}
				expectEvent(t, api, test.event)
			})
		})
	}
}

// TestPassingErrorOfEndpointsIsRetried: such an error is none of SetWeight's, which would be an Event of the Rollout.
func TestPassingErrorOfEndpointsIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api, routing := routertest.NewInMemory(t), &fakeRouting{}
		client := kube.NewClient(func() (*rest.Config, error) { return api.Config(), nil })
		reconciler := engine.New(engine.Routing[weight]{Type: kind, Configure: routing.configure}, client, "router",
			slog.New(slog.DiscardHandler))
		unavailable := routertest.RespondError(apierrors.NewServiceUnavailable("starting"))
		api.PutOther(canaryEndpoints, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			go pods(api, map[string]int{"old": 3})
			unavailable(w, r)
		}))
		if err := reconciler.SetWeight(t.Context(), skipped(20, 80), 80, nil); err != nil || routing.live != 30 {
			t.Errorf("SetWeight: %v; weight %d, want 30", err, routing.live)
		}
	})
}

// TestLimitedFullWeightBlocksNothing: while the controller has Pods to add, and some seconds after the last change, the
// result must not be false. In between, false has the controller call again.
func TestLimitedFullWeightBlocksNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api, routing := routertest.NewInMemory(t), &fakeRouting{}
		client := kube.NewClient(func() (*rest.Config, error) { return api.Config(), nil })
		reconciler := engine.New(engine.Routing[weight]{Type: kind, Configure: routing.configure}, client, "router",
			slog.New(slog.DiscardHandler))
		rollout := skipped(20, 100)
		for _, call := range []struct {
			name    string
			after   time.Duration
			created int32 // Pods of the canary
			ready   int
			blocks  bool
		}{
			{"Pods are missing", 0, 1, 1, false},
			{"all Pods exist", time.Second, 10, 1, true},
			{"another Pod is ready", 10 * time.Second, 10, 2, true},
			{"10 s later", 10 * time.Second, 10, 2, true},
			{"nothing changes", 10 * time.Second, 10, 2, false},
			{"nor a minute later", time.Minute, 10, 2, false},
			{"a Pod more", time.Second, 10, 3, true},
			{"an autoscaler adds Pods", time.Second, 9, 4, false},
		} {
			<-time.After(call.after)
			pods(api, map[string]int{"old": call.ready})
			rollout.Status.UpdatedReplicas = call.created
			if err := reconciler.SetWeight(t.Context(), rollout, 100, nil); err != nil {
				t.Fatal(err)
			}
			verified, err := reconciler.VerifyWeight(t.Context(), rollout, 100, nil)
			if verified || errors.Is(err, router.ErrUndecided) == call.blocks || err != nil && call.blocks {
				t.Errorf("%s: VerifyWeight: %v, %v; want it to block: %v", call.name, verified, err, call.blocks)
			}
		}
	})
}

// aborted aborts a Rollout.
func aborted(rollout *v1alpha1.Rollout) { rollout.Status.Abort = true }

// expectEvent expects one Event with that reason, or none.
func expectEvent(t *testing.T, api *routertest.APIServer, reason string) {
	t.Helper()
	var got, want []string
	for _, event := range api.Events() {
		got = append(got, event.Reason)
		if event.Reason == "WeightLimited" && !strings.Contains(event.Message, `plugins["test/router"]`) {
			t.Errorf("the Event does not name the configuration: %s", event.Message)
		}
	}
	if reason != "" {
		want = []string{reason}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
