package argocd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
)

// router is one of the two routers.
type router struct {
	plugin   string
	api      string // the path of the API of its routing objects
	resource string // the resource of its routing objects
	settings string // its configuration in a Rollout
	object   string // the file with the routing object
	steps    string
	pauses   []pause // the steps at which a canary pauses, in their order
	managed  string
	weights  []string // parts of the states of the routing object that the canary writes, in their order
}

// pause is a pause step.
type pause struct {
	step  int
	state string // a part of the state of the routing object
}

// The routers. The canary of the first one also has a header route and an experiment.
var (
	gatewayAPI = router{
		plugin: "argoproj-labs/gatewayAPI", api: "/apis/gateway.networking.k8s.io/v1", resource: "httproutes",
		settings: "{httpRoute: shop}", object: routeManifest, managed: "[{name: qa}]",
		steps: "[{setWeight: 5}, {pause: {}}, {setHeaderRoute: {name: qa, match: [{headerName: role, headerValue: " +
			"{exact: qa}}]}}, {setWeight: 25}, {pause: {}}, {setWeight: 50}, {experiment: {duration: 10s, templates: " +
			"[{name: candidate, specRef: canary, weight: 10}]}}, {setWeight: 75}, {pause: {}}, {setHeaderRoute: {name: qa}}]",
		pauses: []pause{
			{1, "shop-stable=95/shop-canary=5"}, {4, "shop-stable=75/shop-canary=25"}, {8, "shop-stable=25/shop-canary=75"},
		},
		weights: []string{
			"shop-stable=95/shop-canary=5", "[qa]", "shop-stable=75/shop-canary=25", "shop-stable=50/shop-canary=50",
			"shop-stable=40/shop-canary=50/shop-", "shop-stable=25/shop-canary=75", "shop-stable=0/shop-canary=100",
			"shop-stable=100/shop-canary=0",
		},
	}
	kedifyHTTP = router{
		plugin: "kedify/http", api: "/apis/http.keda.sh/v1alpha1", resource: "httpscaledobjects",
		settings: "{httpScaledObjectName: shop}", managed: "[]", object: httpScaledObjectManifest,
		steps: "[{setWeight: 5}, {pause: {}}, {setWeight: 25}, {pause: {}}, {setWeight: 75}, {pause: {}}]",
		pauses: []pause{
			{1, "shop-stable=95/shop-canary=5"}, {3, "shop-stable=75/shop-canary=25"}, {5, "shop-stable=25/shop-canary=75"},
		},
		weights: []string{
			"shop-stable=95/shop-canary=5", "shop-stable=75/shop-canary=25", "shop-stable=25/shop-canary=75",
			"shop-stable=0/shop-canary=100", "no weights",
		},
	}
)

// routeManifest has all defaults of the API.
const routeManifest = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: web}]
  hostnames: [shop.example.com]
  rules:
    - matches: [{path: {type: PathPrefix, value: /docs}}]
      backendRefs: [{group: "", kind: Service, name: docs, port: 80, weight: 1}]
    - matches: [{path: {type: PathPrefix, value: /}}]
      backendRefs:
        - {group: "", kind: Service, name: shop-stable, port: 80, weight: 100}
        - {group: "", kind: Service, name: shop-canary, port: 80, weight: 0}
`

const httpScaledObjectManifest = `
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata: {name: shop}
spec:
  hosts: [shop.example.com]
  scaleTargetRef: {name: shop, kind: Rollout, apiVersion: argoproj.io/v1alpha1, service: shop-stable, port: 80}
`

// withoutDefaults removes the defaults of the API from a manifest.
func withoutDefaults(manifest string) string {
	return strings.NewReplacer("group: gateway.networking.k8s.io, kind: Gateway, ", "", `group: "", kind: Service, `, "",
		", protocol: TCP", "").Replace(manifest)
}

// files returns what is in Git for a router, with a version of the application.
func (r router) files(version int) map[string]string {
	service := func(name string) string {
		return "{apiVersion: v1, kind: Service, metadata: {name: " + name + "}, spec: {selector: {app: shop}, " +
			"ports: [{name: http, port: 80, targetPort: 8080, protocol: TCP}]}}\n"
	}
	return map[string]string{
		"services.yaml": service("shop-stable") + "---\n" + service("shop-canary"),
		"routing.yaml":  r.object,
		"other.yaml":    other(0),
		"rollout.yaml": fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers: [{name: app, image: "example.com/app:%d", ports: [{containerPort: 8080, protocol: TCP}]}]
  strategy:
    canary:
      stableService: shop-stable
      canaryService: shop-canary
      trafficRouting: {managedRoutes: %s, plugins: {%s: %s}}
      steps: %s
`, version, r.managed, r.plugin, r.settings, r.steps),
	}
}

// other returns an object that no canary changes.
func other(number int) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: other}, data: {number: \"%d\"}}\n", number)
}

// canary is a canary of an application.
type canary struct {
	*application
	router
}

// start creates the application with version 1, and then commits version 2. atRest is false if the application is not
// Synced at rest.
func start(
	t *testing.T, name string, how mode, r router, recipes []recipe, edit func(string) string, atRest bool,
) canary {
	t.Helper()
	edited := func(version int) map[string]string {
		files := r.files(version)
		for file := range files {
			if edit != nil {
				files[file] = edit(files[file])
			}
		}
		return files
	}
	c := canary{newApplication(t, name, how, recipes, edited(1)), r}
	c.phase("Healthy", -1)
	if atRest {
		c.synced()
	}
	c.commit("version 2", edited(2))
	c.refresh()
	return c
}

// phase waits for a phase of the Rollout in its newest generation, and a step unless that is negative.
func (c canary) phase(phase string, step int) {
	c.t.Helper()
	c.await(fmt.Sprintf("the Rollout is %s at step %d", phase, step), func() (bool, string) {
		var rollout struct {
			Metadata struct{ Generation int64 }
			Status   struct {
				Phase, ObservedGeneration, Message string
				CurrentStepIndex                   int
			}
		}
		c.get("/apis/argoproj.io/v1alpha1", "rollouts/shop", &rollout)
		s := rollout.Status
		return s.Phase == phase && s.ObservedGeneration == strconv.FormatInt(rollout.Metadata.Generation, 10) &&
			(step < 0 || s.CurrentStepIndex == step), fmt.Sprintf("%+v; %s", s, c.read().text())
	})
}

// rollout is the path of the Rollout.
func (c canary) rollout() string {
	return "/apis/argoproj.io/v1alpha1/namespaces/" + c.name + "/rollouts/shop"
}

// promote ends a pause, as kubectl argo rollouts promote does.
func (c canary) promote() {
	c.t.Helper()
	c.merge(c.rollout()+"/status", `{"status":{"pauseConditions":null}}`)
}

// sinceBegin returns the writes since the first weight of the canary, or none.
func (c canary) sinceBegin() []write {
	writes := c.writes()
	isRouting := func(w write) bool { return w.resource == c.resource && w.writer == rollouts }
	begin := slices.IndexFunc(writes, func(w write) bool {
		return isRouting(w) && strings.Contains(w.state, c.pauses[0].state)
	})
	if begin < 0 {
		return nil
	}
	return writes[begin:]
}

// awaitState waits until the routing object has a state with a text.
func (c canary) awaitState(text string) {
	c.t.Helper()
	c.await("the routing object has "+text, func() (bool, string) {
		state := c.state()
		return strings.Contains(state, text), state
	})
}

// state returns the current state of the routing object.
func (c canary) state() string {
	state := ""
	for _, w := range c.writes() {
		if w.resource == c.resource {
			state = w.state
		}
	}
	return state
}

// TestRecipes runs a canary to its end with each recipe and mode. Between the first and the last weight, Argo CD writes
// neither the routing object nor a Service, although another object changes in Git in the middle. At the end, the
// application is Synced.
func TestRecipes(t *testing.T) {
	t.Parallel()
	route, selectors := readRecipe(t, routeRecipe), readRecipe(t, selectorsRecipe)
	for name, tt := range map[string]struct {
		router  router
		how     mode
		recipes []recipe
		edit    func(string) string
	}{
		"route-csa":       {gatewayAPI, clientSide, []recipe{route}, nil},
		"route-ssa":       {gatewayAPI, serverSide, []recipe{route, selectors}, nil},
		"route-ssd":       {gatewayAPI, serverSideDiff, []recipe{route, selectors}, nil},
		"unnamed-csa":     {gatewayAPI, clientSide, []recipe{readRecipe(t, unnamedRecipe)}, nil},
		"no-defaults-csa": {gatewayAPI, clientSide, []recipe{route}, withoutDefaults},
		"no-defaults-ssd": {gatewayAPI, serverSideDiff, []recipe{route, selectors}, withoutDefaults},
		"label-ssd":       {gatewayAPI, serverSideDiff, []recipe{byLabel(t), selectors}, nil},
		"hso-csa":         {kedifyHTTP, clientSide, nil, nil},
		"hso-ssa":         {kedifyHTTP, serverSide, []recipe{selectors}, nil},
		"hso-ssd":         {kedifyHTTP, serverSideDiff, []recipe{selectors}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, name, tt.how, tt.router, tt.recipes, tt.edit, true)
			for i, p := range c.pauses {
				c.phase("Paused", p.step)
				c.awaitState(p.state)
				c.synced()
				if i == 1 {
					c.commit("another object", map[string]string{"other.yaml": other(1)})
					c.synced()
				}
				c.promote()
			}
			c.phase("Healthy", -1)
			c.awaitState(c.weights[len(c.weights)-1])
			c.synced()
			c.check()
			t.Logf("writers, %s:\n%s", name, timeline(c.sinceBegin()))
		})
	}
}

// check checks the writers since the first weight, and the weights.
func (c canary) check() {
	c.t.Helper()
	writes := c.sinceBegin()
	if !slices.ContainsFunc(writes, func(w write) bool { return w.writer == argoCD && w.resource == "configmaps" }) {
		c.t.Errorf("Argo CD did not sync in the middle of the canary:\n%s", timeline(writes))
	}
	if text := c.live("/apis/argoproj.io/v1alpha1", "rollouts"); strings.Contains(text, engine.DriftAnnotation) {
		c.t.Errorf("the router has requested a reconcile although nobody else wrote:\n%s", text)
	}
	next := 0
	for _, w := range writes {
		if w.writer == argoCD && w.resource != "configmaps" {
			c.t.Errorf("Argo CD wrote %s/%s: %s\n%s", w.resource, w.name, w.state, timeline(writes))
		}
		if w.resource == c.resource && next < len(c.weights) && strings.Contains(w.state, c.weights[next]) {
			next++
		}
	}
	if next < len(c.weights) {
		c.t.Errorf("no weight %s after those before it:\n%s", c.weights[next], timeline(writes))
	}
}

// TestWithoutRecipe proves that the checks of TestRecipes can fail: Argo CD reverts what the recipe of that mode does
// not cover.
func TestWithoutRecipe(t *testing.T) {
	t.Parallel()
	route, selectors := readRecipe(t, routeRecipe), readRecipe(t, selectorsRecipe)
	const services, atRest = "services", "shop-stable=100/shop-canary=0"
	for name, tt := range map[string]struct {
		router   router
		how      mode
		recipes  []recipe
		edit     func(string) string
		reverted string // a resource
		state    string // a part of what Argo CD writes
		commits  bool   // whether it does so when another object changes in Git
	}{
		"none-csa":  {gatewayAPI, clientSide, nil, nil, gatewayAPI.resource, atRest, false},
		"label-csa": {gatewayAPI, clientSide, []recipe{byLabel(t)}, nil, gatewayAPI.resource, atRest, false},
		"label-ssa": {
			gatewayAPI, serverSide, []recipe{byLabel(t), selectors}, nil, gatewayAPI.resource, atRest, false,
		},
		"no-defaults-ssa": {
			gatewayAPI, serverSide,
			[]recipe{route, selectors},
			withoutDefaults, gatewayAPI.resource, atRest,
			false,
		},
		"selectors-ssa": {gatewayAPI, serverSide, []recipe{route}, nil, services, "hash none", false},
		"selectors-ssd": {gatewayAPI, serverSideDiff, []recipe{route}, nil, services, "hash none", false},
		"all-csa": {
			gatewayAPI, clientSide, []recipe{route.withoutOutOfSyncOnly()}, nil, gatewayAPI.resource, atRest, true,
		},
		"all-ssa": {
			gatewayAPI, serverSide,
			[]recipe{route.withoutOutOfSyncOnly(), selectors.withoutOutOfSyncOnly()},
			nil, services,
			"hash none", true,
		},
		"selectors-hso-ssa": {kedifyHTTP, serverSide, nil, nil, services, "hash none", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, name, tt.how, tt.router, tt.recipes, tt.edit, tt.commits)
			if tt.commits {
				c.phase("Paused", c.pauses[0].step)
				c.awaitState(c.pauses[0].state)
				c.commit("another object", map[string]string{"other.yaml": other(1)})
				c.refresh()
			}
			c.await("Argo CD has reverted it", func() (bool, string) {
				return slices.ContainsFunc(c.sinceBegin(), func(w write) bool {
					return w.writer == argoCD && w.resource == tt.reverted && strings.Contains(w.state, tt.state)
				}), c.read().text()
			})
			t.Logf("writers, %s:\n%s", name, timeline(c.sinceBegin()))
		})
	}
}

// live returns the object shop of a resource as JSON.
func (c canary) live(api, resource string) string {
	c.t.Helper()
	var object json.RawMessage
	c.get(api, resource+"/shop", &object)
	return string(object)
}
