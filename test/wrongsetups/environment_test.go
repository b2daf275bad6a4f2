package wrongsetups_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// pollEvery is the pause between two requests to the API server while a test waits.
const pollEvery = 100 * time.Millisecond

// router is one of the two routers.
type router struct {
	plugin, program string
	config          string // its configuration in a Rollout
	object          string // the manifest of its object
	path            string // the API path of the object below the namespace
}

// The routers.
var (
	kedify = router{
		plugin: "kedify/http", program: "rollouts-plugin-kedify", config: `{"httpScaledObjectName":"web"}`,
		object: `
apiVersion: http.keda.sh/v1alpha1
kind: HTTPScaledObject
metadata: {name: web}
spec: {hosts: [web.test], scaleTargetRef: {service: web-stable, port: 80}}
---
apiVersion: v1
kind: Service
metadata: {name: kedify-proxy}
spec: {ports: [{port: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kedify-proxy-1, labels: {kubernetes.io/service-name: kedify-proxy}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.5], conditions: {ready: true}}]
`,
		path: "/apis/http.keda.sh/v1alpha1/namespaces/NAMESPACE/httpscaledobjects/web",
	}
	gateway = router{
		plugin: "argoproj-labs/gatewayAPI", program: "gatewayapi-plugin", config: `{"httpRoute":"web"}`,
		object: `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec:
  parentRefs: [{name: gateway}]
  rules: [{backendRefs: [{name: web-stable, port: 80, weight: 100}, {name: web-canary, port: 80, weight: 0}]}]
`,
		path: "/apis/gateway.networking.k8s.io/v1/namespaces/NAMESPACE/httproutes/web",
	}
)

// environment is a namespace with the Rollout web.
type environment struct {
	*cluster

	t         *testing.T
	row       setup
	namespace string
	restore   func() // restores what the fix left different
}

// apply applies manifests in the namespace.
func (s *environment) apply(manifests ...string) {
	s.t.Helper()
	if err := apiserver.Apply(s.t.Context(), s.admin, s.namespace, manifests...); err != nil {
		s.t.Fatal(err)
	}
}

// prepare creates the namespace with everything but the Rollout.
func (s *environment) prepare() {
	s.t.Helper()
	s.apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + s.namespace + "}}")
	for _, name := range []string{"web-stable", "web-canary"} {
		s.apply("{apiVersion: v1, kind: Service, metadata: {name: " + name +
			"}, spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}")
	}
	s.apply(s.row.router.object)
	if s.row.router.plugin == kedify.plugin {
		s.reportAccepted()
	}
}

// reportAccepted reports what an interceptor reports for the HTTPScaledObject web.
func (s *environment) reportAccepted() {
	s.t.Helper()
	conditions := []map[string]any{}
	for _, name := range []string{"Accepted", "Ready", "Programmed"} {
		conditions = append(conditions, map[string]any{
			"type": name, "status": "True", "reason": name, "message": "", "observedGeneration": 1,
			"lastTransitionTime": "2026-01-01T00:00:00Z",
		})
	}
	s.patch(s.path(s.row.router.path)+"/status", map[string]any{"status": map[string]any{"conditions": conditions}})
}

// rollout returns the manifest of the Rollout. routing is its field trafficRouting.
func (s *environment) rollout(version, routing string) string {
	return fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web, namespace: %s}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {version: %q}}
    spec: {containers: [{name: app, image: example.com/app}]}
  strategy:
    canary:
      stableService: web-stable
      canaryService: web-canary
      trafficRouting: %s
      steps: [{setWeight: 20}, {pause: {}}]
`, s.namespace, max(s.row.replicas, 1), version, routing)
}

// routing returns the valid field trafficRouting.
func (s *environment) routing() string {
	return fmt.Sprintf(`{plugins: {%q: %s}}`, s.row.router.plugin, s.row.router.config)
}

// path returns an API path with the namespace.
func (s *environment) path(path string) string {
	return strings.Replace(path, "NAMESPACE", s.namespace, 1)
}

// rolloutPath is the API path of the Rollout.
func (s *environment) rolloutPath() string {
	return s.path("/apis/argoproj.io/v1alpha1/namespaces/NAMESPACE/rollouts/web")
}

// patch sends a merge patch.
func (s *environment) patch(path string, content any) {
	s.t.Helper()
	if err := apiserver.Patch(s.t.Context(), s.admin, path, "test", content); err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
}

// canary changes fields of spec.strategy.canary.
func (s *environment) canary(fields map[string]any) {
	s.t.Helper()
	s.patch(s.rolloutPath(), map[string]any{"spec": map[string]any{"strategy": map[string]any{"canary": fields}}})
}

// update starts the second version.
func (s *environment) update() {
	s.t.Helper()
	s.merge(s.rolloutPath(), `{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`)
}

// merge sends a merge patch in JSON.
func (s *environment) merge(path, patch string) {
	s.t.Helper()
	err := s.admin.Patch(types.MergePatchType).AbsPath(path).Body([]byte(patch)).Do(s.t.Context()).Error()
	if err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
}

// state is what the tests read of a Rollout.
type state struct {
	Metadata struct{ Generation int64 }
	Status   struct {
		Phase, Message, ObservedGeneration string
		UpdatedReplicas, AvailableReplicas int
	}
}

// read returns the state of the Rollout.
func (s *environment) read(ctx context.Context) (read state) {
	if err := apiserver.Get(ctx, s.admin, s.rolloutPath(), &read); err != nil {
		read.Status.Message = err.Error()
	}
	return read
}

// phase waits for a phase of the Rollout, in its newest generation.
func (s *environment) phase(want string) {
	s.t.Helper()
	s.await("the phase", want, func(ctx context.Context) string {
		read := s.read(ctx)
		if read.Status.ObservedGeneration != strconv.FormatInt(read.Metadata.Generation, 10) {
			return "of an earlier generation"
		}
		return read.Status.Phase
	})
}

// weights waits for the weights of stable and canary in the router's object.
func (s *environment) weights(want string) {
	s.t.Helper()
	s.await("the weights", want, func(ctx context.Context) string {
		var read struct {
			Metadata struct{ Annotations map[string]string }
			Spec     struct {
				Rules []struct{ BackendRefs []split.Backend }
			}
		}
		body, err := s.admin.Get().AbsPath(s.path(s.row.router.path)).DoRaw(ctx)
		if err = errors.Join(err, json.Unmarshal(body, &read)); err != nil {
			return err.Error()
		}
		if s.row.router.plugin == gateway.plugin {
			backends := read.Spec.Rules[0].BackendRefs
			return fmt.Sprint(backends[0].Weight, "/", backends[1].Weight)
		}
		text := read.Metadata.Annotations["http.kedify.io/weighted-backends"]
		if text == "" {
			return "100/0"
		}
		backends, err := split.Parse(text)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(backends[0].Weight, "/", backends[1].Weight)
	})
}

// newReplicas waits for the number of Pods that the newest ReplicaSet should have.
func (s *environment) newReplicas(want string) {
	s.t.Helper()
	s.await("the replicas of the newest ReplicaSet", want, func(ctx context.Context) string {
		var sets struct {
			Items []struct {
				Metadata struct{ Annotations map[string]string }
				Spec     struct{ Replicas int }
			}
		}
		path := s.path("/apis/apps/v1/namespaces/NAMESPACE/replicasets")
		if err := apiserver.Get(ctx, s.admin, path, &sets); err != nil || len(sets.Items) == 0 {
			return fmt.Sprint("none: ", err)
		}
		revision := func(at int) string { return sets.Items[at].Metadata.Annotations["rollout.argoproj.io/revision"] }
		newest := 0
		for i := range sets.Items {
			if revision(i) > revision(newest) {
				newest = i
			}
		}
		return strconv.Itoa(sets.Items[newest].Spec.Replicas)
	})
}

// continues waits until the canary has its weight, promotes it, and waits for its end.
func (s *environment) continues() {
	s.t.Helper()
	s.phase("Paused")
	s.weights("80/20")
	s.newReplicas("1")
	s.codes()
	s.merge(s.rolloutPath()+"/status", `{"status":{"pauseConditions":null}}`)
	s.phase("Healthy")
	s.weights("100/0")
}

// await waits until get returns want.
func (s *environment) await(what, want string, get func(context.Context) string) {
	s.t.Helper()
	got, next := "", time.Time{}
	await.Described(s.t, what, func() bool {
		if time.Now().After(next) {
			got, next = get(s.t.Context()), time.Now().Add(pollEvery)
		}
		return got == want
	}, func() string { return fmt.Sprintf("(-want +got):\n%s\n%s", cmp.Diff(want, got), s.log(s.namespace)) })
}

// logged waits until the controller's log contains the message of the row. No Event has it.
func (s *environment) logged() {
	s.t.Helper()
	s.await("a line of the log", "", func(context.Context) string {
		log := s.log(s.namespace)
		if strings.Contains(log, s.row.message) {
			return ""
		}
		return log
	})
	for _, event := range s.events(s.t.Context()) {
		if strings.Contains(event.Message, s.row.message) {
			s.t.Errorf("an Event reports the problem, too: %+v", event)
		}
	}
}

// event is an Event of the Rollout.
type event struct {
	Type, Reason, Message string
	InvolvedObject        struct{ Kind string }
}

// events returns the Events of the Rollout.
func (s *environment) events(ctx context.Context) []event {
	var read struct{ Items []event }
	if err := apiserver.Get(ctx, s.admin, s.path("/api/v1/namespaces/NAMESPACE/events"), &read); err != nil {
		return []event{{Message: err.Error()}}
	}
	return slices.DeleteFunc(read.Items, func(e event) bool { return e.InvolvedObject.Kind != "Rollout" })
}

// warned waits until a Warning Event with that reason begins with the message of the row.
func (s *environment) warned(reason string) {
	s.t.Helper()
	s.await("an Event", "", func(ctx context.Context) string {
		var others []string
		for _, event := range s.events(ctx) {
			if event.Type == "Warning" && event.Reason == reason && strings.HasPrefix(event.Message, s.row.message) {
				return ""
			}
			others = append(others, fmt.Sprintf("%+v", event))
		}
		return strings.Join(others, "\n")
	})
}

// status waits until the message of the Rollout's status is that of the row.
func (s *environment) status() {
	s.t.Helper()
	s.await("the message of the status", s.row.message, func(ctx context.Context) string {
		return s.read(ctx).Status.Message
	})
}

// codes waits until doctor finds exactly these codes for the namespace.
func (s *environment) codes(want ...string) {
	s.t.Helper()
	var out string
	defer func() { s.t.Logf("doctor: %s", out) }()
	s.await("the findings of doctor", strings.Join(want, " "), func(ctx context.Context) string {
		out = s.doctor(ctx)
		var printed struct {
			Findings []struct{ Code, Object, Field, Message, Fix string }
		}
		if err := json.Unmarshal([]byte(out), &printed); err != nil {
			return err.Error() + ": " + out
		}
		var codes []string
		for _, finding := range printed.Findings {
			codes = append(codes, finding.Code)
		}
		return strings.Join(slices.Compact(codes), " ")
	})
}

// doctor returns what doctor prints for the namespace. It fails if it finds an error.
func (s *environment) doctor(ctx context.Context) string {
	out, _ := s.run(ctx, filepath.Join(s.folder, "kubectl-http_canary"), "", "doctor", "-o", "json", "-n", s.namespace)
	return out
}

// kubectl runs kubectl with an input, and returns what it printed.
func (s *environment) kubectl(input string, args ...string) (out string, err error) {
	s.t.Helper()
	return s.run(s.t.Context(), os.Getenv("KUBECTL_BIN"), input, args...)
}

// run runs a program as the administrator with an input, and returns its output and errors.
func (s *environment) run(ctx context.Context, program, input string, args ...string) (out string, err error) {
	s.t.Helper()
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
	command.Stdin = strings.NewReader(input)
	printed, err := command.CombinedOutput()
	return string(printed), err
}
