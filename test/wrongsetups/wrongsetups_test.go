package wrongsetups_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// native is the architecture of this machine, on which the controller runs.
const native = runtime.GOARCH

const (
	bindings    = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/"
	roleBinding = bindings + "argo-rollouts-kedify-http"
)

// setup is a wrong set-up. The page shows all fields but the last three.
type setup struct {
	name    string
	place   string // where the message is
	message string
	codes   []string // the findings of doctor
	fix     string

	router   router
	replicas int // 1 if 0
	play     func(*environment)
}

// setups returns all wrong set-ups, in the order of the page.
func setups() []setup {
	const (
		log      = "log of the controller"
		event    = "Event `TrafficRoutingError`"
		mismatch = "failed to get traffic router plugin kedify/http: unable to start plugin system: unable to get plugin " +
			"client (kedify/http): fork/exec /home/argo-rollouts/plugin-bin/kedify/http: exec format error"
		forbidden = `failed to set weight via plugin: HTTPScaledObject "NAMESPACE/web" of rollout "NAMESPACE/web": ` +
			`httpscaledobjects.http.keda.sh "web" is forbidden: User "system:serviceaccount:argo-rollouts:ACCOUNT" cannot ` +
			`get resource "httpscaledobjects" in API group "http.keda.sh" in the namespace "NAMESPACE": allow the ` +
			`controller's ServiceAccount to get and patch httpscaledobjects: apply the ClusterRole and ClusterRoleBinding ` +
			`argo-rollouts-kedify-http`
	)
	return []setup{
		{
			name: "the plugin is not registered", place: log, router: gateway, play: notRegistered,
			message: "failed to get traffic router plugin argoproj-labs/gatewayAPI: unable to start plugin system: unable to " +
				"find plugin (argoproj-labs/gatewayAPI): plugin argoproj-labs/gatewayAPI not configured in configmap",
			codes: []string{"PluginNotRegistered"}, fix: "add the entry, and restart the controller",
		},
		{
			name: "the plugin is registered, and the controller was not restarted", place: log, router: kedify,
			play: notRestarted,
			message: "failed to get traffic router plugin kedify/http: unable to start plugin system: unable to " +
				"find plugin (kedify/http): plugin kedify/http not configured in configmap",
			codes: []string{"ControllerOutdated"}, fix: "restart the controller",
		},
		{
			name: "the asset of another architecture", place: log, router: kedify, play: otherArchitecture,
			message: mismatch, codes: []string{"ArchitectureMismatch"},
			fix: "use the asset for the controller's node, and its checksum, and restart the controller",
		},
		{
			name: "a file of another architecture at `file://`", place: log, router: kedify, play: otherFile,
			message: mismatch, codes: []string{"CanaryNotStarted"},
			fix: "use a file or image for the controller's node, and restart the controller",
		},
		{
			name: "the router's field next to `plugins`", place: "`kubectl apply`", router: gateway, play: wrongField,
			message: `strict decoding error: unknown field "spec.strategy.canary.trafficRouting.gatewayAPI"`,
			fix:     "move it below `plugins`, under the router's name. Nothing was stored",
		},
		{
			name:  "the same with `--validate=false`, or from a tool that does not validate",
			place: "none: the steps pass, and the canary gets no request", router: gateway, play: droppedField,
			codes: []string{"RouterMissing"}, fix: "move it below `plugins`, under the router's name",
		},
		{
			name: "an unknown key in the router's configuration", place: "Event `InvalidTrafficRouting`", router: kedify, play: unknownKey,
			message: `rollout "NAMESPACE/web": spec.strategy.canary.trafficRouting.` +
				`plugins["kedify/http"] has the unknown key "httpScaledObject": remove it, the keys are ` +
				`httpScaledObjectName, immediateAbort, interceptorRoute, limitWeightToReadyPods, safePromotion, stickiness and verifyDataPlane`,
			codes: []string{"RouterConfig"}, fix: "correct the key in the Rollout",
		},
		{
			name: "no role binding", place: event, router: kedify, play: noBinding,
			message: strings.ReplaceAll(forbidden, "ACCOUNT", "argo-rollouts"), codes: []string{"Forbidden"},
			fix: "apply `config/argo-rollouts/rbac.yaml`",
		},
		{
			name: "a role binding for another ServiceAccount than the controller's", place: event, router: kedify,
			play: otherAccount, message: strings.ReplaceAll(forbidden, "ACCOUNT", "rollouts"), codes: []string{"Forbidden"},
			fix: "apply `config/argo-rollouts/rbac.yaml` with the controller's ServiceAccount as the subject",
		},
		{
			name: "`maxSurge: 0` and `maxUnavailable: 0`", place: "status of the Rollout", router: gateway,
			play: noSurge,
			message: `InvalidSpec: The Rollout "web" is invalid: spec.strategy.maxSurge: Invalid value: 0: MaxSurge and ` +
				`MaxUnavailable both can not be zero`,
			codes: []string{"RolloutInvalid"}, fix: "remove `maxUnavailable: 0`",
		},
		{
			name:  "`maxSurge: 0` on one replica",
			place: "none: with a traffic router the canary gets its Pod in addition to the stable one", router: gateway,
			play: onlySurge, fix: "nothing: not an error with a traffic router",
		},
	}
}

// TestWrongSetups starts a canary in each wrong set-up. All Rollouts have a healthy first version. The set-ups change the
// only controller and its permissions, so they run one after another.
func TestWrongSetups(t *testing.T) {
	c := &shared
	c.register(t, c.registered())
	c.restart(t, apiserver.RolloutsToken)
	t.Cleanup(func() { _ = c.controller.Kill() })
	simulate(t, c)
	var all []*environment
	for i, row := range setups() {
		namespace := fmt.Sprint("setup-", i+1)
		row.message = strings.ReplaceAll(row.message, "NAMESPACE", namespace)
		s := &environment{cluster: c, t: t, row: row, namespace: namespace, restore: func() {}}
		s.prepare()
		s.apply(s.rollout("1", s.routing()))
		all = append(all, s)
	}
	for _, s := range all {
		s.phase("Healthy")
		s.codes()
	}
	for _, s := range all {
		t.Run(s.row.name, func(t *testing.T) {
			s.t = t
			s.row.play(s)
			s.continues()
			s.restore()
		})
		if t.Failed() {
			t.Fatal("the cluster may still be set up wrongly")
		}
	}
}

// stuck checks that a canary that the controller does not start has no Pod and no weight, and what doctor finds.
func (s *environment) stuck() {
	s.t.Helper()
	s.newReplicas("0")
	s.weights("100/0")
	s.phase("Progressing")
	s.codes(s.row.codes...)
}

// replace writes another list of plugins, and restarts the controller.
func (s *environment) replace(list string) {
	s.t.Helper()
	s.register(s.t, list)
	s.restart(s.t, apiserver.RolloutsToken)
}

func notRegistered(s *environment) {
	s.replace(s.entryOf(kedify))
	s.update()
	s.logged()
	s.stuck()
	s.replace(s.registered())
}

func notRestarted(s *environment) {
	s.replace(s.entryOf(gateway))
	started := time.Now().Unix()
	s.update()
	s.logged()
	// The API server stores times in seconds: only a later second shows that the controller is older than the list.
	await.True(s.t, "the next second", func() bool { return time.Now().Unix() > started })
	s.register(s.t, s.registered())
	s.stuck()
	s.restart(s.t, apiserver.RolloutsToken)
}

// otherArchitecture lets the controller download an asset from a web server.
func otherArchitecture(s *environment) {
	file := foreign(s)
	name, sum := "rollouts-plugin-kedify-linux-"+other(), sha256.Sum256(file)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(file) }))
	defer server.Close()
	s.replace(entry(kedify.plugin, server.URL+"/v1/"+name, hex.EncodeToString(sum[:])) + s.entryOf(gateway))
	s.update()
	s.logged()
	s.stuck()
	s.replace(s.registered())
}

func otherFile(s *environment) {
	name := filepath.Join(s.t.TempDir(), "rollouts-plugin-kedify")
	if err := os.WriteFile(name, foreign(s), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.replace(entry(kedify.plugin, "file://"+name, "") + s.entryOf(gateway))
	s.update()
	s.logged()
	s.stuck()
	s.replace(s.registered())
}

// other returns an architecture that is not that of this machine.
func other() string {
	if native == "arm64" {
		return "amd64"
	}
	return "arm64"
}

// foreign returns the plugin with the field e_machine of the other architecture (elf(5)), by which a kernel rejects a
// program.
func foreign(s *environment) []byte {
	s.t.Helper()
	file, err := os.ReadFile(filepath.Join(s.folder, kedify.program))
	if err != nil {
		s.t.Fatal(err)
	}
	const offset = 18
	machines := map[string]uint16{"amd64": 62, "arm64": 183} // EM_X86_64, EM_AARCH64
	if got := binary.LittleEndian.Uint16(file[offset:]); got != machines[native] {
		s.t.Fatalf("the plugin is for machine %d, want %d", got, machines[native])
	}
	binary.LittleEndian.PutUint16(file[offset:], machines[other()])
	return file
}

// misplaced is the field trafficRouting with the router's configuration next to plugins.
const misplaced = `{gatewayAPI: {httpRoute: web}}`

// wrongField applies the manifest to the Rollout, and creates another one.
func wrongField(s *environment) {
	before := s.read(s.t.Context()).Metadata.Generation
	for _, name := range []string{"web", "other"} {
		manifest := strings.Replace(s.rollout("2", misplaced), "name: web,", "name: "+name+",", 1)
		out, err := s.kubectl(manifest, "apply", "-f", "-")
		if err == nil || !strings.HasSuffix(strings.TrimSpace(out), s.row.message) {
			s.t.Errorf("kubectl apply: %v, printed %q, want %q", err, out, s.row.message)
		}
	}
	if after := s.read(s.t.Context()).Metadata.Generation; after != before {
		s.t.Errorf("the Rollout has changed: generation %d, want %d", after, before)
	}
	s.store(s.rollout("2", s.routing()))
}

// store applies a manifest with kubectl.
func (s *environment) store(manifest string, args ...string) {
	s.t.Helper()
	out, err := s.kubectl(manifest, append([]string{"apply", "-f", "-"}, args...)...)
	if err != nil {
		s.t.Fatalf("kubectl apply: %v: %s", err, out)
	}
}

func droppedField(s *environment) {
	s.canary(map[string]any{"trafficRouting": nil}) // it was applied without kubectl
	s.store(s.rollout("2", misplaced), "--validate=false")
	s.phase("Paused")
	s.newReplicas("1")
	s.weights("100/0")
	s.codes(s.row.codes...)
	s.store(s.rollout("2", s.routing()))
}

func unknownKey(s *environment) {
	configured := func(config map[string]any) {
		s.canary(map[string]any{"trafficRouting": map[string]any{"plugins": map[string]any{kedify.plugin: config}}})
	}
	configured(map[string]any{"httpScaledObjectName": nil, "httpScaledObject": "web"})
	s.update()
	s.warned("InvalidTrafficRouting")
	s.stuck()
	configured(map[string]any{"httpScaledObjectName": "web", "httpScaledObject": nil})
}

func noBinding(s *environment) {
	if err := apiserver.Delete(s.t.Context(), s.admin, roleBinding); err != nil {
		s.t.Fatal(err)
	}
	s.restart(s.t, apiserver.RolloutsToken)
	s.update()
	s.warned("TrafficRoutingError")
	s.stuck()
	s.grep()
	s.bind("argo-rollouts")
}

// grep runs the command of the published guide on the controller's log.
func (s *environment) grep() {
	s.t.Helper()
	out, err := s.run(s.t.Context(), "grep", s.log(s.namespace), "-i", `httpscaled\|forbidden`)
	if err != nil || !strings.Contains(out, s.row.message) {
		s.t.Errorf("grep: %v: %s", err, out)
	}
}

// bind applies the role of the plugin with a ServiceAccount as the subject.
func (s *environment) bind(account string) {
	s.t.Helper()
	manifest, err := os.ReadFile(manifests + "argo-rollouts/rbac.yaml")
	if err != nil {
		s.t.Fatal(err)
	}
	const subject = "name: argo-rollouts\n    namespace: argo-rollouts\n"
	if strings.Count(string(manifest), subject) != 1 {
		s.t.Fatalf("not one subject in %s", manifest)
	}
	s.apply(strings.Replace(string(manifest), subject, strings.Replace(subject, "argo-rollouts", account, 1), 1))
}

func otherAccount(s *environment) {
	account := func(name string) {
		s.patch(deploymentPath, map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"serviceAccountName": name,
		}}}})
	}
	account("rollouts")
	s.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: other-account}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: argo-rollouts}
subjects: [{kind: ServiceAccount, name: rollouts, namespace: argo-rollouts}]
`)
	s.restart(s.t, apiserver.OtherRolloutsToken)
	s.restore = func() {
		account("argo-rollouts")
		s.bind("argo-rollouts")
		s.restart(s.t, apiserver.RolloutsToken)
	}
	s.update()
	s.warned("TrafficRoutingError")
	s.stuck()
	s.bind("rollouts")
}

func noSurge(s *environment) {
	s.canary(map[string]any{"maxSurge": 0, "maxUnavailable": 0})
	s.update()
	s.status()
	s.weights("100/0")
	s.codes(s.row.codes...)
	s.canary(map[string]any{"maxUnavailable": nil})
}

// onlySurge has one stable Pod, and gets a canary Pod next to it.
func onlySurge(s *environment) {
	s.canary(map[string]any{"maxSurge": 0})
	s.update()
	s.phase("Paused")
	if read := s.read(s.t.Context()); read.Status.AvailableReplicas != 2 || read.Status.UpdatedReplicas != 1 {
		s.t.Errorf("%d Pods are available, %d of them new; want 2 and 1", read.Status.AvailableReplicas,
			read.Status.UpdatedReplicas)
	}
}
