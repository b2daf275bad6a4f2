package gatewayapi_test

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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// config references the HTTPRoute web.
const config = `{"httpRoute":"web"}`

// newest returns the schema of a cluster with a new release of the Gateway API.
func newest() routertest.Schema {
	return routertest.Schema{Version: "v1", HasRuleNames: true, HasMirrorPercent: true}
}

// httpRoute returns the HTTPRoute shop/<name> with both Services of routertest.Rollout, without weights.
func httpRoute(name string) string { return routeOf("HTTPRoute", name) }

func routeOf(kind, name string) string {
	return fmt.Sprintf(`{apiVersion: gateway.networking.k8s.io/v1, kind: %s, metadata: {namespace: shop, name: %s, labels: {app: web}}, spec: {parentRefs: [{name: gateway}],
  rules: [{backendRefs: [{name: web-stable, port: 80}, {name: web-canary, port: 80}]}]}}`, kind, name)
}

// newRouter returns a router on the API server, without a watch.
func newRouter(api *routertest.RoutesServer) *gatewayapi.Router {
	client := gatewayapi.NewClient(func() (*rest.Config, error) { return api.Config(), nil })
	return gatewayapi.New(client, gatewayapi.AllNamespaces(), slog.New(slog.DiscardHandler))
}

// watching returns a router with a watch, for tests in a synctest bubble.
func watching(t *testing.T, api *routertest.RoutesServer) *gatewayapi.Router {
	t.Helper()
	client, log := gatewayapi.NewClient(func() (*rest.Config, error) { return api.Config(), nil }),
		slog.New(slog.DiscardHandler)
	go client.Watch(t.Context(), log)
	return gatewayapi.New(client, gatewayapi.AllNamespaces(), log)
}

// deadlined returns a context with the deadline of the controller's calls.
func deadlined(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// weights returns the weights in the first rule of a route with a traffic split, as stable/canary.
func weights(api *routertest.RoutesServer, resource, name string) string {
	rules, _, _ := unstructured.NestedSlice(api.Object(resource, "shop", name), "spec", "rules")
	for _, rule := range rules {
		backends, _, _ := unstructured.NestedSlice(rule.(map[string]any), "backendRefs")
		if len(backends) == 2 {
			return fmt.Sprintf("%v/%v", backends[0].(map[string]any)["weight"], backends[1].(map[string]any)["weight"])
		}
	}
	return ""
}

// rules counts the rules of the route shop/web.
func rules(api *routertest.RoutesServer) int {
	rules, _, _ := unstructured.NestedSlice(api.Object("httproutes", "shop", "web"), "spec", "rules")
	return len(rules)
}

// withHeaderRoute returns routertest's Rollout at its first step, which sets the header route qa.
func withHeaderRoute() *v1alpha1.Rollout {
	rollout := routertest.Rollout(gatewayapi.Type, config)
	rollout.Annotations = map[string]string{"rollout.argoproj.io/revision": "2"}
	rollout.Status.StableRS, rollout.Status.CurrentPodHash = "old", "new"
	canary := rollout.Spec.Strategy.Canary
	canary.TrafficRouting.ManagedRoutes = []v1alpha1.MangedRoutes{{Name: "qa"}}
	canary.Steps = []v1alpha1.CanaryStep{{SetHeaderRoute: &v1alpha1.SetHeaderRoute{
		Name: "qa", Match: []v1alpha1.HeaderRoutingMatch{{
			HeaderName:  "role",
			HeaderValue: &v1alpha1.StringMatch{Exact: "qa"},
		}},
	}}}
	return rollout
}

func TestWeightsOfARollout(t *testing.T) {
	t.Parallel()
	pingPong := func(stable v1alpha1.PingPongType) func(*v1alpha1.Rollout) {
		return func(rollout *v1alpha1.Rollout) {
			canary := rollout.Spec.Strategy.Canary
			canary.StableService, canary.CanaryService = "", ""
			canary.PingPong = &v1alpha1.PingPongSpec{PingService: "web-stable", PongService: "web-canary"}
			rollout.Status.Canary.StablePingPong = stable
		}
	}
	tests := map[string]struct {
		rollout func(*v1alpha1.Rollout)
		weight  int32
		want    string // of web-stable and web-canary
	}{
		"a hundredth":               {weight: 1, want: "99/1"},
		"everything":                {weight: 100, want: "0/100"},
		"ping-pong, ping is stable": {rollout: pingPong(v1alpha1.PPPing), weight: 20, want: "80/20"},
		"ping-pong, pong is stable": {rollout: pingPong(v1alpha1.PPPong), weight: 20, want: "20/80"},
		"ping-pong at rest":         {rollout: pingPong(v1alpha1.PPPong), weight: 0, want: "0/100"},
		"a finer scale": {weight: 1, want: "999/1", rollout: func(r *v1alpha1.Rollout) {
			r.Spec.Strategy.Canary.TrafficRouting.MaxTrafficWeight = new(int32(1000))
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewRoutesServer(t, newest(), httpRoute("web"))
			api.Accept("httproutes", "shop", "web", true)
			router, rollout := newRouter(api), routertest.Rollout(gatewayapi.Type, config)
			if test.rollout != nil {
				test.rollout(rollout)
			}
			if err := router.SetWeight(t.Context(), rollout, test.weight, nil); err != nil ||
				weights(api, "httproutes", "web") != test.want {
				t.Errorf("%v; weights %s, want %s", err, weights(api, "httproutes", "web"), test.want)
			}
			api.Accept("httproutes", "shop", "web", true)
			if verified, err := router.VerifyWeight(t.Context(), rollout, test.weight, nil); err != nil || !verified {
				t.Errorf("VerifyWeight after it: %v, %v; want true", verified, err)
			}
		})
	}
}

// TestRollbackIsLimitedToReadyPods: the controller has skipped the steps and requests the last weight for a canary of
// which one of four Pods is ready.
func TestRollbackIsLimitedToReadyPods(t *testing.T) {
	t.Parallel()
	for given, want := range map[string][2]string{
		`{"httpRoute":"web"}`:                                {"75/25", "50/50"},
		`{"httpRoute":"web","limitWeightToReadyPods":true}`:  {"75/25", "50/50"},
		`{"httpRoute":"web","limitWeightToReadyPods":false}`: {"20/80", "20/80"},
	} {
		api := routertest.NewRoutesServer(t, newest(), httpRoute("web"))
		router, rollout := newRouter(api), withHeaderRoute()
		rollout.Spec.Strategy.Canary.TrafficRouting.Plugins[gatewayapi.Type] = []byte(given)
		rollout.Spec.Strategy.Canary.Steps = []v1alpha1.CanaryStep{{SetWeight: new(int32(80))}}
		rollout.Status.CurrentStepIndex, rollout.Spec.Replicas = new(int32(1)), new(int32(4))
		for i, addresses := range [][]string{{"10.0.0.2"}, {"10.0.0.2", "10.0.0.3"}} {
			endpoints(api, "web-canary", addresses...)
			if err := router.SetWeight(t.Context(), rollout, 80, nil); err != nil ||
				weights(api, "httproutes", "web") != want[i] {
				t.Errorf("%s: %v; weights %s, want %s", given, err, weights(api, "httproutes", "web"), want[i])
			}
			api.Accept("httproutes", "shop", "web", true)
			verified, err := router.VerifyWeight(t.Context(), rollout, 80, nil)
			if isComplete := want[i] == "20/80"; err != nil || verified != isComplete {
				t.Errorf("%s: VerifyWeight: %v, %v; want %v", given, verified, err, isComplete)
			}
		}
	}
}

func TestSetWeightEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	api := routertest.NewRoutesServer(t, newest(), httpRoute("web"))
	api.Fail(api.Hang)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) //testbounds:allow it is there to expire
	defer cancel()
	err := newRouter(api).SetWeight(ctx, routertest.Rollout(gatewayapi.Type, config), 20, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want the deadline's", err)
	}
}

func TestSetWeightRetriesPassingErrors(t *testing.T) {
	t.Parallel()
	for name, faults := range routertest.PassingFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewRoutesServer(t, newest(), httpRoute("web"))
			api.Fail(faults...)
			if err := newRouter(api).SetWeight(t.Context(), routertest.Rollout(gatewayapi.Type, config), 20, nil); err != nil {
				t.Fatal(err)
			}
			if got := weights(api, "httproutes", "web"); got != "80/20" {
				t.Errorf("weights %s", got)
			}
		})
	}
}

func TestNothingIsWrittenUnlessEveryRouteIsValid(t *testing.T) {
	t.Parallel()
	unfit := strings.ReplaceAll(httpRoute("unfit"), "web-canary", "other")
	api := routertest.NewRoutesServer(t, newest(), httpRoute("web"), unfit)
	rollout := routertest.Rollout(gatewayapi.Type, `{"httpRoutes":[{"name":"web"},{"name":"unfit"},{"name":"missing"}],"tcpRoute":"gone"}`)
	err := newRouter(api).SetWeight(t.Context(), rollout, 20, nil)
	for _, want := range []string{
		`HTTPRoute "shop/unfit" of rollout "shop/web": no rule has both Services`,
		`; HTTPRoute "shop/missing" of rollout "shop/web": httproutes.gateway.networking.k8s.io "missing" not found: ` +
			`create it, or correct ` +
			`spec.strategy.canary.trafficRouting.plugins["argoproj-labs/gatewayAPI"].httpRoutes[2]`,
		`; TCPRoute "shop/gone" of rollout "shop/web": tcproutes.gateway.networking.k8s.io "gone" not found: create it, or ` +
			`correct ` +
			`spec.strategy.canary.trafficRouting.plugins["argoproj-labs/gatewayAPI"].tcpRoute`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is\n%v, want in it\n%s", err, want)
		}
	}
	if writes := api.Requests(http.MethodPut, ""); len(writes) > 0 {
		t.Errorf("%d writes", len(writes))
	}
}

func TestMissingRoute(t *testing.T) {
	t.Parallel()
	router, rollout := newRouter(routertest.NewRoutesServer(t, newest())), routertest.Rollout(gatewayapi.Type, config)
	if err := errors.Join(router.SetWeight(t.Context(), rollout, 0, nil),
		router.RemoveManagedRoutes(t.Context(), rollout)); err != nil {
		t.Errorf("nothing to undo: %v", err)
	}
	if verified, err := router.VerifyWeight(t.Context(), rollout, 0, nil); err != nil || !verified {
		t.Errorf("VerifyWeight(0): %v, %v; want true", verified, err)
	}
	if err := router.SetWeight(t.Context(), rollout, 20, nil); !apierrors.IsNotFound(err) {
		t.Errorf("SetWeight(20): %v; want not found", err)
	}
	if verified, err := router.VerifyWeight(t.Context(), rollout, 20, nil); err != nil || verified {
		t.Errorf("VerifyWeight(20): %v, %v; want false without an error", verified, err)
	}
	if err := router.SetHeaderRoute(t.Context(), withHeaderRoute(),
		withHeaderRoute().Spec.Strategy.Canary.Steps[0].SetHeaderRoute); !apierrors.IsNotFound(err) {
		t.Errorf("SetHeaderRoute: %v; want not found", err)
	}
}

func TestManagedRoutesAreRestoredUnlessRemovedInThisReconcile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"))
		router, rollout := newRouter(api), withHeaderRoute()
		expect := func(when string, want int, errs ...error) {
			t.Helper()
			if err := errors.Join(errs...); err != nil || rules(api) != want {
				t.Errorf("%s: %v; %d rules, want %d", when, err, rules(api), want)
			}
		}
		verify := func() error {
			_, err := router.VerifyWeight(deadlined(t), rollout, 0, nil)
			return err
		}
		step := rollout.Spec.Strategy.Canary.Steps[0].SetHeaderRoute
		expect("the step", 2, router.SetHeaderRoute(deadlined(t), rollout, step),
			router.SetWeight(deadlined(t), rollout, 0, nil), verify())
		expect("the canary has no Pod: removed, and not set again", 1, router.RemoveManagedRoutes(deadlined(t), rollout),
			router.SetHeaderRoute(deadlined(t), rollout, step), router.SetWeight(deadlined(t), rollout, 0, nil), verify())
		expect("the canary has Pods again", 2, router.SetWeight(deadlined(t), rollout, 0, nil), verify())
		rollout.Status.Abort = true
		expect("aborted: removed, although the current step is the first again", 1,
			router.RemoveManagedRoutes(deadlined(t), rollout),
			router.SetHeaderRoute(deadlined(t), rollout, step), router.SetWeight(deadlined(t), rollout, 0, nil), verify())
		expect("the reconcile after", 1, router.SetHeaderRoute(deadlined(t), rollout, step),
			router.SetWeight(deadlined(t), rollout, 0, nil))
	})
}

func TestRemoveManagedRoutesKeepsTheWeights(t *testing.T) {
	t.Parallel()
	api := routertest.NewRoutesServer(t, newest(), httpRoute("web"))
	router, rollout := newRouter(api), withHeaderRoute()
	err := errors.Join(router.SetWeight(t.Context(), rollout, 20, nil), router.RemoveManagedRoutes(t.Context(), rollout))
	if err != nil || weights(api, "httproutes", "web") != "80/20" || rules(api) != 1 {
		t.Errorf("%v; weights %s, %d rules", err, weights(api, "httproutes", "web"), rules(api))
	}
}

func TestHeaderRouteNeedsARouteThatAcceptsIt(t *testing.T) {
	t.Parallel()
	api := routertest.NewRoutesServer(t, newest(), httpRoute("web"))
	rollout := withHeaderRoute()
	rollout.Spec.Strategy.Canary.TrafficRouting.Plugins[gatewayapi.Type] = []byte(`{"httpRoutes":[{"name":"web"}]}`)
	err := newRouter(api).SetHeaderRoute(t.Context(), rollout, rollout.Spec.Strategy.Canary.Steps[0].SetHeaderRoute)
	const want = `rollout "shop/web": no route accepts header or mirror routes: add useHeaderRoutes: true next to the ` +
		`name of an HTTPRoute or GRPCRoute in ` +
		`spec.strategy.canary.trafficRouting.plugins["argoproj-labs/gatewayAPI"], or remove the step setHeaderRoute from ` +
		`spec.strategy.canary.steps`
	if err == nil || err.Error() != want {
		t.Errorf("error is\n%v, want\n%s", err, want)
	}
	const see = "; see https://github.com/kedify/argo-rollouts-plugin/blob/main/docs/reference/findings.md#invalidtrafficrouting"
	if events := api.Events(); len(events) != 1 || events[0].Message != want+see {
		t.Errorf("events: %+v", events)
	}
}
