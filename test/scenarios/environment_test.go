package scenarios_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rolloutscontroller"
)

// pollInterval is the time between two reads of the API server.
const pollInterval = 100 * time.Millisecond

// routerUnderTest is one of the two routers.
type routerUnderTest struct {
	plugin   string
	resource string // the resource of its routing objects
	config   string // its configuration in a Rollout; a format with the name of the object
	object   string // the manifest of the object; a format with its name
}

// The routers.
var (
	kedify = routerUnderTest{
		plugin: "kedify/http", resource: "httpscaledobjects", config: "{httpScaledObjectName: NAME}",
		object: "{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: NAME, labels: {app: NAME}}, " +
			"spec: {hosts: [shop.test], " +
			"scaleTargetRef: {name: web, kind: Rollout, apiVersion: argoproj.io/v1alpha1, service: web-stable, port: 80}}}",
	}
	gateway = routerUnderTest{
		plugin: "argoproj-labs/gatewayAPI", resource: "httproutes", config: "{httpRoute: NAME, verifyRouteStatus: false}",
		object: "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: NAME, labels: {app: NAME}}, " +
			"spec: {rules: [{backendRefs: " +
			"[{name: web-stable, port: 80, weight: 100}, {name: web-canary, port: 80, weight: 0}]}]}}",
	}
)

// environment is a namespace with the Rollout web, for one scenario with one router.
type environment struct {
	*cluster

	t           *testing.T
	router      routerUnderTest
	namespace   string
	controllers []*rolloutscontroller.Controller // those of its Rollout
	seen        map[string]int                   // by object, the number of the traffic split that was awaited last
	rejection   string                           // why the controller rejects the Rollout; empty if it does not
	// the time from an abort to the removal of the canary's weight, in scenarios that measure it
	aborted time.Duration
	// the part of it between the controller's call and the write, by the plugin's log
	inPlugin string
}

// apply applies manifests in the namespace.
func (s *environment) apply(manifests ...string) {
	s.t.Helper()
	if err := apiserver.Apply(s.t.Context(), s.admin, s.namespace, manifests...); err != nil {
		s.t.Fatal(err)
	}
}

// prepare applies the Services and a routing object.
func (s *environment) prepare() {
	s.t.Helper()
	s.apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + s.namespace + "}}")
	for _, name := range []string{stableService, canaryService} {
		s.apply("{apiVersion: v1, kind: Service, metadata: {name: " + name +
			"}, spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}")
	}
	s.object("web")
}

// object applies a routing object.
func (s *environment) object(name string) {
	s.t.Helper()
	s.apply(strings.ReplaceAll(s.router.object, "NAME", name))
	s.await("the object "+name+" is seen", "0", func() string { return s.last(s.router.resource, s.namespace, name).text })
}

// rollout applies the Rollout of a scenario.
func (s *environment) rollout(sc scenario, version string) {
	s.t.Helper()
	services := "stableService: " + stableService + "\n      canaryService: " + canaryService
	if sc.pingPong {
		services = "pingPong: {pingService: " + stableService + ", pongService: " + canaryService + "}"
	}
	label := ""
	if sc.instance != "" {
		label = ", labels: {argo-rollouts.argoproj.io/controller-instance-id: " + sc.instance + "}"
	}
	s.apply(fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web%[1]s}
spec:
  replicas: 4
  %[2]s
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {version: %[3]q}}
    spec: {containers: [{name: app, image: example.com/app, ports: [{name: http, containerPort: 8080}]}]}
  strategy:
    canary:
      %[4]s
      abortScaleDownDelaySeconds: 1
      %[5]s
      trafficRouting:
        managedRoutes: %[6]s
        plugins: {%[7]s: %[8]s}
        %[9]s
      steps: %[10]s
`, label, sc.spec, version, services, sc.canary, or(sc.managed, "[]"), s.router.plugin,
		strings.ReplaceAll(s.router.config, "NAME", "web"), sc.routing, sc.steps))
}

// or returns text, or fallback if text is empty.
func or(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// path returns the API path of the Rollout.
func (s *environment) path() string {
	return "/apis/argoproj.io/v1alpha1/namespaces/" + s.namespace + "/rollouts/web"
}

// merge merges a patch into the Rollout or its subresource.
func (s *environment) merge(subresource, patch string) {
	s.t.Helper()
	s.waitUntilIdle()
	if err := s.admin.Patch(types.MergePatchType).AbsPath(s.path() +
		subresource).Body([]byte(patch)).Do(s.t.Context()).Error(); err != nil {
		s.t.Fatalf("%s: %v", patch, err)
	}
}

// update starts another version.
func (s *environment) update(version string) {
	s.t.Helper()
	s.merge("", `{"spec":{"template":{"metadata":{"annotations":{"version":"`+version+`"}}}}}`)
}

// scale sets the number of replicas.
func (s *environment) scale(replicas int) {
	s.t.Helper()
	s.merge("", `{"spec":{"replicas":`+strconv.Itoa(replicas)+`}}`)
}

// configure changes the router's configuration.
func (s *environment) configure(config string) {
	s.t.Helper()
	s.merge("", fmt.Sprintf(`{"spec":{"strategy":{"canary":{"trafficRouting":{"plugins":{%q:%s}}}}}}`, s.router.plugin,
		config))
}

// waitUntilIdle waits until the controller has reconciled the newest version of the Rollout, if the release may miss
// earlier writes.
func (s *environment) waitUntilIdle() {
	s.t.Helper()
	if s.release.overlooks {
		s.reconciled()
	}
}

// reconciled waits until the controller has reconciled the newest version of the Rollout.
func (s *environment) reconciled() {
	s.t.Helper()
	s.await("the controller at rest", "true", func() string {
		var live stored
		body, err := s.admin.Get().AbsPath(s.path()).DoRaw(s.t.Context())
		if err != nil || json.Unmarshal(body, &live) != nil {
			return ""
		}
		return strconv.FormatBool(slices.ContainsFunc(s.controllers, func(c *rolloutscontroller.Controller) bool {
			version, err := c.Reconciled(s.namespace)
			return err == nil && version == live.Metadata.ResourceVersion
		}))
	})
}

// promote, promoteFull, abort and retry do the same as kubectl argo rollouts.
func (s *environment) promote() {
	s.t.Helper()
	s.merge("/status", `{"status":{"pauseConditions":null}}`)
}

func (s *environment) promoteFull() {
	s.t.Helper()
	s.merge("/status", `{"status":{"promoteFull":true}}`)
}

// skipSteps continues after the last step, as kubectl argo rollouts promote --skip-all-steps does.
func (s *environment) skipSteps() {
	s.t.Helper()
	s.merge("/status", `{"status":{"pauseConditions":null,"currentStepIndex":4}}`)
}

func (s *environment) abort() { s.t.Helper(); s.merge("/status", `{"status":{"abort":true}}`) }
func (s *environment) retry() { s.t.Helper(); s.merge("/status", `{"status":{"abort":false}}`) }

// awaitPhase waits for a phase of the Rollout, in its newest generation.
func (s *environment) awaitPhase(phase string) {
	s.t.Helper()
	s.await("the phase", phase, func() string {
		var read struct {
			Metadata struct{ Generation int64 }
			Status   struct{ Phase, ObservedGeneration string }
		}
		body, err := s.admin.Get().AbsPath(s.path()).DoRaw(s.t.Context())
		if err != nil || json.Unmarshal(body, &read) != nil ||
			read.Status.ObservedGeneration != strconv.FormatInt(read.Metadata.Generation, 10) {
			return ""
		}
		return read.Status.Phase
	})
}

// awaitSplit waits for a traffic split of the object web, and returns its time.
func (s *environment) awaitSplit(want string) time.Time {
	s.t.Helper()
	return s.awaitSplitOf("web", want)
}

// awaitSplitOf waits until an object has a traffic split, or has had it since the one that was awaited last: some last
// only a moment. It returns its time.
func (s *environment) awaitSplitOf(name, want string) time.Time {
	s.t.Helper()
	var since time.Time
	s.await("the weights of "+name, want, func() string {
		all := s.since(s.router.resource, s.namespace, name, s.seen[name])
		i := slices.IndexFunc(all, func(one storedSplit) bool { return one.text == want })
		if i < 0 {
			return s.history(s.router.resource, s.namespace, name)
		}
		since = all[i].at
		s.seen[name] += i
		return want
	})
	return since
}

// awaitPause waits until the Rollout pauses with this traffic split.
func (s *environment) awaitPause(want string) {
	s.t.Helper()
	s.awaitSplit(want)
	s.awaitPhase("Paused")
}

// awaitStatus waits for a value of a number in the Rollout's status, e.g. replicas. The controller decides by its own
// view: the stable side of a Rollout with dynamicStableScale is scaled down after the step's weight is stored, and
// until then an abort finds more stable Pods than the weight needs.
func (s *environment) awaitStatus(field string, want int) {
	s.t.Helper()
	s.await(field, strconv.Itoa(want), func() string { return s.status(field) })
}

// status returns a field of the Rollout's status; empty if it is missing or cannot be read.
func (s *environment) status(field string) string {
	var read struct{ Status map[string]json.RawMessage }
	body, err := s.admin.Get().AbsPath(s.path()).DoRaw(s.t.Context())
	if err != nil || json.Unmarshal(body, &read) != nil {
		return ""
	}
	return string(read.Status[field])
}

// log returns the last lines about the scenario in the log of each of its controllers.
func (s *environment) log() string {
	var log strings.Builder
	for _, controller := range s.controllers {
		lines, err := controller.LogLines(s.namespace, 400)
		if err != nil {
			lines = err.Error()
		}
		log.WriteString(lines + "\n\n")
	}
	return log.String()
}

// await waits until look returns want.
func (s *environment) await(what, want string, look func() string) {
	s.t.Helper()
	got, next := "", time.Time{}
	await.Described(s.t, what, func() bool {
		if time.Now().After(next) {
			got, next = look(), time.Now().Add(pollInterval)
		}
		return got == want
	}, func() string { return fmt.Sprintf("%q, want %q\n%s", got, want, s.log()) })
}
