package gatewayapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

const (
	// unreported is stickyConfig for a Gateway without status, so that a written weight is verified.
	unreported    = `{"httpRoute":"web","verifyRouteStatus":false,"stickiness":{"cookie":{"name":"side"}}}`
	invalidSticky = `{"httpRoute":"web","verifyRouteStatus":false,"stickiness":{"cookie":{"sameSite":"Lax"}}}`
	bySideNew     = `{"sessionName":"side-new","type":"Cookie"}`
	byAuthor      = `{"sessionName":"mine","type":"Cookie"}`
)

// obstacle is a change in the middle of a canary that keeps the router from writing its sessions.
type obstacle struct {
	cause    func(*routertest.RoutesServer, *v1alpha1.Rollout)
	sessions string // of the route from then on
	want     string // part of the error
	isLate   bool   // only the write shows it, so it is not an Event, too
}

// obstacles returns changes by all who can make them.
func obstacles() map[string]obstacle {
	set := func(api *routertest.RoutesServer, value any) {
		api.Change("httproutes", "shop", "web", func(route map[string]any) {
			rule := route["spec"].(map[string]any)["rules"].([]any)[0].(map[string]any)
			delete(rule, "sessionPersistence")
			if value != nil {
				rule["sessionPersistence"] = value
			}
		})
	}
	return map[string]obstacle{
		"the author adds sessions": {func(api *routertest.RoutesServer, _ *v1alpha1.Rollout) {
			set(api, map[string]any{"sessionName": "mine", "type": "Cookie"})
		}, byAuthor, "spec.rules[0].sessionPersistence is set", false},
		"the standard channel is installed": {func(api *routertest.RoutesServer, _ *v1alpha1.Rollout) {
			api.Publish(newest())
			set(api, nil)
		}, "", "the CRD of HTTPRoute", false},
		"the standard channel, not published yet": {func(api *routertest.RoutesServer, _ *v1alpha1.Rollout) {
			api.DropSessions()
			set(api, nil)
		}, "", "the CRD of HTTPRoute", true},
		"the stickiness becomes invalid": {func(_ *routertest.RoutesServer, rollout *v1alpha1.Rollout) {
			configure(rollout, invalidSticky)
		}, bySideNew, ".stickiness.cookie.sameSite", false},
	}
}

// inStickyCanary returns a Rollout from the version old to new, and a server with its route at this weight.
func inStickyCanary(t *testing.T, weight int32) (*routertest.RoutesServer, *gatewayapi.Router, *v1alpha1.Rollout) {
	t.Helper()
	api := routertest.NewRoutesServer(t, experimental(), httpRoute("web"))
	router, rollout := newRouter(api), routertest.Rollout(gatewayapi.Type, unreported)
	rollout.Status.StableRS, rollout.Status.CurrentPodHash = "old", "new"
	if err := router.SetWeight(t.Context(), rollout, weight, nil); err != nil {
		t.Fatal(err)
	}
	if got := sessions(t, api, "httproutes", "web"); got != bySideNew {
		t.Fatalf("sessions %s, want %s", got, bySideNew)
	}
	return api, router, rollout
}

// checkCall calls SetWeight and VerifyWeight, and compares the route with want.
func checkCall(
	t *testing.T, api *routertest.RoutesServer, router *gatewayapi.Router, rollout *v1alpha1.Rollout, weight int32,
	want string, wantVerified bool,
) {
	t.Helper()
	if err := router.SetWeight(t.Context(), rollout, weight, nil); err != nil {
		t.Errorf("SetWeight(%d): %v", weight, err)
	}
	if got := weights(api, "httproutes", "web") + " " + sessions(t, api, "httproutes", "web"); got != want {
		t.Errorf("at %d the route has %s, want %s", weight, got, want)
	}
	if verified, err := router.VerifyWeight(t.Context(), rollout, weight, nil); err != nil || verified != wantVerified {
		t.Errorf("VerifyWeight(%d): %v, %v; want %v", weight, verified, err, wantVerified)
	}
}

// TestStickinessOfAnEndingCanary: on the way back to the stable version, in several steps, the sessions that are there
// stay until the canary has no weight, and nothing about sessions is an error.
func TestStickinessOfAnEndingCanary(t *testing.T) {
	t.Parallel()
	all := obstacles()
	all["nothing else"] = obstacle{
		func(*routertest.RoutesServer, *v1alpha1.Rollout) {}, bySideNew, "", false,
	}
	all["the stickiness is removed"] = obstacle{
		func(_ *routertest.RoutesServer, rollout *v1alpha1.Rollout) {
			configure(rollout, `{"httpRoute":"web","verifyRouteStatus":false}`)
		}, bySideNew, "", false,
	}
	for ending, change := range map[string]func(*v1alpha1.Rollout){
		"abort":    func(rollout *v1alpha1.Rollout) { rollout.Status.Abort = true },
		"rollback": func(rollout *v1alpha1.Rollout) { rollout.Status.CurrentPodHash = "old" },
	} {
		for name, problem := range all {
			t.Run(ending+"/"+name, func(t *testing.T) {
				t.Parallel()
				api, router, rollout := inStickyCanary(t, 50)
				problem.cause(api, rollout)
				change(rollout)
				checkCall(t, api, router, rollout, 30, "70/30 "+problem.sessions, true)
				if err := router.RemoveManagedRoutes(t.Context(), rollout); err != nil {
					t.Errorf("RemoveManagedRoutes: %v", err)
				}
				atRest := problem.sessions
				if atRest == bySideNew {
					atRest = ""
				}
				checkCall(t, api, router, rollout, 0, "100/0 "+atRest, true)
			})
		}
	}
}

// TestStickinessErrorsBlockOnlyHigherWeights: the controller evaluates analyses after SetWeight, so an error at the
// weight of the current step would keep a failing canary from being aborted.
func TestStickinessErrorsBlockOnlyHigherWeights(t *testing.T) {
	t.Parallel()
	for name, problem := range obstacles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, router, rollout := inStickyCanary(t, 20)
			problem.cause(api, rollout)
			checkCall(t, api, router, rollout, 20, "80/20 "+problem.sessions, false)
			err := router.SetWeight(t.Context(), rollout, 50, nil)
			if err == nil || !strings.Contains(err.Error(), problem.want) {
				t.Errorf("SetWeight(50): error is\n%v, want in it\n%s", err, problem.want)
			}
			if got := weights(api, "httproutes", "web"); got != "80/20" {
				t.Errorf("after the error the weights are %s", got)
			}
			checkCall(t, api, router, rollout, 10, "90/10 "+problem.sessions, false)
			if !problem.isLate && !strings.Contains(warnings(api), problem.want) {
				t.Errorf("no Event contains %q: %s", problem.want, warnings(api))
			}
		})
	}
}

// warnings returns the messages of all Events.
func warnings(api *routertest.RoutesServer) string {
	var messages []string
	for _, event := range api.Events() {
		messages = append(messages, event.Message)
	}
	return strings.Join(messages, "\n")
}

// TestInvalidStickinessOfAnAbort: an abort from a configuration that names a kind of route without sessions.
func TestInvalidStickinessOfAnAbort(t *testing.T) {
	t.Parallel()
	api := routertest.NewRoutesServer(t, experimental(), httpRoute("web"), routeOf("TCPRoute", "db"))
	router, rollout := newRouter(api), routertest.Rollout(gatewayapi.Type, unreported)
	if err := router.SetWeight(t.Context(), rollout, 20, nil); err != nil {
		t.Fatal(err)
	}
	configure(rollout, `{"httpRoute":"web","tcpRoute":"db","verifyRouteStatus":false,"stickiness":{"cookie":{"name":"side"}}}`)
	rollout.Status.Abort = true
	if err := router.RemoveManagedRoutes(t.Context(), rollout); err != nil {
		t.Errorf("RemoveManagedRoutes: %v", err)
	}
	checkCall(t, api, router, rollout, 0, "100/0 ", true)
	if got := weights(api, "tcproutes", "db"); got != "100/0" {
		t.Errorf("the weights of the TCPRoute are %s", got)
	}
}

// TestOwnerWithInvalidStickiness: a Rollout whose stickiness is invalid still owns the weights of its route.
func TestOwnerWithInvalidStickiness(t *testing.T) {
	t.Parallel()
	api, router, owner := inStickyCanary(t, 20)
	configure(owner, invalidSticky)
	owner.TypeMeta = metav1.TypeMeta{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout"}
	api.PutOther("/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/web", owner)
	other := routertest.Rollout(gatewayapi.Type, config)
	other.Name, other.UID = "other", "uid-of-other"
	before := len(api.Requests(http.MethodPut, ""))
	err := router.SetWeight(t.Context(), other, 10, nil)
	if err == nil || !strings.Contains(err.Error(), `rollout "shop/web" already uses`) {
		t.Errorf("error is %v, want one that names the owner", err)
	}
	if writes := len(api.Requests(http.MethodPut, "")) - before; writes != 0 {
		t.Errorf("%d writes, want none", writes)
	}
}

// TestSessionsOfTwoCanaries: a cookie of one canary does not count in the next. A header keeps its name, which clients
// have to know.
func TestSessionsOfTwoCanaries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ config, first, second string }{
		"a cookie": {unreported, bySideNew, `{"sessionName":"side-newer","type":"Cookie"}`},
		"a header": {
			`{"httpRoute":"web","verifyRouteStatus":false,"stickiness":{"sessionHeader":"x-session"}}`,
			`{"sessionName":"x-session","type":"Header"}`, `{"sessionName":"x-session","type":"Header"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewRoutesServer(t, experimental(), httpRoute("web"))
			router, rollout := newRouter(api), routertest.Rollout(gatewayapi.Type, test.config)
			rollout.Status.StableRS, rollout.Status.CurrentPodHash = "old", "new"
			checkCall(t, api, router, rollout, 20, "80/20 "+test.first, true)
			rollout.Status.StableRS = "new"
			checkCall(t, api, router, rollout, 0, "100/0 ", true)
			rollout.Status.CurrentPodHash = "newer"
			checkCall(t, api, router, rollout, 20, "80/20 "+test.second, true)
		})
	}
}
