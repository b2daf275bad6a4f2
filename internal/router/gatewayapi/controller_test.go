package gatewayapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// weighing returns a Rollout with that configuration as the controller passes it when its status contains the canary's
// weight.
func weighing(weight int32, config string) *v1alpha1.Rollout {
	rollout := routertest.Rollout(gatewayapi.Type, config)
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
	tests := map[string]struct {
		change func(*v1alpha1.Rollout)
		stable []string
		config string
		want   string
	}{
		"one stable Pod is ready": {stable: []string{"10.0.0.1"}, want: "100/0"},
		"no stable Pod is ready":  {want: "80/20"},
		"no abort": {
			stable: []string{"10.0.0.1"},
			change: func(r *v1alpha1.Rollout) { r.Status.Abort = false }, want: "80/20",
		},
		"dynamicStableScale": {stable: []string{"10.0.0.1"}, want: "80/20", change: func(r *v1alpha1.Rollout) {
			r.Spec.Strategy.Canary.DynamicStableScale = true
		}},
		"opted out": {stable: []string{"10.0.0.1"}, config: `{"httpRoute":"web","immediateAbort":false}`, want: "80/20"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"))
				endpoints(api, "web-stable", test.stable...)
				router, rollout := watching(t, api), weighing(20, config)
				if err := router.SetWeight(deadlined(t), rollout, 20, nil); err != nil {
					t.Fatal(err)
				}
				rollout.Status.Abort = true
				if test.config != "" {
					rollout.Spec.Strategy.Canary.TrafficRouting.Plugins[gatewayapi.Type] = []byte(test.config)
				}
				if test.change != nil {
					test.change(rollout)
				}
				for range 3 {
					if err := router.RemoveManagedRoutes(deadlined(t), rollout); err != nil {
						t.Fatal(err)
					}
				}
				if got := weights(api, "httproutes", "web"); got != test.want {
					t.Errorf("weights %s, want %s", got, test.want)
				}
			})
		})
	}
}

func TestInvalidRouteDoesNotBlockAnAbort(t *testing.T) {
	t.Parallel()
	both := `{"httpRoutes":[{"name":"web"},{"name":"api"}]}`
	for _, call := range []string{"SetWeight", "RemoveManagedRoutes"} {
		synctest.Test(t, func(t *testing.T) {
			api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"), httpRoute("api"))
			endpoints(api, "web-stable", "10.0.0.1")
			router, rollout := watching(t, api), weighing(20, both)
			if err := router.SetWeight(deadlined(t), rollout, 20, nil); err != nil {
				t.Fatal(err)
			}
			api.Change("httproutes", "shop", "api", func(route map[string]any) { route["spec"].(map[string]any)["rules"] = []any{} })
			synctest.Wait()
			rollout.Status.Abort = true
			err := router.RemoveManagedRoutes(deadlined(t), rollout)
			if call == "SetWeight" {
				err = router.SetWeight(deadlined(t), rollout, 0, nil)
			}
			if err == nil || !strings.Contains(err.Error(), `HTTPRoute "shop/api"`) ||
				strings.Contains(err.Error(), "shop/web\" of") {
				t.Errorf("%s: %v; want an error about the route that is unfit", call, err)
			}
			if got := weights(api, "httproutes", "web"); got != "100/0" {
				t.Errorf("%s: the other route has weights %s", call, got)
			}
		})
	}
}

func TestIdleRolloutDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"))
		router, rollout := watching(t, api), weighing(0, config)
		if err := router.SetWeight(deadlined(t), rollout, 0, nil); err != nil {
			t.Fatal(err)
		}
		report(api, "example.com/gateway") // without an acceptance
		for range 30 {
			begin := time.Now()
			if verified, err := router.VerifyWeight(deadlined(t), rollout, 0, nil); err != nil || !verified ||
				time.Since(begin) > 0 {
				t.Fatalf("VerifyWeight: %v, %v after %v", verified, err, time.Since(begin))
			}
			<-time.After(10 * time.Second)
		}
		if events := api.Events(); len(events) > 0 {
			t.Errorf("events: %+v", events)
		}
	})
}

// TestRouteWithoutStatusIsVerifiedByItsSpec has a cluster in which no Gateway writes a status.
func TestRouteWithoutStatusIsVerifiedByItsSpec(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]bool{time.Hour: true, 5 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			made := time.Now().Add(-age).UTC().Format(time.RFC3339)
			old := strings.Replace(httpRoute("web"), "name: web,", "name: web, creationTimestamp: '"+made+"',", 1)
			api := routertest.NewRoutesInMemory(t, newest(), old)
			router, canaries, waited := watching(t, api), map[bool]int{true: 15, false: 1}[want], time.Duration(0)
			for range canaries {
				for _, weight := range []int32{10, 20, 30, 0} {
					if err := router.SetWeight(deadlined(t), weighing(weight-10, config), weight, nil); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					begin := time.Now()
					verified, err := router.VerifyWeight(deadlined(t), weighing(weight-10, config), weight, nil)
					if waited += time.Since(begin); err != nil || verified != want {
						t.Errorf("a route made %v ago, VerifyWeight(%d): %v, %v after %v", age, weight, verified, err, time.Since(begin))
					}
				}
			}
			if t.Logf("%d canaries on a route made %v ago waited %v for a report", canaries, age, waited); want && waited > 0 {
				t.Errorf("the canaries waited %v for a report that never came", waited)
			}
			if events := api.Events(); want && (len(events) != 1 || events[0].Reason != "RouteNotReported") || !want &&
				len(events) > 0 {
				t.Errorf("a route made %v ago: events %+v", age, events)
			}
		})
	}
}

// TestPreviousRouteIsReset changes the configured routes during a canary.
func TestPreviousRouteIsReset(t *testing.T) {
	t.Parallel()
	label := func(value string) func(map[string]any) {
		return func(route map[string]any) {
			route["metadata"].(map[string]any)["labels"] = map[string]any{"app": value}
		}
	}
	tests := map[string]struct {
		before, after string
		change        func(*routertest.RoutesServer)
	}{
		"another name": {before: `{"httpRoute":"web"}`, after: `{"httpRoute":"api"}`},
		"another selector": {
			before: `{"httpRouteSelector":{"matchLabels":{"app":"web"}}}`,
			after:  `{"httpRouteSelector":{"matchLabels":{"app":"api"}}}`,
		},
		"other labels": {
			before: `{"httpRouteSelector":{"matchLabels":{"app":"web"}}}`,
			after:  `{"httpRouteSelector":{"matchLabels":{"app":"web"}}}`,
			change: func(api *routertest.RoutesServer) {
				api.Change("httproutes", "shop", "web", label("other"))
				api.Change("httproutes", "shop", "api", label("web"))
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				other := strings.Replace(httpRoute("api"), "app: web", "app: api", 1)
				api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"), other)
				router, rollout := watching(t, api), withHeaderRoute()
				configure := func(config string) {
					rollout.Spec.Strategy.Canary.TrafficRouting.Plugins[gatewayapi.Type] = []byte(config)
				}
				configure(test.before)
				if err := router.SetWeight(deadlined(t), rollout, 20, nil); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				configure(test.after)
				if test.change != nil {
					test.change(api)
				}
				synctest.Wait()
				if err := router.SetWeight(deadlined(t), rollout, 50, nil); err != nil {
					t.Fatal(err)
				}
				if web, next := weights(api, "httproutes", "web"), weights(api, "httproutes", "api"); web != "100/0" ||
					next != "50/50" || rules(api) != 1 {
					t.Errorf("previous weights %s with %d rules, current weights %s", web, rules(api), next)
				}
				if _, recorded := annotationsOf(api)["rollouts.kedify.io/gatewayapi"]; recorded {
					t.Errorf("the previous route has annotations %v", annotationsOf(api))
				}
			})
		})
	}
}

// annotationsOf returns the annotations of the route shop/web.
func annotationsOf(api *routertest.RoutesServer) map[string]string {
	read := unstructured.Unstructured{Object: api.Object("httproutes", "shop", "web")}
	return read.GetAnnotations()
}

// TestExperimentServicePort has a Service as the controller creates it: with the number of the container's port.
func TestExperimentServicePort(t *testing.T) {
	t.Parallel()
	type ports = []map[string]any
	forbidden := routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "",
		errors.New("no rule")))
	canary := ports{
		{"port": 80, "targetPort": 8080, "name": "web"},
		{"port": 9090, "targetPort": "metrics", "name": "metrics"},
	}
	tests := map[string]struct {
		canary, experiment ports
		want               string // the port, or in an error
	}{
		"the same number":       {canary, ports{{"port": 8080}, {"port": 80}}, "80"},
		"that of the container": {canary, ports{{"port": 9090}, {"port": 8080}}, "8080"},
		"the same name":         {canary, ports{{"port": 1}, {"port": 2, "name": "web"}}, "2"},
		"http":                  {canary, ports{{"port": 1}, {"port": 2, "name": "http"}}, "2"},
		"the only one":          {canary, ports{{"port": 7}}, "7"},
		"none of several": {
			canary,
			ports{{"port": 1}, {"port": 2}},
			`Service "web-try" has no port that corresponds to port 80 of Service "web-canary"; its ports: 1, 2`,
		},
		"Services that cannot be got": {want: "80"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewRoutesServer(t, newest(), httpRoute("web"))
			for service, given := range map[string]ports{"web-canary": test.canary, "web-try": test.experiment} {
				var answer any = map[string]any{"spec": map[string]any{"ports": given}}
				if given == nil {
					answer = forbidden
				}
				api.PutOther("/api/v1/namespaces/shop/services/"+service, answer)
			}
			others := []v1alpha1.WeightDestination{{ServiceName: "web-try", Weight: 10}}
			router, rollout := newRouter(api), weighing(20, `{"httpRoute":"web","verifyRouteStatus":false}`)
			err := router.SetWeight(t.Context(), rollout, 20, others)
			backends, _, _ := unstructured.NestedSlice(api.Object("httproutes", "shop", "web"), "spec", "rules")
			got := fmt.Sprint(err)
			if err == nil {
				got = fmt.Sprint(backends[0].(map[string]any)["backendRefs"].([]any)[2].(map[string]any)["port"])
			}
			if err == nil && got != test.want || err != nil && !strings.Contains(got, test.want) {
				t.Errorf("port %s, want %s", got, test.want)
			}
			if verified, err := router.VerifyWeight(t.Context(), rollout, 20, others); err == nil &&
				verified != !strings.Contains(test.want, "no port") {
				t.Errorf("VerifyWeight: %v", verified)
			}
		})
	}
}

func TestRejectedRouteGetsAnEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unfit := strings.ReplaceAll(httpRoute("web"), "web-canary", "other")
		api := routertest.NewRoutesInMemory(t, newest(), unfit)
		router, rollout := watching(t, api), withHeaderRoute()
		for range 3 {
			if router.SetHeaderRoute(deadlined(t), rollout, rollout.Spec.Strategy.Canary.Steps[0].SetHeaderRoute) == nil {
				t.Error("SetHeaderRoute succeeds")
			}
			if verified, err := router.VerifyWeight(deadlined(t), rollout, 0, nil); err != nil || verified {
				t.Errorf("VerifyWeight: %v, %v", verified, err)
			}
		}
		if events := api.Events(); len(events) != 1 || events[0].Reason != reasons.InvalidTrafficRouting ||
			!strings.Contains(events[0].Message, "no rule has both Services") {
			t.Errorf("events: %+v", events)
		}
	})
}

// TestCacheKeepsContentOfUsedRoutes has ten thousand routes, one of which is used: the content of the others is not
// cached.
func TestCacheKeepsContentOfUsedRoutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"), httpRoute("idle"))
		router := watching(t, api)
		for _, weight := range []int32{10, 20, 30} {
			reads := len(api.Requests(http.MethodGet, "/httproutes/web"))
			if err := router.SetWeight(deadlined(t), weighing(weight-10, config), weight, nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if reads = len(api.Requests(http.MethodGet, "/httproutes/web")) - reads; weight > 10 && reads > 0 {
				t.Errorf("SetWeight(%d) of a route in use read it %d times", weight, reads)
			}
		}
	})
}
