package verified

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
	"github.com/kedify/argo-rollouts-plugin/test/kit/relay"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rolloutscontroller"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// plugin is the name of the plugin's binary.
const plugin = "rollouts-plugin-kedify"

// leasePath is the API path of the interceptors' Lease.
const leasePath = "/apis/coordination.k8s.io/v1/namespaces/keda/leases/kedify-http-interceptor"

func TestMain(m *testing.M) {
	os.Exit(netspace.Main(m, func(folder string) error {
		return program.Build(context.Background(), folder, "v9.9.9-test", "interceptor", plugin)
	}))
}

// environment is a Rollout with its traffic.
type environment struct {
	*coldstart.Testbed

	t          *testing.T
	controller *rolloutscontroller.Controller
	// ofPlugin and ofInterceptor forward connections to the API server.
	ofPlugin, ofInterceptor *relay.Relay
	replica                 *coldstart.Replica
	number                  int // of the last replica
}

// newEnvironment starts everything, with version 1 of the Rollout. It ends with the test.
func newEnvironment(t *testing.T) *environment {
	t.Helper()
	binaries, err := apiserver.FromEnvironment(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	e := &environment{t: t}
	e.Testbed, err = coldstart.Start(ctx, coldstart.Options{
		Binaries: binaries, Envoy: envoyproc.Binary(t), Repository: "../..", Built: netspace.Folder(), Folder: t.TempDir(),
		Apps: 2, QueueDeadline: await.Patience(), Workers: 2, Relay: func(target string) string {
			if e.ofInterceptor == nil {
				e.ofInterceptor = relay.Start(t, target)
			}
			return e.ofInterceptor.Address
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	e.ofPlugin = relay.Start(t, e.Plane.Address())
	e.startController(ctx)
	simulator := rolloutscontroller.NewClusterSimulator(e.Admin, nil)
	running, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	go simulator.Run(running)
	go e.mirror(running, newPods(t))
	e.startInterceptor()
	e.applyRollout()
	if err := e.StartProxy(ctx); err != nil {
		t.Fatal(err)
	}
	e.awaitStatus("phase", "Healthy")
	return e
}

// startController installs and starts the Argo Rollouts controller with the plugin.
func (e *environment) startController(ctx context.Context) {
	e.t.Helper()
	install, binary := os.Getenv("ROLLOUTS_INSTALL_YAML"), os.Getenv("ROLLOUTS_CONTROLLER_BIN")
	if install == "" || binary == "" {
		e.t.Fatal("no Argo Rollouts controller: run `make test-parts`")
	}
	plugins := map[string]string{"kedify/http": filepath.Join(netspace.Folder(), plugin)}
	err := rolloutscontroller.Install(ctx, e.Admin, install, plugins, "../../config/argo-rollouts/rbac.yaml")
	if err == nil {
		e.controller, err = rolloutscontroller.StartVia(e.Plane, e.ofPlugin.Address, binary, e.t.TempDir(),
			"--leader-elect=false")
	}
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		if e.t.Failed() {
			lines, _ := e.controller.LogLines(coldstart.Namespace, 60)
			e.t.Logf("end of the controller's log:\n%s", lines)
		}
		_ = e.controller.Kill()
	})
}

// startInterceptor starts the next replica, as a Deployment does.
func (e *environment) startInterceptor() {
	e.t.Helper()
	e.number++
	var err error
	if e.replica, err = e.StartInterceptor(context.WithoutCancel(e.t.Context()), e.number); err != nil {
		e.t.Fatal(err)
	}
	replica := e.replica
	e.t.Cleanup(func() { _ = replica.Kill() })
}

// applyRollout applies version 1 of the Rollout. Its Services replace those of the Testbed, which have no selector.
func (e *environment) applyRollout() {
	e.t.Helper()
	for app := range 2 {
		path := "/api/v1/namespaces/" + coldstart.Namespace + "/services/" + coldstart.AppName(app)
		var before struct {
			Spec struct{ Ports json.RawMessage }
		}
		err := apiserver.Get(e.t.Context(), e.Admin, path, &before)
		if err == nil {
			err = apiserver.Delete(e.t.Context(), e.Admin, path)
		}
		if err == nil {
			err = apiserver.Apply(e.t.Context(), e.Admin, coldstart.Namespace, fmt.Sprintf(
				`{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {selector: {app: web}, ports: %s}}`,
				coldstart.AppName(app), before.Spec.Ports))
		}
		if err != nil {
			e.t.Fatal(err)
		}
	}
	err := apiserver.Apply(e.t.Context(), e.Admin, coldstart.Namespace, fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {version: "1"}}
    spec: {containers: [{name: app, image: example.com/app}]}
  strategy:
    canary:
      stableService: %[1]s
      canaryService: %[2]s
      trafficRouting: {plugins: {kedify/http: {httpScaledObjectName: %[1]s}}}
      steps: [{setWeight: 20}, {pause: {}}, {setWeight: 50}, {pause: {}}, {setWeight: 80}, {pause: {}}]
`, coldstart.AppName(0), coldstart.AppName(1)))
	if err != nil {
		e.t.Fatal(err)
	}
}

// TestNoStepPassesUnrouted kills the interceptor for more than a minute, deletes its Lease, and partitions the plugin
// and then the interceptor from the API server, each in the middle of a canary. The canary waits, and continues by
// itself after the repair.
func TestNoStepPassesUnrouted(t *testing.T) {
	e := newEnvironment(t)
	e.patchRollout("", `{"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}`)
	checker := e.check()
	e.awaitPause("1")
	requests := traffic.Start(t, coldstart.Proxy, coldstart.AppHost(0), 500, podOf("1"), podOf("2"))
	requests.CheckShare(podOf("2"), .2)

	if err := e.replica.Kill(); err != nil {
		t.Fatal(err)
	}
	e.promote()
	e.awaitEvent("no interceptor renews its Lease")
	if err := e.Admin.Delete().AbsPath(leasePath).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	e.staysAt("2", "the Lease is deleted", "50 not yet verified")
	requests.CheckShare(podOf("2"), .2)
	e.startInterceptor()
	e.awaitPause("3")
	requests.CheckShare(podOf("2"), .5)

	e.ofPlugin.Partition()
	e.promote()
	e.staysAt("4", "the plugin has no connection", "failed")
	requests.CheckShare(podOf("2"), .5)
	e.ofPlugin.Heal()
	e.awaitPause("5")
	requests.CheckShare(podOf("2"), .8)

	e.ofInterceptor.Partition()
	e.promote()
	e.staysAt("6", "the interceptor has no connection", "100 not yet verified")
	requests.CheckShare(podOf("2"), .8)
	e.ofInterceptor.Heal()
	e.awaitStatus("phase", "Healthy")
	checker.end()
	e.awaitEndpoint(2)
	requests.CheckShare(podOf("2"), 1)
	requests.Stop()
}

// patchRollout merges a patch into the Rollout or its subresource.
func (e *environment) patchRollout(subresource, patch string) {
	e.t.Helper()
	err := e.Admin.Patch(types.MergePatchType).AbsPath(rolloutPath + subresource).Body([]byte(patch)).
		Do(e.t.Context()).Error()
	if err != nil {
		e.t.Fatal(err)
	}
}

// promote ends a pause, as kubectl argo rollouts promote does.
func (e *environment) promote() {
	e.t.Helper()
	e.patchRollout("/status", `{"status": {"pauseConditions": null}}`)
}

// awaitPause waits until the Rollout pauses at a step.
func (e *environment) awaitPause(step string) {
	e.t.Helper()
	e.awaitStatus("currentStepIndex", step)
	e.awaitStatus("phase", "Paused")
}

// awaitStatus waits for a value of a field of the Rollout's status, in its newest generation.
func (e *environment) awaitStatus(field, want string) {
	e.t.Helper()
	got := ""
	await.Described(e.t, field+" "+want, func() bool {
		rollout := e.rollout(e.t.Context())
		got = fmt.Sprint(rollout.Status[field])
		observed := fmt.Sprint(rollout.Status["observedGeneration"])
		return got == want && observed == strconv.FormatInt(rollout.Metadata.Generation, 10)
	}, func() string { return got })
}

// staysAt waits until the controller has called its router twice more without success, which its log contains as text,
// and checks that the Rollout is still at its step with its old Pods.
func (e *environment) staysAt(step, when, text string) {
	e.t.Helper()
	calls := func() int {
		lines, err := e.controller.LogLines(coldstart.Namespace, 1<<30)
		if err != nil {
			e.t.Fatal(err)
		}
		return strings.Count(lines, text)
	}
	before := calls()
	await.True(e.t, "two calls without success: "+when, func() bool { return calls() > before+1 })
	status := e.rollout(e.t.Context()).Status
	if got := fmt.Sprint(status["currentStepIndex"]); got != step || status["stableRS"] == status["currentPodHash"] {
		e.t.Errorf("%s: the Rollout is at step %s with the stable version %s, want step %s", when, got, status["stableRS"],
			step)
	}
}

// awaitEvent waits until the Rollout has a Warning Event about an unverified weight, with a text.
func (e *environment) awaitEvent(text string) {
	e.t.Helper()
	var events struct {
		Items []struct{ Type, Reason, Message string }
	}
	await.Described(e.t, "an Event: "+text, func() bool {
		err := apiserver.Get(e.t.Context(), e.Admin, "/api/v1/namespaces/"+coldstart.Namespace+"/events", &events)
		for _, event := range events.Items {
			if event.Type == "Warning" && event.Reason == "WeightNotVerified" && strings.Contains(event.Message, text) {
				return err == nil
			}
		}
		return false
	}, func() string { return fmt.Sprint(events.Items) })
}
