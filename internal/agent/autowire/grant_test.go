package autowire_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// sharedTarget returns a target of the shared fleet.
func sharedTarget() autowire.Target {
	made := target("shop", "shop.test")
	made.IsShared = true
	return made
}

// newSharedFixture returns a fixture with a shared fleet and an old ReferenceGrant.
func newSharedFixture(t *testing.T, stored ...string) *fixture {
	t.Helper()
	w := newFixture(t, stored...)
	w.HasProxy, w.Shared.HasProxy = false, true
	w.Targets = []autowire.Target{sharedTarget()}
	w.Shared.Grants = []apis.ReferenceGrant{anyonesGrant(w.Now.Add(-time.Hour))}
	return w
}

// TestWireHTTPRouteToSharedFleet compares one complete HTTPRoute before, while and after it is wired, and its
// ReferenceGrant.
func TestWireHTTPRouteToSharedFleet(t *testing.T) {
	t.Parallel()
	original := strings.Replace(shopRoute, "name: web,", "name: web, namespace: team,", 1)
	original = strings.Replace(original, "[shop.test, www.test]", "[shop.test]", 1)
	original = strings.Replace(original, "{name: other, port: 80, weight: 10,", "{name: shop, port: 80, weight: 10,", 1)
	w := newSharedFixture(t, original)
	w.Shared.Grants = nil
	if found := w.converge(t); len(found.Changes) > 0 || found.Conditions["shop"].Reason != "NotGranted" {
		t.Fatalf("without a ReferenceGrant: %+v", found)
	}
	text, err := json.Marshal(w.Shared.Grants)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asYAML(t, canonicalJSON(t, `[{apiVersion: gateway.networking.k8s.io/v1beta1, kind: ReferenceGrant, metadata: {name: kedify-proxy-team, namespace: keda,
		labels: {app: kedify-proxy, app.kubernetes.io/managed-by: kedify-http-agent}, uid: uid, creationTimestamp: "2026-05-01T12:00:00Z"}, spec: {
		from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: team}], to: [{group: "", kind: Service, name: kedify-proxy}]}}]`)),
		asYAML(t, string(text))); diff != "" {
		t.Errorf("ReferenceGrants (-want +got):\n%s", diff)
	}
	if requeueAfter := w.plan(t).RequeueAfter; requeueAfter != 3*time.Second {
		t.Errorf("it looks again after %v", requeueAfter)
	}
	w.Now = w.Now.Add(3 * time.Second)
	found := w.converge(t)
	want := strings.Replace(original, "namespace: team, name: shop, port: 80, weight: 90", "namespace: keda, name: kedify-proxy, port: 8080, weight: 90", 1)
	want = strings.Replace(want, "{name: shop, port: 80, weight: 10,", "{name: kedify-proxy, namespace: keda, port: 8080, weight: 10,", 1)
	preconditions := `{"op":"test","path":"/spec/hostnames","value":["shop.test"]},` +
		`{"op":"test","path":"/spec/rules/1/matches","value":[{"future":"kept","path":{"type":"PathPrefix","value":"/"}}]},`
	want = strings.Replace(want, "team: a", `team: a, http.kedify.io/autowire-undo: '[`+preconditions+
		`{"op":"test","path":"/spec/rules/1/backendRefs/0/name","value":"kedify-proxy"},`+
		`{"op":"test","path":"/spec/rules/1/backendRefs/0/namespace","value":"keda"},`+
		`{"op":"replace","path":"/spec/rules/1/backendRefs/0/name","value":"shop"},`+
		`{"op":"remove","path":"/spec/rules/1/backendRefs/0/namespace","value":null},`+
		`{"op":"replace","path":"/spec/rules/1/backendRefs/0/port","value":80},`+preconditions+
		`{"op":"test","path":"/spec/rules/1/backendRefs/1/name","value":"kedify-proxy"},`+
		`{"op":"test","path":"/spec/rules/1/backendRefs/1/namespace","value":"keda"},`+
		`{"op":"replace","path":"/spec/rules/1/backendRefs/1/name","value":"shop"},`+
		`{"op":"add","path":"/spec/rules/1/backendRefs/1/namespace","value":"team"},`+
		`{"op":"replace","path":"/spec/rules/1/backendRefs/1/port","value":80},`+
		`{"op":"remove","path":"/metadata/annotations/http.kedify.io~1autowire-undo","value":null}]'`, 1)
	if diff := cmp.Diff(asYAML(t, canonicalJSON(t, want)), asYAML(t, w.stored[0])); diff != "" {
		t.Errorf("wired (-want +got):\n%s", diff)
	}
	if got := found.Changes[0].Message; !strings.HasPrefix(got, "backends for shop.test/ in namespace keda, ") {
		t.Errorf("Event %q", got)
	}
	if got := found.Conditions["shop"]; got.Status != "True" || got.Message != "HTTPRoute web, shop.test/ in namespace keda; HTTPRoute web, shop.test/ in namespace keda" {
		t.Errorf("condition %+v", got)
	}
	if diff := cmp.Diff(canonicalJSON(t, original), w.unwired(t)[0]); diff != "" {
		t.Errorf("unwired (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(canonicalJSON(t, original), patched(t, w.stored[0], annotation(t, w.stored[0], undo))); diff != "" {
		t.Errorf("unwired by the annotation (-want +got):\n%s", diff)
	}
}

// TestSharedFleetConditions has one blocker in each case, or none.
func TestSharedFleetConditions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		object string // the route for shop, if empty
		change func(w *fixture)
		says   string // the condition's reason, and a part of its message
	}{
		"nothing":                              {"", func(*fixture) {}, "Wired: HTTPRoute web, shop.test/ in namespace keda"},
		"an Ingress":                           {ingress("shop.test", "Prefix", "/", port80), func(*fixture) {}, "UnsupportedSetting: Ingress web, shop.test/: the shared fleet is in another namespace, which no Ingress can reference"},
		"HTTPRoutes only":                      {"", func(w *fixture) { w.Targets[0].Kinds = []trigger.AutowireKind{trigger.AutowireHTTPRoute} }, "Wired"},
		"no proxy":                             {"", func(w *fixture) { w.Shared.HasProxy = false }, "ProxyUnavailable: HTTPRoute web, shop.test/: Service kedify-proxy in namespace keda has no ready endpoint"},
		"proxies of its namespace":             {"", func(w *fixture) { w.Shared.HasProxy, w.HasProxy = false, true }, "ProxyUnavailable"},
		"not programmed":                       {"", func(w *fixture) { w.Targets[0].IsProgrammed = false }, "NotProgrammed"},
		"no grant":                             {"", func(w *fixture) { w.Shared.Grants = nil }, "NotGranted: HTTPRoute web, shop.test/: ReferenceGrant keda/kedify-proxy-team, which allows HTTPRoutes of namespace team to reference Service kedify-proxy, is missing"},
		"ReferenceGrant rejected":              {"", func(w *fixture) { w.Shared.Grants, w.Shared.GrantError = nil, "forbidden" }, "WriteRejected: HTTPRoute web, shop.test/: ReferenceGrant keda/kedify-proxy-team, which allows HTTPRoutes of namespace team to reference Service kedify-proxy, is missing, and the API server rejected the agent's write: forbidden"},
		"a new grant":                          {"", func(w *fixture) { w.Shared.Grants = []apis.ReferenceGrant{anyonesGrant(w.Now)} }, "NotGranted"},
		"ReferenceGrants unknown":              {"", func(w *fixture) { w.Shared.Grants, w.Shared.GrantsSynced = nil, false }, "NotGranted: HTTPRoute web, shop.test/: ReferenceGrants of namespace keda cannot be read"},
		"ReferenceGrant for another namespace": {"", func(w *fixture) { w.Shared.Grants[0].Spec.From[0].Namespace = "other" }, "NotGranted"},
		"ReferenceGrant for another kind":      {"", func(w *fixture) { w.Shared.Grants[0].Spec.From[0].Kind = "GRPCRoute" }, "NotGranted"},
		"ReferenceGrant to Secrets":            {"", func(w *fixture) { w.Shared.Grants[0].Spec.To[0].Kind = "Secret" }, "NotGranted"},
		"ReferenceGrant to another Service":    {"", func(w *fixture) { w.Shared.Grants[0].Spec.To[0].Name = new("cart") }, "NotGranted"},
		"namespace not watched":                {"", func(w *fixture) { w.Shared.Namespace = "" }, "UnsupportedSetting: HTTPRoute web, shop.test/: the agent does not watch the namespace of the shared fleet"},
		"two fleets": {"", func(w *fixture) {
			w.Targets = append(w.Targets, target("other", "shop.test"))
		}, `UnsupportedSetting: HTTPRoute web, shop.test/: HTTPScaledObjects "shop" and "other" match its requests`},
		"manual":                {route("shop.test", `backendRefs: [{name: kedify-proxy, namespace: keda, port: 8080}]`), func(*fixture) {}, "Wired: HTTPRoute web, shop.test/"},
		"another fleet, manual": {route("shop.test", `backendRefs: [{name: kedify-proxy, port: 8080}]`), func(*fixture) {}, "NoMatchingBackend"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := test.object
			if object == "" {
				object = route("shop.test", toShop)
			}
			w := newSharedFixture(t, object)
			test.change(w)
			condition := w.converge(t).Conditions["shop"]
			if says := condition.Reason + ": " + condition.Message; !strings.HasPrefix(says, test.says) {
				t.Errorf("condition %q, want %q", says, test.says)
			}
			if isWired := annotation(t, w.stored[0], undo) != ""; isWired != (condition.Reason == "Wired") && name != "manual" {
				t.Errorf("wired: %v\n%s", isWired, asYAML(t, w.stored[0]))
			}
			if diff := cmp.Diff(canonicalJSON(t, object), w.unwired(t)[0]); diff != "" {
				t.Errorf("unwired (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSharedFleetBecomesUnavailable removes requirements of a wired route.
func TestSharedFleetBecomesUnavailable(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change  func(w *fixture)
		isWired bool
	}{
		"its proxies":                            {func(w *fixture) { w.Shared.HasProxy = false }, false},
		"ReferenceGrant":                         {func(w *fixture) { w.Shared.Grants = nil }, true},
		"ReferenceGrant, permanently":            {func(w *fixture) { w.Shared.Grants, w.Shared.GrantError = nil, "forbidden" }, false},
		"the interceptor's namespace":            {func(w *fixture) { w.Shared.Namespace = "elsewhere" }, false},
		"knowledge of ReferenceGrants":           {func(w *fixture) { w.Shared.Grants, w.Shared.GrantsSynced = nil, false }, true},
		"Programmed":                             {func(w *fixture) { w.Targets[0].IsProgrammed = false }, true},
		"the annotation":                         {func(w *fixture) { w.Targets[0].IsShared, w.HasProxy = false, true }, false},
		"the proxies of its namespace":           {func(w *fixture) { w.HasProxy = false }, true},
		"ReferenceGrant replaced by a newer one": {func(w *fixture) { w.Shared.Grants[0].CreationTimestamp.Time = w.Now }, true},
		"permission for the ReferenceGrant":      {func(w *fixture) { w.Shared.GrantError = "forbidden" }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSharedFixture(t, route("shop.test", toShop))
			w.converge(t)
			test.change(w)
			w.converge(t)
			if isWired := strings.Contains(w.stored[0], `"namespace":"keda"`); isWired != test.isWired {
				t.Errorf("wired: %v\n%s", isWired, asYAML(t, w.stored[0]))
			}
		})
	}
}

// TestMoveToAnotherFleet adds and removes the fleet annotation of a wired route's object. In between, the route
// references the app's own Service, until the interceptor has reported that the new fleet serves the object.
func TestMoveToAnotherFleet(t *testing.T) {
	t.Parallel()
	w := newSharedFixture(t, route("shop.test", toShop))
	w.HasProxy = true
	for _, isShared := range []bool{true, false, true} {
		w.Targets[0].IsShared = isShared
		w.converge(t)
		if isWired := annotation(t, w.stored[0], undo) != ""; isWired && w.Now != noon() {
			t.Errorf("it goes to the other fleet at once:\n%s", asYAML(t, w.stored[0]))
		}
		w.Now = w.Now.Add(w.CoolDown)
		w.converge(t)
		if _, elsewhere := fleets(annotation(t, w.stored[0], undo)); (elsewhere > 0) != isShared || annotation(t, w.stored[0], undo) == "" {
			t.Errorf("shared %v:\n%s", isShared, asYAML(t, w.stored[0]))
		}
	}
}

// TestDeleteGrantAfterRoute restores the only route that relies on the agent's ReferenceGrant. The grant stays
// until Gateways have observed the route.
func TestDeleteGrantAfterRoute(t *testing.T) {
	t.Parallel()
	w := newSharedFixture(t, route("shop.test", toShop))
	w.Shared.Grants = nil
	w.converge(t)
	w.Now = w.Now.Add(time.Minute)
	w.converge(t)
	targets := w.Targets
	w.Targets = nil
	w.converge(t)
	if annotation(t, w.stored[0], undo) != "" || len(w.Shared.Grants) != 1 {
		t.Fatalf("unwired, with ReferenceGrants %v:\n%s", w.Shared.Grants, asYAML(t, w.stored[0]))
	}
	w.Now = w.Now.Add(9 * time.Second)
	if requeueAfter := w.plan(t).RequeueAfter; requeueAfter != time.Second {
		t.Errorf("it looks again after %v", requeueAfter)
	}
	w.Targets = targets // it is relied on again
	w.converge(t)
	w.Targets = nil
	w.converge(t)
	w.Now = w.Now.Add(9 * time.Second)
	w.converge(t)
	if len(w.Shared.Grants) != 1 {
		t.Fatalf("ReferenceGrants %v", w.Shared.Grants)
	}
	w.Now = w.Now.Add(time.Second)
	w.converge(t)
	if len(w.Shared.Grants) > 0 {
		t.Errorf("ReferenceGrants %v", w.Shared.Grants)
	}
}

// TestUnmanagedGrant does not change a ReferenceGrant of someone else. The agent creates its own when that one is
// deleted, and repairs its own after an edit.
func TestUnmanagedGrant(t *testing.T) {
	t.Parallel()
	w := newSharedFixture(t, route("shop.test", toShop))
	if grant := w.converge(t).Grant; grant.Apply != nil {
		t.Errorf("beside another one: %+v", grant.Apply)
	}
	w.Shared.Grants = nil
	if grant := w.converge(t).Grant; grant.Apply == nil || grant.Apply.UID != "" {
		t.Errorf("without any: %+v", grant)
	}
	w.Shared.Grants[0].Spec.To = nil
	if grant := w.converge(t).Grant; grant.Apply == nil || grant.Apply.UID == "" || len(grant.Apply.Spec.To) != 1 {
		t.Errorf("edited: %+v", grant)
	}
	w.Shared.Grants[0].Labels = nil // another user takes it over
	w.Targets = nil
	if grant := w.converge(t).Grant; grant.Apply != nil || grant.Delete != nil {
		t.Errorf("taken over: %+v", grant)
	}
}
