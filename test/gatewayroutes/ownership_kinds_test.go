package gatewayroutes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// authoredKind is a kind of route with a manifest of its author.
type authoredKind struct {
	kind   route.Kind
	config string
	// manifest returns the spec, without backends, of a version of the route. Its rule begins with rule.
	spec, rule func(version int) string
}

// authoredKinds returns the kinds of routes except HTTPRoute.
func authoredKinds() []authoredKind {
	fixed := func(text string) func(int) string { return func(int) string { return text } }
	hostnames := func(version int) string { return fmt.Sprintf("hostnames: [v%d.test], ", version) }
	section := func(version int) string {
		return fmt.Sprintf("parentRefs: [{name: gateway, sectionName: v%d}], ", version)
	}
	return []authoredKind{
		{route.GRPCRoute, `{"grpcRoute":"web"}`, fixed(""), func(version int) string {
			return fmt.Sprintf("matches: [{method: {type: Exact, service: shop.V%d}}], ", version)
		}},
		{route.TLSRoute, `{"tlsRoute":"web"}`, hostnames, fixed("")},
		{route.TCPRoute, `{"tcpRoute":"web"}`, section, fixed("")},
		{route.UDPRoute, `{"udpRoute":"web"}`, section, fixed("")},
	}
}

// path returns the path of the route.
func (k authoredKind) path() string {
	return "/apis/gateway.networking.k8s.io/v1/namespaces/shop/" + k.kind.Resource() + "/web"
}

// manifest returns a version of the route, with the weights of both Services, or without weights.
func (k authoredKind) manifest(version int, weights ...int) string {
	var backends []string
	for i, service := range []string{"web-stable", "web-canary"} {
		weight := ""
		if len(weights) > 0 {
			weight = fmt.Sprintf(", weight: %d", weights[i])
		}
		backends = append(backends, fmt.Sprintf("{name: %s, port: 80%s}", service, weight))
	}
	spec := k.spec(version)
	if !strings.Contains(spec, "parentRefs") {
		spec += "parentRefs: [{name: gateway}], "
	}
	return fmt.Sprintf("{apiVersion: gateway.networking.k8s.io/v1, kind: %s, metadata: {name: web, namespace: shop}, "+
		"spec: {%srules: [{%sbackendRefs: [%s]}]}}", k.kind, spec, k.rule(version), strings.Join(backends, ", "))
}

// checkKind compares the version and the weights of the first rule with want.
func (a author) checkKind(when string, version int, want string) {
	a.t.Helper()
	var live struct {
		Spec struct {
			Hostnames  []string
			ParentRefs []struct{ SectionName string }
			Rules      []struct {
				Matches     []struct{ Method struct{ Service string } }
				BackendRefs []struct{ Weight int }
			}
		}
	}
	text := encoded(a.t, a.live())
	err := json.Unmarshal(text, &live)
	spec, encodeErr := json.Marshal(live.Spec)
	if err := errors.Join(err, encodeErr); err != nil {
		a.t.Fatal(err)
	}
	if mark := fmt.Sprintf("v%d", version); !strings.Contains(strings.ToLower(string(spec)), mark) {
		a.t.Errorf("%s: the route is not %s: %s", when, mark, text)
	}
	backends := live.Spec.Rules[0].BackendRefs
	if got := fmt.Sprintf("%d:%d", backends[0].Weight, backends[1].Weight); got != want {
		a.t.Errorf("%s: weights %s, want %s", when, got, want)
	}
}

// startKinds starts an API server with all kinds of routes of the newest release, and a router.
func startKinds(t *testing.T) (*gatewayapi.Router, func(path string) author) {
	t.Helper()
	binaries, err := apiserver.FromEnvironment(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	newest := releases()[1]
	newest.kinds = []route.Kind{route.HTTPRoute, route.GRPCRoute, route.TLSRoute, route.TCPRoute, route.UDPRoute}
	plane, admin := start(t, binaries, newest)
	gateway := gatewayapi.New(gatewayapi.NewClient(adminConfig(plane)), gatewayapi.Namespaces{},
		slog.New(slog.DiscardHandler))
	return gateway, func(path string) author { return author{t, admin, path} }
}

// TestAuthorChangesKinds has the author of a route of each kind apply it before, during and after a canary.
func TestAuthorChangesKinds(t *testing.T) {
	gateway, authorOf := startKinds(t)
	for _, k := range authoredKinds() {
		t.Run(string(k.kind), func(t *testing.T) {
			a := authorOf(k.path())
			a.t = t
			a.mustApply("a new route", k.manifest(0, 100, 0))
			reconcile(t, gateway, k.config, 0)
			a.checkOwners("before the canary", rules, user)
			a.mustApply("before the canary", k.manifest(1, 100, 0))

			reconcile(t, gateway, k.config, 20)
			a.checkKind("in the canary", 1, "80:20")
			a.checkOwners("in the canary", rules, gatewayapi.FieldManager)
			a.conflicts("in the canary", k.manifest(2, 100, 0), gatewayapi.FieldManager, ".spec.rules")
			if err := a.apply(k.manifest(2, 100, 0), true); err != nil {
				t.Fatal(err)
			}
			a.checkKind("forced in the canary", 2, "100:0")
			reconcile(t, gateway, k.config, 20)
			a.checkKind("at the next reconcile", 2, "80:20")

			reconcile(t, gateway, k.config, 0)
			a.checkKind("after the canary", 2, "100:0")
			a.checkOwners("after the canary", rules)
			a.mustApply("after the canary", k.manifest(3, 100, 0))
			a.checkOwners("after the canary and an apply", rules, user)
			version := a.live()["metadata"].(map[string]any)["resourceVersion"]
			reconcile(t, gateway, k.config, 0)
			if now := a.live()["metadata"].(map[string]any)["resourceVersion"]; now != version {
				t.Error("a route at rest was written")
			}

			a.mustApply("without weights", k.manifest(3))
			a.checkKind("without weights", 3, "1:1")
			reconcile(t, gateway, k.config, 0)
			a.checkKind("without weights, at the next reconcile", 3, "100:0")
			a.checkOwners("without weights", rules)
			a.mustApply("without weights, once more", k.manifest(4))
		})
	}
}

// managed returns a Rollout at its last step, after those that set a header route and, if mirrors is true, a mirror
// route.
func managed(config string, mirrors bool) *v1alpha1.Rollout {
	rollout := routertest.Rollout(gatewayapi.Type, config)
	rollout.Annotations = map[string]string{"rollout.argoproj.io/revision": "2"}
	rollout.Status.StableRS, rollout.Status.CurrentPodHash = "old", "new"
	canary := rollout.Spec.Strategy.Canary
	canary.TrafficRouting.ManagedRoutes = []v1alpha1.MangedRoutes{{Name: "qa"}}
	canary.Steps = []v1alpha1.CanaryStep{{SetHeaderRoute: &v1alpha1.SetHeaderRoute{
		Name: "qa", Match: []v1alpha1.HeaderRoutingMatch{{
			HeaderName: "role", HeaderValue: &v1alpha1.StringMatch{Exact: "qa"},
		}},
	}}}
	if mirrors {
		canary.TrafficRouting.ManagedRoutes = append(canary.TrafficRouting.ManagedRoutes, v1alpha1.MangedRoutes{Name: "copy"})
		canary.Steps = append(canary.Steps, v1alpha1.CanaryStep{SetMirrorRoute: &v1alpha1.SetMirrorRoute{
			Name: "copy", Percentage: new(int32(10)),
			Match: []v1alpha1.RouteMatch{{Path: &v1alpha1.StringMatch{Prefix: "/"}}},
		}})
	}
	rollout.Status.CurrentStepIndex = new(int32(len(canary.Steps) - 1))
	return rollout
}

// playSteps calls the router as the controller does at the last step of a Rollout.
func playSteps(t *testing.T, gateway *gatewayapi.Router, rollout *v1alpha1.Rollout, weight int32) {
	t.Helper()
	var failed error
	for _, current := range rollout.Spec.Strategy.Canary.Steps {
		if current.SetHeaderRoute != nil {
			failed = errors.Join(failed, gateway.SetHeaderRoute(t.Context(), rollout, current.SetHeaderRoute))
		}
		if current.SetMirrorRoute != nil {
			failed = errors.Join(failed, gateway.SetMirrorRoute(t.Context(), rollout, current.SetMirrorRoute))
		}
	}
	if err := errors.Join(failed, gateway.SetWeight(t.Context(), rollout, weight, nil)); err != nil {
		t.Fatal(err)
	}
	endReconcile(t, gateway, rollout, weight)
}

// endReconcile calls VerifyWeight, the last call of a reconcile. No Gateway has accepted the route, so the result does
// not matter.
func endReconcile(t *testing.T, gateway *gatewayapi.Router, rollout *v1alpha1.Rollout, weight int32) {
	t.Helper()
	isVerified, err := gateway.VerifyWeight(t.Context(), rollout, weight, nil)
	t.Logf("weight %d: verified %t, %v", weight, isVerified, err)
}

// TestAuthorChangesManagedRules has the author of a route apply it while rules of header and mirror routes are
// active: a conflict, whose forced version loses these rules until the next reconcile. Nothing of them is left
// afterwards.
func TestAuthorChangesManagedRules(t *testing.T) {
	gateway, authorOf := startKinds(t)
	web := authoredKind{
		route.HTTPRoute, `{"httpRoute":"web"}`, func(int) string { return "" }, func(version int) string {
			return fmt.Sprintf("matches: [{path: {type: PathPrefix, value: /v%d}}], ", version)
		},
	}
	for _, k := range []authoredKind{web, authoredKinds()[0]} {
		t.Run(string(k.kind), func(t *testing.T) {
			a := authorOf(k.path())
			a.t = t
			count := func(when string, want func(int) bool) {
				t.Helper()
				found, _ := a.live()["spec"].(map[string]any)["rules"].([]any)
				if !want(len(found)) {
					t.Errorf("%s: %d rules: %s", when, len(found), encoded(t, a.live()))
				}
			}
			one, several := func(n int) bool { return n == 1 }, func(n int) bool { return n > 1 }
			rollout := managed(k.config, k.kind == route.HTTPRoute)
			a.mustApply("a new route", k.manifest(0, 100, 0))
			for round := range 2 {
				first, second := 2*round+1, 2*round+2
				playSteps(t, gateway, rollout, 20)
				count("in the canary", several)
				a.checkOwners("in the canary", rules, gatewayapi.FieldManager)
				a.conflicts("in the canary", k.manifest(first, 100, 0), gatewayapi.FieldManager, ".spec.rules")
				if err := a.apply(k.manifest(first, 100, 0), true); err != nil {
					t.Fatal(err)
				}
				count("forced in the canary", one)
				playSteps(t, gateway, rollout, 20)
				count("at the next reconcile", several)

				ended := routertest.Rollout(gatewayapi.Type, k.config)
				if err := errors.Join(gateway.RemoveManagedRoutes(t.Context(), ended),
					gateway.SetWeight(t.Context(), ended, 0, nil)); err != nil {
					t.Fatal(err)
				}
				endReconcile(t, gateway, ended, 0)
				if err := gateway.SetWeight(t.Context(), ended, 0, nil); err != nil { // the next reconcile
					t.Fatal(err)
				}
				count("after the canary", one)
				a.checkOwners("after the canary", rules)
				a.mustApply("after the canary", k.manifest(second, 100, 0))
				a.checkOwners("after the canary and an apply", rules, user)
			}
		})
	}
}
