package gatewayapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// TestHeaderRouteRemovalIsStaged: Envoy Gateway removes the cluster of a rule independently of the rule. So a header
// route to be removed first matches no request, until the proxies have applied that.
func TestHeaderRouteRemovalIsStaged(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		controller string
		accepted   time.Duration // after the first write; never if 0
		writes     int
		took       time.Duration
	}{
		"Envoy Gateway": {
			"gateway.envoyproxy.io/gatewayclass-controller", 100 * time.Millisecond, 2,
			600 * time.Millisecond,
		},
		"one that never accepts":  {"gateway.envoyproxy.io/gatewayclass-controller", 0, 2, 1500 * time.Millisecond},
		"one that counts nothing": {"traefik.io/gateway-controller", 0, 1, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"))
				router, rollout := watching(t, api), withHeaderRoute()
				if err := router.SetHeaderRoute(deadlined(t), rollout,
					rollout.Spec.Strategy.Canary.Steps[0].SetHeaderRoute); err != nil {
					t.Fatal(err)
				}
				report(api, test.controller)
				synctest.Wait()
				if test.accepted > 0 {
					time.AfterFunc(test.accepted, func() {
						if got := rules(api); got != 2 {
							t.Errorf("%d rules while the proxies follow, want 2", got)
						}
						api.Accept("httproutes", "shop", "web", true)
					})
				}
				before, began := len(api.Requests(http.MethodPut, "/httproutes/")), time.Now()
				if err := router.RemoveManagedRoutes(deadlined(t), rollout); err != nil {
					t.Fatal(err)
				}
				took, writes := time.Since(began), len(api.Requests(http.MethodPut, "/httproutes/"))-before
				if took != test.took || writes != test.writes || rules(api) != 1 {
					t.Errorf("%d writes in %v, %d rules left; want %d in %v, 1 left", writes, took, rules(api), test.writes, test.took)
				}
			})
		})
	}
}

// TestHeaderRouteAdditionIsStaged: Envoy Gateway also adds the cluster independently of the rule. So an added header
// route first matches no request, until the proxies have applied it.
func TestHeaderRouteAdditionIsStaged(t *testing.T) {
	t.Parallel()
	for controller, writes := range map[string]int{
		"gateway.envoyproxy.io/gatewayclass-controller": 2,
		"traefik.io/gateway-controller":                 1,
	} {
		t.Run(controller, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"))
				router, rollout := watching(t, api), withHeaderRoute()
				report(api, controller)
				synctest.Wait()
				met := func() bool {
					return !strings.Contains(fmt.Sprint(api.Object("httproutes", "shop", "web")["spec"]), "x-rollouts-unmet")
				}
				time.AfterFunc(100*time.Millisecond, func() {
					if rules(api) != 2 || met() != (writes == 1) {
						t.Errorf("after 100 ms it has %d rules, and those are met: %v", rules(api), met())
					}
					api.Accept("httproutes", "shop", "web", true)
				})
				if err := router.SetHeaderRoute(deadlined(t), rollout,
					rollout.Spec.Strategy.Canary.Steps[0].SetHeaderRoute); err != nil {
					t.Fatal(err)
				}
				if got := len(api.Requests(http.MethodPut, "/httproutes/")); got != writes || rules(api) != 2 || !met() {
					t.Errorf("%d writes, %d rules, met: %v; want %d, 2, true", got, rules(api), met(), writes)
				}
				time.Sleep(200 * time.Millisecond) // The clock is synctest's.
			})
		})
	}
}

// report writes a controller's report to the status of shop/web.
func report(api *routertest.RoutesServer, controller string) {
	api.Change("httproutes", "shop", "web", func(route map[string]any) {
		route["status"] = map[string]any{"parents": []any{
			map[string]any{"parentRef": map[string]any{"name": "gateway"}, "controllerName": controller},
		}}
	})
}
