package argocd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// coolDown is the agent's --autowire-cool-down.
const coolDown = time.Second

// wiredFiles returns what is in Git for an application that the agent wires.
func wiredFiles() map[string]string {
	return map[string]string{
		"services.yaml": "{apiVersion: v1, kind: Service, metadata: {name: shop}, spec: {selector: {app: shop}, " +
			"ports: [{name: http, port: 80, targetPort: 8080, protocol: TCP}]}}\n",
		"other.yaml": other(0),
		"ingress.yaml": `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  rules:
    - host: shop.test
      http:
        paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]
`,
		"route.yaml": `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec:
  parentRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: web}]
  hostnames: [shop.test]
  rules:
    - matches: [{path: {type: PathPrefix, value: /}}]
      backendRefs: [{group: "", kind: Service, name: shop, port: 80, weight: 1}]
`,
		"scaledobject.yaml": `
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: shop}
spec:
  scaleTargetRef: {name: shop}
  triggers: [{type: kedify-http, metadata: {hosts: shop.test, port: "80", service: shop}}]
`,
	}
}

// wired creates an application whose Ingress and HTTPRoute the agent points at proxies, and waits until it has.
func wired(t *testing.T, name string, how mode, recipes []recipe) *application {
	t.Helper()
	a := newApplication(t, name, how, recipes, wiredFiles())
	a.await("the agent has created the HTTPScaledObject", func() (bool, string) {
		var created struct{ Metadata struct{ Generation int64 } }
		if !a.get("/apis/http.keda.sh/v1alpha1", "httpscaledobjects/shop", &created) {
			return false, a.read().text()
		}
		a.program(created.Metadata.Generation)
		return true, ""
	})
	mustApply(t, name,
		"{apiVersion: v1, kind: Service, metadata: {name: kedify-proxy}, spec: {ports: [{name: http, port: 8080}]}}",
		`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice,
			metadata: {name: proxies, labels: {kubernetes.io/service-name: kedify-proxy}}, addressType: IPv4,
			ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.0.0.1], conditions: {ready: true}}]}`)
	for _, resource := range []string{"ingresses", "httproutes"} {
		a.await("the agent has wired "+resource, func() (bool, string) {
			return slices.ContainsFunc(a.writes(), func(w write) bool {
				return w.resource == resource && w.writer != argoCD && strings.Contains(w.state, "kedify-proxy")
			}), a.read().text()
		})
	}
	return a
}

// program reports that the proxies serve the HTTPScaledObject, as the interceptor does.
func (a *application) program(generation int64) {
	a.t.Helper()
	body := fmt.Sprintf(`{"apiVersion": "http.keda.sh/v1alpha1", "kind": "HTTPScaledObject", "metadata": {"name": "shop"},
		"status": {"conditions": [{"type": "Programmed", "status": "True", "reason": "Programmed", "message": "",
		"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": %d}]}}`, generation)
	err := shared.admin.Patch(types.ApplyPatchType).Param("fieldManager", "interceptor").
		AbsPath("/apis/http.keda.sh/v1alpha1/namespaces/" + a.name + "/httpscaledobjects/shop/status").
		Body([]byte(body)).Do(a.t.Context()).Error()
	if err != nil {
		a.t.Fatal(err)
	}
}

// backends returns the current backends of the Ingress and the HTTPRoute.
func (a *application) backends() string {
	states := map[string]string{}
	for _, w := range a.writes() {
		states[w.resource] = w.state
	}
	return states["ingresses"] + ", " + states["httproutes"]
}

// reverted returns the writes of Argo CD to objects that the agent has changed before.
func (a *application) reverted() (found []write) {
	changed := map[string]bool{}
	for _, w := range a.writes() {
		switch {
		case w.writer == agentName:
			changed[w.resource] = true
		case w.writer == argoCD && changed[w.resource]:
			found = append(found, w)
		}
	}
	return found
}

// commits is the number of commits after which the agent would leave an object alone that each of them restores.
const commits = 5

// commitOthers changes another object in five commits, each of which Argo CD syncs.
func (a *application) commitOthers() {
	a.t.Helper()
	for number := range commits {
		a.commit("another object", map[string]string{"other.yaml": other(number + 1)})
		a.refresh()
		a.await("the commit is synced", func() (bool, string) {
			return slices.ContainsFunc(a.writes(), func(w write) bool {
				return w.resource == "configmaps" && w.state == fmt.Sprintf("map[number:%d]", number+1)
			}), a.read().text()
		})
	}
}

// TestAgentRecipes commits another object five times. Argo CD writes neither the trigger nor the backends that the
// agent has changed, and the application is Synced.
func TestAgentRecipes(t *testing.T) {
	t.Parallel()
	recipes := []recipe{readRecipe(t, ingressRecipe), readRecipe(t, wiredRecipe), readRecipe(t, triggerRecipe)}
	for _, how := range []mode{clientSide, serverSide, serverSideDiff} {
		name := "agent-" + string(how)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := wired(t, name, how, recipes)
			a.synced()
			a.commitOthers()
			a.synced()
			if reverted := a.reverted(); len(reverted) > 0 {
				t.Errorf("Argo CD wrote:\n%s", timeline(reverted))
			}
			if got, want := a.backends(), "kedify-proxy, [] kedify-proxy=1"; got != want {
				t.Errorf("backends are %q, want %q", got, want)
			}
			t.Logf("writers, %s:\n%s", name, timeline(a.writes()))
		})
	}
}

// TestAgentWithoutRecipe proves that the check of TestAgentRecipes can fail. Without a recipe, Argo CD restores the
// backends. Without ApplyOutOfSyncOnly=true, each of five commits does, and then the agent leaves the objects alone.
func TestAgentWithoutRecipe(t *testing.T) {
	t.Parallel()
	var without []recipe
	for _, name := range []string{ingressRecipe, wiredRecipe, triggerRecipe} {
		without = append(without, readRecipe(t, name).withoutOutOfSyncOnly())
	}
	t.Run("agent-none", func(t *testing.T) {
		t.Parallel()
		a := wired(t, "agent-none", clientSide, []recipe{readRecipe(t, triggerRecipe)})
		for _, resource := range []string{"ingresses", "httproutes"} {
			a.await("Argo CD has restored "+resource, func() (bool, string) {
				return slices.ContainsFunc(a.reverted(), func(w write) bool { return w.resource == resource }), a.read().text()
			})
		}
		t.Logf("writers:\n%s", timeline(a.writes()))
	})
	t.Run("agent-all", func(t *testing.T) {
		t.Parallel()
		a := wired(t, "agent-all", serverSide, without)
		for number := range commits {
			a.commit("another object", map[string]string{"other.yaml": other(number + 1)})
			a.refresh()
			a.await("the agent counts the revert", func() (bool, string) {
				var ingress object
				a.get("/apis/networking.k8s.io/v1", "ingresses/web", &ingress)
				hold := ingress.Metadata.Annotations[httpv1alpha1.AnnotationAutowireHold]
				return strings.Contains(hold, fmt.Sprintf(`"times":%d`, number+1)), hold + " " + a.read().text()
			})
			if number+1 < commits {
				a.await("the agent has wired it again", func() (bool, string) {
					return a.backends() == "kedify-proxy, [] kedify-proxy=1", a.backends()
				})
			}
		}
		if got := a.backends(); strings.HasPrefix(got, "kedify-proxy") {
			t.Errorf("backends are %q after five reverts", got)
		}
		t.Logf("writers:\n%s", timeline(a.writes()))
	})
}
