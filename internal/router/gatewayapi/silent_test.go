package gatewayapi_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// twoParents is the HTTPRoute shop/web with the Gateways gateway and second.
func twoParents() string {
	return strings.Replace(httpRoute("web"), "[{name: gateway}]", "[{name: gateway}, {name: second}]", 1)
}

// parentStatus is the report of a Gateway on generations before or at the current one of a route.
type parentStatus struct {
	parent   string
	behind   int64 // the current generation minus the reported one
	accepted string
}

// reports sets the status of the route shop/web.
func reports(api *routertest.RoutesServer, all ...parentStatus) {
	api.Change("httproutes", "shop", "web", func(route map[string]any) {
		generation, _ := route["metadata"].(map[string]any)["generation"].(int64)
		parents := []any{}
		for _, one := range all {
			condition := func(kind, status string) any {
				return map[string]any{
					"type": kind, "status": status, "reason": "Test", "observedGeneration": generation - one.behind,
				}
			}
			parents = append(parents, map[string]any{
				"parentRef": map[string]any{"name": one.parent}, "controllerName": "example.com/gateway",
				"conditions": []any{condition("Accepted", one.accepted), condition("ResolvedRefs", "True")},
			})
		}
		route["status"] = map[string]any{"parents": parents}
	})
}

// verifyFor calls SetWeight and VerifyWeight every 10 s, as the controller does, until the weight is verified or the
// duration has passed. It returns whether the weight is verified, and after which time.
func verifyFor(
	t *testing.T, router *gatewayapi.Router, rollout *v1alpha1.Rollout, weight int32, duration time.Duration,
) (verified bool, took time.Duration) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) <= duration; time.Sleep(10 * time.Second) {
		if err := router.SetWeight(deadlined(t), rollout, weight, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		verified, err := router.VerifyWeight(deadlined(t), rollout, weight, nil)
		if err != nil {
			t.Fatal(err)
		}
		if verified {
			return true, time.Since(begin).Truncate(10 * time.Second)
		}
	}
	return false, duration
}

// eventsOf returns the Events as texts.
func eventsOf(api *routertest.RoutesServer) []string {
	var texts []string
	for _, event := range api.Events() {
		texts = append(texts, event.Reason+": "+event.Message)
	}
	return texts
}

// TestUnreportedWeight has Gateways that do not report a weight. Only weights of which no parent has ever reported
// anything else continue.
func TestUnreportedWeight(t *testing.T) {
	t.Parallel()
	type statuses = []parentStatus
	const fix = `verifyRouteStatus: false in spec.strategy.canary.trafficRouting.plugins["argoproj-labs/gatewayAPI"]`
	waits := func(reason string) []string {
		return []string{`WeightNotVerified: HTTPRoute "shop/web": weights not verified for `, reason, fix}
	}
	passes := func(who string) []string {
		return []string{`RouteNotReported: HTTPRoute "shop/web": its weights are unverified: `, who, fix}
	}
	for name, test := range map[string]struct {
		route  string
		before statuses // before the weight is written
		after  statuses // afterwards
		want   bool
		texts  []string // parts of the Event
	}{
		"no Gateway has ever reported": {
			httpRoute("web"), nil, nil, true, passes(`no Gateway has ever reported on the route`),
		},
		"the Gateway has reported before": {
			httpRoute("web"),
			statuses{{"gateway", 0, "True"}},
			nil, false,
			waits("(example.com/gateway): condition Accepted is about generation"),
		},
		"the Gateway rejects the weight": {
			httpRoute("web"),
			statuses{{"gateway", 0, "True"}},
			statuses{{"gateway", 0, "False"}},
			false,
			waits("(example.com/gateway): condition Accepted is False (Test)"),
		},
		"a Gateway that the route no longer names has reported": {
			httpRoute("web"),
			statuses{{"former", 0, "True"}},
			nil, false,
			waits("no parent in spec.parentRefs has reported on the route"),
		},
		"of two Gateways, one reports and one never has": {
			twoParents(),
			statuses{{"gateway", 0, "True"}},
			statuses{{"gateway", 0, "True"}},
			true,
			passes(`Gateway "shop/second" has never reported on the route`),
		},
		"of two Gateways, one reports and one has reported before": {
			twoParents(),
			statuses{{"gateway", 0, "True"}, {"second", 0, "True"}},
			statuses{{"gateway", 0, "True"}, {"second", 1, "True"}},
			false,
			waits("status.parents[1] (example.com/gateway): condition Accepted is about generation"),
		},
		"of two Gateways, one has reported before and one never has": {
			twoParents(),
			statuses{{"gateway", 0, "True"}},
			nil, false,
			waits("status.parents[0] (example.com/gateway): condition Accepted is about generation"),
		},
	} {
		for _, weight := range []int32{20, 100} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					api := routertest.NewRoutesInMemory(t, newest(), test.route)
					router, rollout := watching(t, api), weighing(weight-10, config)
					if err := router.SetWeight(deadlined(t), rollout, weight-10, nil); err != nil {
						t.Fatal(err)
					}
					if test.before != nil {
						reports(api, test.before...)
					}
					if err := router.SetWeight(deadlined(t), rollout, weight, nil); err != nil {
						t.Fatal(err)
					}
					if test.after != nil {
						reports(api, test.after...)
					}
					verified, took := verifyFor(t, router, rollout, weight, time.Hour)
					if want := map[bool]time.Duration{true: time.Minute, false: time.Hour}[test.want]; verified != test.want ||
						took != want {
						t.Errorf("weight %d is verified: %v after %v, want %v after %v", weight, verified, took, test.want, want)
					}
					events := strings.Join(eventsOf(api), "\n")
					for _, text := range test.texts {
						if !strings.Contains(events, text) {
							t.Errorf("weight %d: events %s\nwant %s", weight, events, text)
						}
					}
					if strings.Contains(events, "RouteNotReported") != test.want {
						t.Errorf("weight %d: events %s", weight, events)
					}
				})
			})
		}
	}
}

// TestSilentGatewayDoesNotBlockAnAbort aborts a canary whose Gateway has stopped to report.
func TestSilentGatewayDoesNotBlockAnAbort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"))
		endpoints(api, "web-stable", "10.0.0.1")
		router, rollout := watching(t, api), weighing(100, config)
		if err := router.SetWeight(deadlined(t), rollout, 20, nil); err != nil {
			t.Fatal(err)
		}
		reports(api, parentStatus{"gateway", 0, "True"})
		if verified, _ := verifyFor(t, router, rollout, 100, 10*time.Minute); verified {
			t.Error("the full weight is verified")
		}
		rollout.Status.Abort = true
		if err := router.RemoveManagedRoutes(deadlined(t), rollout); err != nil {
			t.Error(err)
		}
		err := router.SetWeight(deadlined(t), rollout, 0, nil)
		if got := weights(api, "httproutes", "web"); err != nil || got != "100/0" {
			t.Errorf("SetWeight: %v, weights %s", err, got)
		}
		synctest.Wait()
		if verified, err := router.VerifyWeight(deadlined(t), rollout, 0, nil); verified || err != nil {
			t.Errorf("VerifyWeight in the first reconcile of the abort: %v, %v", verified, err)
		}
		rollout.Status = weighing(0, config).Status
		rollout.Status.Abort = true
		begin := time.Now()
		if verified, err := router.VerifyWeight(deadlined(t), rollout, 0, nil); !verified || err != nil ||
			time.Since(begin) > 0 {
			t.Errorf("VerifyWeight of the aborted Rollout: %v, %v after %v", verified, err, time.Since(begin))
		}
	})
}

// TestManagedRoutesWaitForASilentGateway: a header or mirror route counts as applied under the same conditions as a
// weight.
func TestManagedRoutesWaitForASilentGateway(t *testing.T) {
	t.Parallel()
	mirror := withHeaderRoute()
	mirror.Spec.Strategy.Canary.Steps = []v1alpha1.CanaryStep{{SetMirrorRoute: &v1alpha1.SetMirrorRoute{
		Name: "qa", Match: []v1alpha1.RouteMatch{{Path: &v1alpha1.StringMatch{Prefix: "/"}}},
	}}}
	for name, rollout := range map[string]*v1alpha1.Rollout{"header": withHeaderRoute(), "mirror": mirror} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"))
				reports(api, parentStatus{"gateway", 0, "True"})
				router, step := watching(t, api), rollout.Spec.Strategy.Canary.Steps[0]
				var err error
				if step.SetHeaderRoute != nil {
					err = router.SetHeaderRoute(deadlined(t), rollout, step.SetHeaderRoute)
				} else {
					err = router.SetMirrorRoute(deadlined(t), rollout, step.SetMirrorRoute)
				}
				if err != nil || rules(api) != 2 {
					t.Fatalf("%v, %d rules", err, rules(api))
				}
				if verified, _ := verifyFor(t, router, rollout, 0, 10*time.Minute); verified {
					t.Errorf("a %s route is verified that the Gateway has not accepted", name)
				}
				reports(api, parentStatus{"gateway", 0, "True"})
				if verified, took := verifyFor(t, router, rollout, 0, time.Minute); !verified || took > 0 {
					t.Errorf("the accepted %s route is verified: %v after %v", name, verified, took)
				}
			})
		})
	}
}

// TestSilentGatewayReportsAgain: the Rollout continues by itself, or with verifyRouteStatus: false.
func TestSilentGatewayReportsAgain(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*routertest.RoutesServer, *v1alpha1.Rollout){
		"a report": func(api *routertest.RoutesServer, _ *v1alpha1.Rollout) {
			reports(api, parentStatus{"gateway", 0, "True"})
		},
		"verifyRouteStatus: false": func(_ *routertest.RoutesServer, rollout *v1alpha1.Rollout) {
			rollout.Spec.Strategy.Canary.TrafficRouting.Plugins[gatewayapi.Type] = []byte(`{"httpRoute":"web","verifyRouteStatus":false}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"))
				reports(api, parentStatus{"gateway", 0, "True"})
				router, rollout := watching(t, api), weighing(0, config)
				if verified, _ := verifyFor(t, router, rollout, 20, 10*time.Minute); verified {
					t.Fatal("the weight is verified without a report")
				}
				end(api, rollout)
				synctest.Wait()
				if verified, took := verifyFor(t, router, rollout, 20, time.Minute); !verified || took > 0 {
					t.Errorf("verified: %v after %v", verified, took)
				}
			})
		})
	}
}
