package gatewayapi_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

func TestVerifyWeight(t *testing.T) {
	t.Parallel()
	accept := func(api *routertest.RoutesServer) { api.Accept("httproutes", "shop", "web", true) }
	tests := map[string]struct {
		before func(*routertest.RoutesServer)
		later  func(*routertest.RoutesServer) // after 100 ms
		config string
		want   bool
		took   time.Duration
	}{
		"accepted":         {before: accept, want: true},
		"accepted in time": {later: accept, want: true, took: 100 * time.Millisecond},
		"never accepted":   {took: 200 * time.Millisecond},
		"rejected": {before: func(api *routertest.RoutesServer) {
			api.Accept("httproutes", "shop", "web",
				false)
		}, took: 200 * time.Millisecond},
		"opted out":         {config: `{"httpRoute":"web","verifyRouteStatus":false}`, want: true},
		"reverted after it": {before: func(api *routertest.RoutesServer) { accept(api); swap(api) }},
		"reverted while it": {
			later: func(api *routertest.RoutesServer) { swap(api); accept(api) },
			took:  100 * time.Millisecond,
		},
		"an acceptance of old": {
			before: func(api *routertest.RoutesServer) { accept(api); touch(api) },
			took:   200 * time.Millisecond,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"))
				router, rollout := watching(t, api), routertest.Rollout(gatewayapi.Type, config)
				if test.config != "" {
					rollout = routertest.Rollout(gatewayapi.Type, test.config)
				}
				if err := router.SetWeight(deadlined(t), rollout, 20, nil); err != nil {
					t.Fatal(err)
				}
				if test.before != nil {
					test.before(api)
				}
				if test.later != nil {
					time.AfterFunc(100*time.Millisecond, func() { test.later(api) })
				}
				synctest.Wait()
				begin := time.Now()
				verified, err := router.VerifyWeight(deadlined(t), rollout, 20, nil)
				if took := time.Since(begin); err != nil || verified != test.want || took != test.took {
					t.Errorf("VerifyWeight: %v, %v after %v; want %v after %v", verified, err, took, test.want, test.took)
				}
			})
		})
	}
}

func TestFullCanaryWeightIsVerifiedLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"))
		router, rollout := watching(t, api), routertest.Rollout(gatewayapi.Type, config)
		for weight, want := range map[int32]int{20: 0, 100: 1} {
			if err := router.SetWeight(deadlined(t), rollout, weight, nil); err != nil {
				t.Fatal(err)
			}
			rollout.Status = weighing(weight, config).Status
			api.Accept("httproutes", "shop", "web", true)
			synctest.Wait()
			reads := len(api.Requests(http.MethodGet, "/httproutes/"))
			if verified, err := router.VerifyWeight(deadlined(t), rollout, weight, nil); err != nil || !verified {
				t.Errorf("VerifyWeight(%d): %v, %v", weight, verified, err)
			}
			if reads = len(api.Requests(http.MethodGet, "/httproutes/")) - reads; reads != want {
				t.Errorf("VerifyWeight(%d) read %d times, want %d", weight, reads, want)
			}
		}
	})
}

// swap swaps the weights of the two Services of shop/web.
func swap(api *routertest.RoutesServer) {
	api.Change("httproutes", "shop", "web", func(route map[string]any) {
		backends := route["spec"].(map[string]any)["rules"].([]any)[0].(map[string]any)["backendRefs"].([]any)
		a, b := backends[0].(map[string]any), backends[1].(map[string]any)
		a["weight"], b["weight"] = b["weight"], a["weight"]
	})
}

// touch changes another field in the spec of shop/web.
func touch(api *routertest.RoutesServer) {
	api.Change("httproutes", "shop", "web", func(route map[string]any) { route["spec"].(map[string]any)["hostnames"] = []any{"shop.test"} })
}

func TestUnreportedRouteBlocksARolloutForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"))
		router, rollout := watching(t, api), routertest.Rollout(gatewayapi.Type, config)
		if err := router.SetWeight(deadlined(t), rollout, 20, nil); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		for {
			if verified, err := router.VerifyWeight(deadlined(t), rollout, 20, nil); err != nil ||
				time.Since(begin) > 2*time.Minute {
				t.Fatalf("VerifyWeight: %v, %v", verified, err)
			} else if verified {
				break
			}
			<-time.After(10 * time.Second)
		}
		if took := time.Since(begin); took < time.Minute || took > 75*time.Second {
			t.Errorf("it held the Rollout for %v", took)
		}
		events := api.Events()
		if len(events) != 1 || events[0].Reason != "RouteNotReported" ||
			!strings.Contains(events[0].Message, `HTTPRoute "shop/web"`) {
			t.Errorf("events: %+v", events)
		}
	})
}

func TestVerifyWeightIsFalseWhileTheRouteIsUnreadable(t *testing.T) {
	t.Parallel()
	api := routertest.NewRoutesServer(t, newest(), httpRoute("web"))
	api.Fail(routertest.CloseConnection)
	if verified, err := newRouter(api).VerifyWeight(t.Context(), routertest.Rollout(gatewayapi.Type, config), 0,
		nil); err != nil || verified {
		t.Errorf("VerifyWeight: %v, %v; want false without an error", verified, err)
	}
}

// endpoints sets the ready addresses of a Service.
func endpoints(api *routertest.RoutesServer, service string, addresses ...string) {
	list := []map[string]string{}
	for _, ip := range addresses {
		list = append(list, map[string]string{"ip": ip})
	}
	api.PutOther("/api/v1/namespaces/shop/endpoints/"+service,
		map[string]any{"subsets": []any{map[string]any{"addresses": list}}})
}

func TestPromotionWaitsForTheStableService(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		weight int32 // of the canary on the route
		stable []string
		change func(*v1alpha1.Rollout)
		want   bool
	}{
		"it has the promoted Pods": {weight: 100, stable: []string{"10.0.0.2"}, want: true},
		"it has the old Pods":      {weight: 100, stable: []string{"10.0.0.1"}},
		"the canary has no weight": {weight: 0, stable: []string{"10.0.0.1"}, want: true},
		"the Rollout is aborted": {
			weight: 100, stable: []string{"10.0.0.1"},
			change: func(r *v1alpha1.Rollout) { r.Status.Abort = true }, want: true,
		},
		"the Rollout doesn't want it": {
			weight: 100, stable: []string{"10.0.0.1"}, want: true,
			change: func(r *v1alpha1.Rollout) {
				r.Spec.Strategy.Canary.TrafficRouting.Plugins[gatewayapi.Type] = []byte(`{"httpRoute":"web","safePromotion":false}`)
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"))
				endpoints(api, "web-canary", "10.0.0.2", "10.0.0.3")
				endpoints(api, "web-stable", test.stable...)
				router, rollout := watching(t, api), routertest.Rollout(gatewayapi.Type, config)
				rollout.Spec.Replicas = new(int32(2))
				if err := router.SetWeight(deadlined(t), rollout, test.weight, nil); err != nil {
					t.Fatal(err)
				}
				if test.change != nil {
					test.change(rollout)
				}
				begin := time.Now()
				err := router.UpdateHash(deadlined(t), rollout, "new", "new", nil)
				if took := time.Since(begin); (err == nil) != test.want || took > 2*time.Second || test.want && took > 0 {
					t.Errorf("UpdateHash: %v after %v; want success: %v", err, took, test.want)
				}
			})
		})
	}
}

func TestSecondRolloutWithTheSameServices(t *testing.T) {
	t.Parallel()
	owner := func(uid, config string) *v1alpha1.Rollout {
		rollout := routertest.Rollout(gatewayapi.Type, config)
		rollout.TypeMeta = metav1.TypeMeta{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout"}
		rollout.Name, rollout.UID = "api", "uid-of-api"
		if uid != "" {
			rollout.UID = "another"
		}
		return rollout
	}
	tests := map[string]struct {
		first any // what the API server says of the first Rollout
		want  string
	}{
		"the first is there":             {owner("", config), `rollout "shop/api" already uses "web-stable", "web-canary"`},
		"the first is gone":              {nil, ""},
		"the first has a successor":      {owner("another", config), ""},
		"the first uses other routes":    {owner("", `{"httpRoute":"other"}`), ""},
		"the first may not be looked up": {routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{Resource: "rollouts"}, "api", errors.New("no rule"))), "another Rollout"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewRoutesServer(t, newest(), httpRoute("web"))
			router := newRouter(api)
			if err := router.SetWeight(t.Context(), owner("", config), 20, nil); err != nil {
				t.Fatal(err)
			}
			if test.first != nil {
				api.PutOther("/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/api", test.first)
			}
			err := router.SetWeight(t.Context(), routertest.Rollout(gatewayapi.Type, config), 50, nil)
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
			if want := map[bool]string{true: "50/50", false: "80/20"}[err == nil]; weights(api, "httproutes", "web") != want {
				t.Errorf("weights %s, want %s", weights(api, "httproutes", "web"), want)
			}
			if writes := len(api.Requests(http.MethodPut, "")); err != nil && writes > 1 {
				t.Errorf("%d writes", writes)
			}
		})
	}
}
