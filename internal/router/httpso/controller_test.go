package httpso_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// annotationOf returns the split in the annotation of an HTTPScaledObject of namespace shop.
func annotationOf(api *routertest.APIServer, name string) string {
	return annotations(api.Object("shop", name))[httpv1alpha1.AnnotationWeightedBackends]
}

// weighing returns the Rollout as the controller passes it when its status contains the canary's weight.
func weighing(weight int32) *v1alpha1.Rollout {
	rollout := routertest.Rollout(httpso.Type, config)
	rollout.Status.Canary.Weights = &v1alpha1.TrafficWeights{
		Canary: v1alpha1.WeightDestination{Weight: weight, PodTemplateHash: "new"},
		Stable: v1alpha1.WeightDestination{Weight: 100 - weight, PodTemplateHash: "old"},
	}
	return rollout
}

// TestAbortRemovesTheCanaryWeightImmediately tests RemoveManagedRoutes: while the stable ReplicaSet scales up, the
// controller makes no other call.
func TestAbortRemovesTheCanaryWeightImmediately(t *testing.T) {
	t.Parallel()
	forbidden := routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{Resource: "endpoints"}, "",
		errors.New("no rule")))
	tests := map[string]struct {
		change func(*v1alpha1.Rollout)
		stable []string
		fault  http.HandlerFunc
		config string
		ends   bool
	}{
		"one stable Pod is ready":     {stable: []string{"10.0.0.1"}, ends: true},
		"no stable Pod is ready":      {},
		"the Endpoints are forbidden": {fault: forbidden},
		"no abort": {
			stable: []string{"10.0.0.1"},
			change: func(r *v1alpha1.Rollout) { r.Status.Abort = false },
		},
		"dynamicStableScale": {stable: []string{"10.0.0.1"}, change: func(r *v1alpha1.Rollout) {
			r.Spec.Strategy.Canary.DynamicStableScale = true
		}},
		"opted out": {stable: []string{"10.0.0.1"}, config: `{"httpScaledObjectName":"web","immediateAbort":false}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewInMemory(t, reported(at20, nil))
				ready(api, "web-stable", test.stable...)
				if test.fault != nil {
					api.PutOther("/api/v1/namespaces/shop/endpoints/web-stable", test.fault)
				}
				rollout := weighing(20)
				rollout.Status.Abort = true
				if test.config != "" {
					rollout.Spec.Strategy.Canary.TrafficRouting.Plugins[httpso.Type] = []byte(test.config)
				}
				if test.change != nil {
					test.change(rollout)
				}
				router := watching(t, api)
				for range 3 {
					if err := router.RemoveManagedRoutes(deadlined(t), rollout); err != nil {
						t.Fatal(err)
					}
				}
				if ended := annotationOf(api, "web") == ""; ended != test.ends {
					t.Errorf("the annotation is %q; want none: %v", annotationOf(api, "web"), test.ends)
				}
				if writes := len(api.Requests(http.MethodPatch)); writes > 1 {
					t.Errorf("%d writes", writes)
				}
			})
		})
	}
}

// TestIdleRolloutDoesNotWait tests Rollouts outside of a canary, of which a cluster may have thousands.
func TestIdleRolloutDoesNotWait(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		report  *httpv1alpha1.DataPlaneStatus
		rollout *v1alpha1.Rollout
		want    bool
		took    time.Duration
	}{
		"no report":                          {nil, weighing(0), true, 0},
		"no proxy is Ready":                  {ackedReport("", 0), weighing(0), true, 0},
		"the first installation":             {nil, routertest.Rollout(httpso.Type, config), true, 0},
		"a Ready proxy has not ACKed it":     {ackedReport(at20, 1), weighing(0), false, 0},
		"the weight has only just gone to 0": {ackedReport(at20, 1), weighing(20), false, 200 * time.Millisecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewInMemory(t, reported("", test.report))
				beat(t, api)
				router := watching(t, api)
				for range 30 {
					begin := time.Now()
					verified, err := router.VerifyWeight(deadlined(t), test.rollout, 0, nil)
					if took := time.Since(begin); err != nil || verified != test.want || took != test.took {
						t.Fatalf("VerifyWeight: %v, %v after %v; want %v after %v", verified, err, took, test.want, test.took)
					}
					if test.took > 0 {
						break // the status that comes with the next call says 0
					}
					pass(10 * time.Second)
				}
				if events := api.Events(); len(events) > 0 {
					t.Errorf("events: %+v", events)
				}
			})
		})
	}
}

func TestRollbackIsNoPromotion(t *testing.T) {
	t.Parallel()
	for before, waits := range map[string]bool{"old": true, "same": false} {
		synctest.Test(t, func(t *testing.T) {
			api := routertest.NewInMemory(t, reported(at20, nil))
			ready(api, "web-stable", "10.0.0.1")
			ready(api, "web-canary", "10.0.0.2")
			rollout := weighing(20)
			rollout.Spec.Replicas = new(int32(2))
			rollout.Status.Canary.Weights.Stable.PodTemplateHash = before
			begin := time.Now()
			err := watching(t, api).UpdateHash(deadlined(t), rollout, "same", "same", nil)
			if took := time.Since(begin); (err != nil) != waits || (took > 0) != waits {
				t.Errorf("stable %s before and same now: %v after %v; want it to wait: %v", before, err, took, waits)
			}
		})
	}
}

func TestPromotionBlocksAWorkerOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewInMemory(t, reported(at100, nil))
		ready(api, "web-stable", "10.0.0.1")
		ready(api, "web-canary", "10.0.0.2")
		router, rollout := watching(t, api), promoted(config)
		for try, want := range []time.Duration{2 * time.Second, 0, 0, 0} {
			begin := time.Now()
			if err := router.UpdateHash(deadlined(t), rollout, "new", "new", nil); err == nil || time.Since(begin) != want {
				t.Errorf("try %d: %v after %v, want an error after %v", try, err, time.Since(begin), want)
			}
			pass(100 * time.Millisecond)
		}
		ready(api, "web-stable", "10.0.0.2")
		if err := router.UpdateHash(deadlined(t), rollout, "new", "new", nil); err != nil {
			t.Error(err)
		}
	})
}

// TestPreviousObjectIsReset changes the configured object during a canary.
func TestPreviousObjectIsReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		byOthers := routertest.ScaledObject(map[string]string{
			httpv1alpha1.AnnotationWeightedBackends: byAPI, httpv1alpha1.AnnotationWeightedBackendsOwner: apiMark,
		})
		byOthers.Name = "api"
		next := routertest.ScaledObject(nil)
		next.Name = "next"
		api := routertest.NewInMemory(t, reported(at20, nil), byOthers, next)
		router := watching(t, api)
		rollout := routertest.Rollout(httpso.Type, `{"httpScaledObjectName":"next"}`)
		for range 2 {
			if err := router.SetWeight(deadlined(t), rollout, 50, nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if annotationOf(api, "web") != "" || annotationOf(api, "api") != byAPI ||
			!strings.Contains(annotationOf(api, "next"), "weight: 50") {
			t.Errorf("annotations: previous %q, of another Rollout %q, current %q", annotationOf(api, "web"),
				annotationOf(api, "api"), annotationOf(api, "next"))
		}
		if writes := len(api.Requests(http.MethodPatch)); writes != 2 {
			t.Errorf("%d writes, want one for each object", writes)
		}
	})
}

func TestBlockedRolloutGetsAnEvent(t *testing.T) {
	t.Parallel()
	headers := &v1alpha1.SetHeaderRoute{Name: "qa", Match: []v1alpha1.HeaderRoutingMatch{{HeaderName: "x-qa"}}}
	tests := map[string]struct {
		report *httpv1alpha1.DataPlaneStatus
		call   func(*testing.T, *httpso.Router)
		reason string
		text   []string
	}{
		"a proxy does not ACK the weight": {
			report: &httpv1alpha1.DataPlaneStatus{
				AnnotationHash: split.Hash(at20, ""), Effective: true,
				Proxies: httpv1alpha1.ProxyCounts{Ready: 3, Acked: 2},
			},
			call: verifies, reason: "WeightNotVerified",
			text: []string{`HTTPScaledObject "shop/web"`, "2 of 3 Ready proxies", "kedify-proxy", "verifyDataPlane: false"},
		},
		"no proxy is Ready": {
			report: ackedReport(at20, 0), call: verifies, reason: "WeightNotVerified",
			text: []string{"no proxy is Ready", `namespace "shop"`},
		},
		"nothing was reported": {call: verifies, reason: "WeightNotVerified", text: []string{"no interceptor has reported"}},
		"a promotion waits": {
			call: func(t *testing.T, router *httpso.Router) {
				t.Helper()
				for range 15 {
					if router.UpdateHash(deadlined(t), promoted(config), "new", "new", nil) == nil {
						t.Error("the promotion continues")
					}
					pass(time.Second)
				}
			},
			reason: "PromotionWaits", text: []string{`Service "web-stable"`, "safePromotion: false"},
		},
		"an invalid configuration": {
			call: func(t *testing.T, router *httpso.Router) {
				t.Helper()
				rollout := routertest.Rollout(httpso.Type, `{"httpScaledObject":"web"}`)
				for range 3 {
					if router.RemoveManagedRoutes(deadlined(t), rollout) == nil {
						t.Error("the call succeeds")
					}
				}
			},
			reason: reasons.InvalidTrafficRouting, text: []string{`unknown key "httpScaledObject"`},
		},
		"an invalid step": {
			call: func(t *testing.T, router *httpso.Router) {
				t.Helper()
				for range 3 {
					if router.SetHeaderRoute(deadlined(t), inCanary(0, v1alpha1.CanaryStep{SetHeaderRoute: headers}), headers) == nil {
						t.Error("the step succeeds")
					}
				}
			},
			reason: reasons.InvalidTrafficRouting, text: []string{
				"setHeaderRoute", `route "qa"`, `header "x-qa"`,
				"write one under exact, prefix or regex",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewInMemory(t, reported(at20, test.report))
				ready(api, "web-stable", "10.0.0.1")
				beat(t, api)
				test.call(t, watching(t, api))
				events := api.Events()
				if len(events) != 1 || events[0].Reason != test.reason {
					t.Fatalf("events: %+v; want one, %s", events, test.reason)
				}
				for _, text := range test.text {
					if !strings.Contains(events[0].Message, text) {
						t.Errorf("the event %q lacks %q", events[0].Message, text)
					}
				}
			})
		})
	}
}

// TestReasonsOfManagedRoutes: each cause for which a step cannot be carried out has a reason of its own, and the same
// Event is not repeated.
func TestReasonsOfManagedRoutes(t *testing.T) {
	t.Parallel()
	forbidden := routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{Resource: "httpscaledobjects"}, "web",
		errors.New("no rule")))
	owned := map[string]string{
		httpv1alpha1.AnnotationWeightedBackends: byAPI, httpv1alpha1.AnnotationWeightedBackendsOwner: apiMark,
	}
	for name, test := range map[string]struct {
		config, reason, text string
		annotations          map[string]string
		fault                http.HandlerFunc
	}{
		"an unknown key": {config: `{"httpScaledObject":"web"}`, reason: reasons.InvalidTrafficRouting, text: "remove it"},
		"a missing object": {
			config: `{"httpScaledObjectName":"wbe"}`, reason: reasons.TargetNotFound, text: "httpScaledObjectName",
		},
		"a missing permission": {
			config: config, fault: forbidden, reason: reasons.PermissionMissing, text: "argo-rollouts-kedify-http",
		},
		"the object of another Rollout": {
			config: config, annotations: owned, reason: reasons.OwnedByOtherRollout, text: "of its own",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewAPIServer(t, routertest.ScaledObject(test.annotations))
			api.PutOther(apiPath, apiRollout("web"))
			step := headerStep()
			rollout := inCanary(0, step)
			rollout.Spec.Strategy.Canary.TrafficRouting.Plugins[httpso.Type] = []byte(test.config)
			router := newRouter(api)
			for range 2 {
				if test.fault != nil {
					api.Fail(test.fault)
				}
				if router.SetHeaderRoute(t.Context(), rollout, step.SetHeaderRoute) == nil {
					t.Error("the step succeeds")
				}
			}
			events := api.Events()
			if len(events) != 1 || events[0].Reason != test.reason || !strings.Contains(events[0].Message, test.text) {
				t.Errorf("events: %+v; want one, %s with %q", events, test.reason, test.text)
			}
		})
	}
}

// verifies calls VerifyWeight for five minutes with weight 20, which is not applied. It expects no Event in the first
// minute.
func verifies(t *testing.T, router *httpso.Router) {
	t.Helper()
	for range 30 {
		if verified, err := router.VerifyWeight(deadlined(t), weighing(20), 20, nil); err != nil || verified {
			t.Errorf("VerifyWeight: %v, %v", verified, err)
		}
		pass(10 * time.Second)
	}
}

func TestPromotionWithoutEndpointsDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewInMemory(t, reported(at20, nil))
		begin := time.Now()
		if err := watching(t, api).UpdateHash(deadlined(t), promoted(config), "new", "new", nil); err != nil ||
			time.Since(begin) > 0 {
			t.Errorf("UpdateHash: %v after %v", err, time.Since(begin))
		}
	})
}

// TestHalfOpenWatchPassesNoStep has a watch that misses a revert: the result that completes a step must come from the
// API server.
func TestHalfOpenWatchPassesNoStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewInMemory(t, reported(at20, nil))
		router := watching(t, api)
		api.HoldEvents()
		api.Put(routertest.ScaledObject(nil))
		if err := router.SetWeight(deadlined(t), weighing(0), 20, nil); err != nil {
			t.Fatal(err)
		}
		if annotationOf(api, "web") != at20 {
			t.Errorf("SetWeight believes the watch: annotation %q", annotationOf(api, "web"))
		}
		api.Put(routertest.ScaledObject(nil))
		if verified, err := router.VerifyWeight(deadlined(t), weighing(0), 20, nil); err != nil || verified {
			t.Errorf("VerifyWeight believes the watch: %v, %v", verified, err)
		}
	})
}
