package gatewayroutes_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// bySide are the sessions that the router writes, as the API server stores them.
const bySide = `{"absoluteTimeout":"1h","cookieConfig":{"lifetimeType":"Permanent"},"sessionName":"side","type":"Cookie"}`

// stickyRoute returns the author's route of a kind, with further fields of its only rule.
func stickyRoute(kind route.Kind, path, further string) string {
	match := "path: {type: PathPrefix, value: " + path + "}"
	if kind == route.GRPCRoute {
		match = "method: {service: " + strings.TrimPrefix(path, "/") + "}"
	}
	return fmt.Sprintf("{apiVersion: gateway.networking.k8s.io/v1, kind: %s, metadata: {name: web, namespace: shop}, "+
		"spec: {parentRefs: [{name: gateway}], rules: [{matches: [{%s}], %s backendRefs: [{name: web-stable, port: 80, "+
		"weight: 100}, {name: web-canary, port: 80, weight: 0}]}]}}", kind, match, further)
}

// stickyAuthor returns the author of the route of a kind, and the configuration of a Rollout with stickiness.
func stickyAuthor(t *testing.T, admin *rest.RESTClient, kind route.Kind) (author, string) {
	t.Helper()
	path := strings.Replace(routePath, route.HTTPRoute.Resource(), kind.Resource(), 1)
	key := map[route.Kind]string{route.HTTPRoute: "httpRoute", route.GRPCRoute: "grpcRoute"}[kind]
	return author{t, admin, path}, `{"` + key + `":"web","stickiness":{"cookie":{"name":"side","maxAge":3600}}}`
}

// newGateway returns the router without a watch.
func newGateway(plane *apiserver.ControlPlane) *gatewayapi.Router {
	return gatewayapi.New(gatewayapi.NewClient(adminConfig(plane)), gatewayapi.Namespaces{}, slog.New(slog.DiscardHandler))
}

// checkSplit compares the weights and the sessions of the only rule with want.
func (a author) checkSplit(when string, canary int, want string) {
	a.t.Helper()
	var read struct {
		Spec struct {
			Rules []struct {
				SessionPersistence json.RawMessage
				BackendRefs        []struct{ Weight int }
			}
		}
	}
	if err := json.Unmarshal(encoded(a.t, a.live()), &read); err != nil {
		a.t.Fatal(err)
	}
	rule := read.Spec.Rules[0]
	got := fmt.Sprintf("%d:%d %s", rule.BackendRefs[0].Weight, rule.BackendRefs[1].Weight, rule.SessionPersistence)
	if text := fmt.Sprintf("%d:%d %s", 100-canary, canary, want); got != text || len(read.Spec.Rules) != 1 {
		a.t.Errorf("%s: the rule has %s, want %s", when, got, text)
	}
}

// version returns the resource version of the route.
func (a author) version() any { return a.live()["metadata"].(map[string]any)["resourceVersion"] }

// refuses calls SetWeight, which must return an error with a text and write nothing.
func (a author) refuses(when string, r *gatewayapi.Router, config string, weight int32, text string) {
	a.t.Helper()
	before := a.version()
	err := r.SetWeight(a.t.Context(), routertest.Rollout(r.Type(), config), weight, nil)
	if err == nil || !strings.Contains(err.Error(), text) {
		a.t.Errorf("%s: error is\n%v, want in it\n%s", when, err, text)
	}
	if a.version() != before {
		a.t.Errorf("%s: the route was written", when)
	}
}

// TestSessions writes the sessions of canaries to routes of a real API server: they are stored as they were written,
// with the weights, and are removed at the end. Between canaries the router owns no field.
func TestSessions(t *testing.T) {
	plane, admin := startExperimental(t)
	for _, kind := range []route.Kind{route.HTTPRoute, route.GRPCRoute} {
		t.Run(string(kind), func(t *testing.T) {
			gateway := newGateway(plane)
			a, config := stickyAuthor(t, admin, kind)
			a.mustApply("a new route", stickyRoute(kind, "/a", ""))
			step := func(when string, weight int32, aborted bool, sessions string) {
				t.Helper()
				rollout := routertest.Rollout(gatewayapi.Type, config)
				rollout.Status.Abort = aborted
				if err := gateway.SetWeight(t.Context(), rollout, weight, nil); err != nil {
					t.Fatalf("%s: %v", when, err)
				}
				a.checkSplit(when, int(weight), sessions)
				before := a.version()
				if err := gateway.SetWeight(t.Context(), rollout, weight, nil); err != nil || a.version() != before {
					t.Errorf("%s: the same call again: %v, version %v, want %v", when, err, a.version(), before)
				}
			}
			step("before the canary", 0, false, "")
			a.checkOwners("before the canary", rules, user)
			step("the first weight", 20, false, bySide)
			a.checkOwners("in the canary", rules, gatewayapi.FieldManager)
			step("the second weight", 50, false, bySide)
			step("the abort", 0, true, "")
			a.checkOwners("after the abort", rules)
			a.mustApply("after the abort", stickyRoute(kind, "/b", ""))
			step("another canary", 20, false, bySide)
			step("its second weight", 50, false, bySide)
			step("the full weight", 100, false, "")
			step("the promotion", 0, false, "")
			a.checkOwners("after the promotion", rules)
			a.mustApply("after the promotion", stickyRoute(kind, "/c", ""))
		})
	}
}

// TestAuthorChangesSessions has an author with server-side apply who knows nothing of the sessions, or has some.
func TestAuthorChangesSessions(t *testing.T) {
	plane, admin := startExperimental(t)
	gateway := newGateway(plane)
	a, config := stickyAuthor(t, admin, route.HTTPRoute)
	const mine, own = `sessionPersistence: {sessionName: mine},`, `{"sessionName":"mine","type":"Cookie"}`
	const conflict = "spec.rules[0].sessionPersistence is set"

	a.mustApply("a new route with sessions", stickyRoute(route.HTTPRoute, "/a", mine))
	reconcile(t, gateway, config, 0)
	a.refuses("sessions of the author", gateway, config, 20, conflict)
	a.checkSplit("sessions of the author", 0, own)

	a.mustApply("without sessions", stickyRoute(route.HTTPRoute, "/a", ""))
	reconcile(t, gateway, config, 20)
	a.checkSplit("in the canary", 20, bySide)
	a.conflicts("in the canary", stickyRoute(route.HTTPRoute, "/b", ""), gatewayapi.FieldManager, ".spec.rules")
	if err := a.apply(stickyRoute(route.HTTPRoute, "/b", ""), true); err != nil {
		t.Fatal(err)
	}
	a.checkSplit("forced in the canary", 0, "")
	reconcile(t, gateway, config, 20)
	a.checkSplit("at the next reconcile", 20, bySide)

	if err := a.apply(stickyRoute(route.HTTPRoute, "/b", mine), true); err != nil {
		t.Fatal(err)
	}
	a.refuses("sessions forced in the canary", gateway, config, 20, conflict)
	aborted := routertest.Rollout(gatewayapi.Type, config)
	aborted.Status.Abort = true
	if err := gateway.SetWeight(t.Context(), aborted, 0, nil); err != nil {
		t.Fatal(err)
	}
	a.checkSplit("the abort", 0, own)
	a.checkOwners("after the abort", rules, user)
}

// TestStandardChannelHasNoSessions: the standard channel's CRD would drop the field without an error. The router
// raises no weight, whether it has read the schema before or after the CRD was replaced. Other weights are written.
func TestStandardChannelHasNoSessions(t *testing.T) {
	const missing = `HTTPRoute "shop/web" of rollout "shop/web": not supported by this route: the CRD of HTTPRoute in the ` +
		"cluster has no spec.rules[].sessionPersistence"
	t.Run("installed", func(t *testing.T) {
		plane, admin := startNewest(t)
		a, config := stickyAuthor(t, admin, route.HTTPRoute)
		a.mustApply("a new route", stickyRoute(route.HTTPRoute, "/a", ""))
		gateway := newGateway(plane)
		reconcile(t, gateway, config, 0)
		a.refuses("in the standard channel", gateway, config, 20, missing)
	})
	t.Run("installed in the middle of a canary", func(t *testing.T) {
		plane, admin := startExperimental(t)
		a, config := stickyAuthor(t, admin, route.HTTPRoute)
		a.mustApply("a new route", stickyRoute(route.HTTPRoute, "/a", ""))
		gateway := newGateway(plane)
		reconcile(t, gateway, config, 20)
		a.checkSplit("in the experimental channel", 20, bySide)
		if err := apiserver.Apply(t.Context(), admin, "default", releases()[1].crd(t, route.HTTPRoute)); err != nil {
			t.Fatal(err)
		}
		await.True(t, "the API server to drop the sessions", func() bool {
			return !slices.Contains(strings.Split(string(encoded(t, a.live())), `"`), "sessionPersistence")
		})
		before := a.version()
		reconcile(t, gateway, config, 20)
		a.checkSplit("the same weight after the CRD was replaced", 20, "")
		if a.version() != before {
			t.Error("the same weight was written")
		}
		a.refuses("after the CRD was replaced", gateway, config, 50, missing)
		a.refuses("with the new schema", newGateway(plane), config, 50, missing)
		verified, err := gateway.VerifyWeight(t.Context(), routertest.Rollout(gatewayapi.Type, config), 50, nil)
		if verified || err != nil {
			t.Errorf("VerifyWeight: %v, %v", verified, err)
		}
		reconcile(t, gateway, config, 0)
		a.checkSplit("the end of the canary", 0, "")
		a.checkOwners("the end of the canary", rules)
	})
}

// startExperimental starts an API server with the experimental channel of the newest release.
func startExperimental(t *testing.T) (*apiserver.ControlPlane, *rest.RESTClient) {
	t.Helper()
	binaries, err := apiserver.FromEnvironment(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, binaries, releases()[2])
}
