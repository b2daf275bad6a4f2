package guide

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
)

// The guide's commands that come more than once.
const (
	annotation = `kubectl -n rollouts-demo get httpso rollouts-demo -o jsonpath='{.metadata.annotations.http\.kedify\.io/weighted-backends}'`
	objects    = "kubectl -n rollouts-demo get rollout,httpso,scaledobject"
	shown      = "kubectl argo rollouts get rollout rollouts-demo -n rollouts-demo"
	promote    = "kubectl argo rollouts -n rollouts-demo promote rollouts-demo"
	abort      = "kubectl argo rollouts -n rollouts-demo abort rollouts-demo"
)

// setImage returns the command that starts a canary.
func setImage(color string) string {
	return "kubectl argo rollouts -n rollouts-demo set image rollouts-demo rollouts-demo=argoproj/rollouts-demo:" + color
}

// TestGuide runs the guide from Step 1 to its Cleanup.
func TestGuide(t *testing.T) {
	r := launch(t)
	r.chdir(t, "scaledobject.yaml", nil)
	r.restartController(t)
	r.deploy(t, 10)
	r.startCanary(t, 2, "blue", "yellow")
	r.troubleshoot(t)
	r.promote(t)
	r.startCanary(t, 3, "yellow", "purple")
	r.abort(t, "yellow")
	r.cleanUp(t)
}

// TestPublicSample does the same with the ScaledObject of the vendor's published sample and its two wait commands. The
// Ingress controller publishes an IP address.
func TestPublicSample(t *testing.T) {
	r := launch(t)
	ip := r.publishIP(t)
	r.chdir(t, "scaledobject.yaml", sample)
	r.deploy(t, 5)
	if answers := r.askPublished(t, ip); answers["blue"] != 50 {
		t.Errorf("50 requests to %s before the canary: %v, want only blue", ip, answers)
	}
	r.startCanary(t, 2, "blue", "yellow")
	if answers := r.askPublished(t, ip); !isFifth(answers["yellow"]) || answers["blue"]+answers["yellow"] != 50 {
		t.Errorf("50 requests to %s at 20 %%: %v", ip, answers)
	}
	r.promote(t)
	r.cleanUp(t)
}

// sample converts the guide's ScaledObject into that of the published sample.
func sample(text string) string {
	return strings.NewReplacer(
		"  maxReplicaCount: 10\n", `  maxReplicaCount: 5
  cooldownPeriod: 5
  advanced:
    restoreToOriginalReplicaCount: true
    horizontalPodAutoscalerConfig:
      behavior:
        scaleDown:
          stabilizationWindowSeconds: 5
`,
		`targetValue: "5"`, `targetValue: "1000"`,
	).Replace(text)
}

// chdir creates the guide's manifests.yaml, which is two files in this repository, in the working directory of the
// commands.
func (r *reader) chdir(t *testing.T, scaledObject string, edit func(string) string) {
	t.Helper()
	r.dir = t.TempDir()
	var all []string
	for _, name := range []string{"manifests.yaml", scaledObject} {
		text, err := os.ReadFile(filepath.Join(r.repo, "examples", "argo-rollouts-canary", name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	if edit != nil {
		edited := edit(all[1])
		if edited == all[1] {
			t.Fatal("the guide's ScaledObject has nothing of what the sample's has otherwise")
		}
		all[1] = edited
	}
	if err := os.WriteFile(filepath.Join(r.dir, "manifests.yaml"), []byte(strings.Join(all, "---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// restartController is the end of Step 1. The installation covers the registration of the plugin and its permissions:
// see docs/how-to/install.md.
func (r *reader) restartController(t *testing.T) {
	t.Helper()
	registered := r.runLine(t, "kubectl -n argo-rollouts get configmap argo-rollouts-config -o "+
		"jsonpath={.data.trafficRouterPlugins}")
	if !strings.Contains(registered, "kedify/http") {
		t.Errorf("the plugin is not registered: %s", registered)
	}
	r.runLine(t, "kubectl -n argo-rollouts rollout restart deploy/argo-rollouts")
	r.awaitLine(t, "kubectl -n argo-rollouts rollout status deploy/argo-rollouts")
}

// deploy is Step 2, with a ScaledObject of most replicas at most.
func (r *reader) deploy(t *testing.T, most int) {
	t.Helper()
	r.runLine(t, "kubectl create ns rollouts-demo")
	created := r.runLine(t, "kubectl -n rollouts-demo apply -f manifests.yaml")
	want := `service/rollouts-demo-stable created
service/rollouts-demo-canary created
ingress.networking.k8s.io/rollouts-demo created
rollout.argoproj.io/rollouts-demo created
scaledobject.keda.sh/rollouts-demo created`
	if diff := cmp.Diff(want, created); diff != "" {
		t.Errorf("output of apply (-want +got):\n%s", diff)
	}
	r.awaitLine(t, "kubectl -n rollouts-demo wait ingress/rollouts-demo --for=jsonpath={.status.loadBalancer.ingress}")
	r.awaitLine(t, "kubectl -n rollouts-demo wait ingress/rollouts-demo "+
		"--for=jsonpath={.spec.rules[0].http.paths[0].backend.service.name}=kedify-proxy")
	r.awaitLine(t, "kubectl -n rollouts-demo wait rollout/rollouts-demo --for=jsonpath={.status.phase}=Healthy")
	r.awaitLine(t, "kubectl -n rollouts-demo wait scaledobject/rollouts-demo --for=condition=Ready")
	r.checkTable(t, r.runLine(t, objects), most)
	r.awaitTree(t, revision{1, "stable", 2})
}

// The columns of the guide's tables.
var columns = []string{
	"NAME DESIRED CURRENT UP-TO-DATE AVAILABLE AGE",
	"NAME TARGETWORKLOAD TARGETSERVICE MINREPLICAS MAXREPLICAS AGE ACTIVE",
	"NAME SCALETARGETKIND SCALETARGETNAME MIN MAX READY ACTIVE FALLBACK PAUSED TRIGGERS AUTHENTICATIONS AGE",
}

// checkTable compares the columns, and the fields of the rows that do not depend on time: whether a column that the
// guide leaves blank is filled, and whether KEDA reports activity, are differences that the example's README lists.
func (*reader) checkTable(t *testing.T, printed string, most int) {
	t.Helper()
	var headers, rows []string
	for line := range strings.Lines(printed) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[0] == "NAME":
			headers = append(headers, strings.Join(fields, " "))
		default:
			rows = append(rows, strings.Join(fields[:min(compared(fields[0]), len(fields))], " "))
			if strings.HasPrefix(fields[0], "scaledobject") && !slices.Contains(fields, "external-push") {
				t.Errorf("TRIGGERS of the ScaledObject is not external-push: %s", line)
			}
		}
	}
	if diff := cmp.Diff(columns, headers); diff != "" {
		t.Errorf("columns (-guide +ours):\n%s", diff)
	}
	want := []string{
		"rollout.argoproj.io/rollouts-demo 2 2 2 2",
		fmt.Sprintf("httpscaledobject.http.keda.sh/rollouts-demo argoproj.io/v1alpha1/Rollout/rollouts-demo "+
			"rollouts-demo-stable:80 2 %d", most),
		fmt.Sprintf("scaledobject.keda.sh/rollouts-demo argoproj.io/v1alpha1.Rollout rollouts-demo 2 %d True", most),
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// compared returns the number of compared fields of a row.
func compared(object string) int {
	if strings.HasPrefix(object, "scaledobject") {
		return 6
	}
	return 5
}

// startCanary is Step 3: the image, the step table, the tree with the number of the revision, the annotation and 50
// requests.
func (r *reader) startCanary(t *testing.T, number int, from, to string) {
	t.Helper()
	if output := r.runLine(t, setImage(to)); output != `rollout "rollouts-demo" image updated` {
		t.Errorf("set image printed %s", output)
	}
	r.awaitLine(t, "kubectl -n rollouts-demo wait rollout/rollouts-demo --for=jsonpath={.status.phase}=Paused")
	r.steps(t, from, to)
	r.awaitTree(t, revision{number, "canary", 1}, revision{number - 1, "stable", 2})
	want := "- service: rollouts-demo-stable\n  weight: 80\n- service: rollouts-demo-canary\n  weight: 20"
	if diff := cmp.Diff(want, r.runLine(t, annotation)); diff != "" {
		t.Errorf("annotation (-guide +ours):\n%s", diff)
	}
	counts := r.askApp(t)
	if n := counts[to]; !isFifth(n) || counts[from]+n != 50 {
		t.Errorf("of 50 requests %d got %s and %d %s; 2 to 18 is within 3 σ of 20 %%", n, to, counts[from], from)
	}
}

// isFifth reports whether a number of 50 requests is within 3 σ of 20 %: 10, with a standard deviation of 2.8.
func isFifth(n int) bool { return n >= 2 && n <= 18 }

// steps compares the shown Rollout with the guide.
func (r *reader) steps(t *testing.T, from, to string) {
	t.Helper()
	wanted := []string{
		"Name: rollouts-demo", "Namespace: rollouts-demo", "Status: ॥ Paused", "Message: CanaryPauseStep", "Strategy: Canary",
		"Step: 1/6", "SetWeight: 20", "ActualWeight: 20",
		"argoproj/rollouts-demo:" + from + " (stable)", "argoproj/rollouts-demo:" + to +
			" (canary)", "Desired: 2", "Updated: 1",
	}
	if from == "blue" { // later the Pods of the previous version also exist for a while
		wanted = append(wanted, "Current: 3", "Ready: 3", "Available: 3")
	}
	plain := regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(r.runLine(t, shown), "")
	output := strings.Join(strings.Fields(plain), " ")
	for _, line := range wanted {
		if !strings.Contains(output, line) {
			t.Errorf("get rollout doesn't say %q", line)
		}
	}
}

// askApp sends the guide's 50 requests.
func (r *reader) askApp(t *testing.T) map[string]int {
	t.Helper()
	output := r.runLine(t, `for i in $(seq 1 50); do
  curl -s -H 'host: rollouts-demo.example.com' http://`+r.Addresses[provider.IngressAddress]+`/color
  echo
done | sort | uniq -c`)
	counts := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\s*(\d+) "?(\w+)"?$`).FindAllStringSubmatch(output, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		counts[m[2]] = n
	}
	return counts
}

// promote is Step 4 up to the end of the canary. The guide's `get rollout -w` shows each step meanwhile.
func (r *reader) promote(t *testing.T) {
	t.Helper()
	output := r.runLine(t, shown+` -w --no-color >frames.txt & trap "kill $!" EXIT
`+promote+`
kubectl -n rollouts-demo wait rollout/rollouts-demo --for=jsonpath={.status.phase}=Healthy `+testbed.WaitTimeout()+`
grep -E '^ +SetWeight:' frames.txt | uniq`)
	lines := strings.Split(output, "\n")
	if lines[0] != "rollout 'rollouts-demo' promoted" {
		t.Errorf("promote printed %s", lines[0])
	}
	// The last frame may not be written yet.
	if text := strings.Join(strings.Fields(output), " "); !strings.Contains(text, "SetWeight: 50 SetWeight: 80") {
		t.Errorf("-w does not show the weights 50 and 80, one after the other: %s", text)
	}
	r.awaitTree(t, revision{2, "stable", 2})
	r.awaitEnd(t, "yellow")
}

// abort runs the abort.
func (r *reader) abort(t *testing.T, stable string) {
	t.Helper()
	if output := r.runLine(t, abort); output != "rollout 'rollouts-demo' aborted" {
		t.Errorf("abort printed %s", output)
	}
	r.awaitLine(t, "kubectl -n rollouts-demo wait rollout/rollouts-demo --for=jsonpath={.status.phase}=Degraded")
	r.awaitEnd(t, stable)
}

// awaitEnd checks that the annotation is gone and one version gets all requests.
func (r *reader) awaitEnd(t *testing.T, color string) {
	t.Helper()
	r.until(t, "the annotation to be gone", func() (string, bool) {
		text := r.runLine(t, annotation)
		return text, text == ""
	})
	if counts := r.askApp(t); counts[color] != 50 {
		t.Errorf("50 requests after the canary: %v, want only %s", counts, color)
	}
}

// troubleshoot runs the guide's troubleshooting commands on a correct installation.
func (r *reader) troubleshoot(t *testing.T) {
	t.Helper()
	if output := r.runLine(t, `kubectl -n argo-rollouts logs deploy/argo-rollouts | grep -i "httpscaled\|forbidden" | grep -i forbidden || true`); output != "" {
		t.Errorf("the controller's log speaks of what is forbidden: %s", output)
	}
	if output := r.runLine(t,
		`kubectl -n argo-rollouts logs deploy/argo-rollouts | grep -i "plugin" | head -3`); output == "" {
		t.Error("the controller's log doesn't speak of plugins")
	}
	names := r.runLine(t, `kubectl -n rollouts-demo port-forward svc/kedify-proxy-admin 9901:9901 >/dev/null & trap "kill $!" EXIT
for i in $(seq 1 50); do curl -sf localhost:9901/ready >/dev/null && break; sleep 0.2; done
curl -s localhost:9901/config_dump | grep -E '"name": "[^"]*rollouts-demo' | sort -u`)
	for _, service := range []string{"rollouts-demo-stable", "rollouts-demo-canary"} {
		if !strings.Contains(names, fmt.Sprintf(`"name": "rollouts-demo/rollouts-demo/%s"`, service)) {
			t.Errorf("config_dump names no cluster of Service %s", service)
		}
	}
	if output := r.runLine(t, "kubectl -n rollouts-demo get rs -l app=rollouts-demo"); strings.Count(output,
		"rollouts-demo-") != 2 {
		t.Errorf("ReplicaSets of two versions: %s", output)
	}
	if output := r.runLine(t, "kubectl -n rollouts-demo get endpointslices"); !strings.Contains(output,
		"rollouts-demo-canary-") {
		t.Errorf("no EndpointSlice of the canary's Service: %s", output)
	}
}

// cleanUp is the guide's Cleanup. No object of the namespace may remain.
func (r *reader) cleanUp(t *testing.T) {
	t.Helper()
	r.awaitLine(t, "kubectl delete ns rollouts-demo")
	if left := r.runLine(t, "kubectl get ingress,rollout,httpso,scaledobject,hpa -A -o name | grep rollouts-demo || "+
		"true"); left != "" {
		t.Errorf("left: %s", left)
	}
}
