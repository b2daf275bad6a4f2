package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/assert"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

// other is the entry of a third-party plugin.
const other = `- name: "example/other"
  location: "` + serverURL + `/gatewayapi-plugin-linux-amd64"
`

// TestInstall installs in each way of the page with each version of Argo Rollouts, and uninstalls. Each step starts
// from the state of the previous one.
func TestInstall(t *testing.T) {
	manifests := strings.Fields(os.Getenv("INSTALL_ROLLOUTS"))
	if len(manifests) == 0 {
		t.Fatal("INSTALL_ROLLOUTS is not set: run this test by `make test-install`")
	}
	if os.Getenv("INSTALL_CHART") == "" {
		t.Fatal("INSTALL_CHART is not set, and option A needs the chart: run `make test-install CHART=<folder of " +
			"argo-helm's chart argo-rollouts>`")
	}
	w := up(t)
	step(t, "what the cluster came with is uninstalled", w.uninstallAll)
	step(t, "a server with the snapshot", w.serve)
	for _, named := range manifests {
		w.version, w.manifest, _ = strings.Cut(named, "=")
		w.runScript(t, "kubectl apply --server-side -f config/crd")
		step(t, w.version+", option A", w.optionA)
		step(t, w.version+", option B", w.optionB)
		step(t, w.version+", a wrong checksum", w.rejectWrongChecksum)
		step(t, w.version+", uninstalled beside another plugin", w.keepOtherPlugin)
		step(t, w.version+", option C", w.optionC)
		step(t, w.version+", uninstalled", w.uninstallPlugins)
	}
	step(t, "from Argo Rollouts alone to a measured 20 %", w.runCanary)
	step(t, "the scaler and the agent", w.autoscaling)
	w.runScript(t, "kubectl delete namespace rollouts-demo")
	step(t, "all of it is uninstalled", w.uninstallAll)
	step(t, "by the kubectl plugin: from Argo Rollouts and KEDA to a wake from zero and a measured 20 %",
		w.installByPlugin)
	step(t, "all of it is uninstalled by the kubectl plugin", w.uninstallByPlugin)
}

// step runs one step. After a failed step it skips the others.
func step(t *testing.T, name string, do func(t *testing.T)) {
	t.Helper()
	began := time.Now()
	if !t.Run(name, do) {
		t.FailNow()
	}
	t.Logf("%s: %.0f s", name, time.Since(began).Seconds())
}

// launch starts a cluster with what is installed by default.
func launch(t *testing.T, addons ...string) *environment {
	t.Helper()
	cluster, repo := testbed.Launch(t, provider.Spec{Addons: addons})
	w := &environment{Cluster: cluster, page: readPage(t, repo), repo: repo}
	t.Cleanup(func() {
		w.explainFailure(t)
		if err := os.RemoveAll(w.sharedFolder()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// up starts the cluster for the snapshot, with the CRDs of the Gateway API.
func up(t *testing.T) *environment {
	t.Helper()
	w := launch(t, "traefik", "argo-rollouts-v1.9.1", "keda")
	w.dist = filepath.Join(w.repo, "dist")
	var about struct {
		Version string `json:"version"`
	}
	raw, err := os.ReadFile(filepath.Join(w.dist, "metadata.json"))
	if err == nil {
		err = json.Unmarshal(raw, &about)
	}
	if err != nil {
		t.Fatal("run `make snapshot` first: ", err)
	}
	w.release = about.Version
	w.prepare(t)
	w.serveCharts(t)
	w.runScript(t, w.page.block(t, "Download the manifests", "sh", 0))
	testbed.TagImages(t, w.Cluster, w.release)
	return w
}

// removeRollouts uninstalls Argo Rollouts except for its CRDs.
func (w *environment) removeRollouts(t *testing.T) {
	t.Helper()
	w.runScript(t, `kubectl delete --ignore-not-found namespace argo-rollouts
kubectl delete --ignore-not-found clusterrole,clusterrolebinding --selector app.kubernetes.io/part-of=argo-rollouts
kubectl create namespace argo-rollouts`)
}

// trustServer makes the controller trust the server in the cluster, as on the page.
func (w *environment) trustServer(t *testing.T) {
	t.Helper()
	w.write(t, "plugin-server-ca.yaml", w.page.block(t, "Your own server", "yaml", 0))
	w.runScript(t, w.page.block(t, "Your own server", "sh", 0))
}

// optionA installs the chart of argo-helm, alone and as a dependency of another one.
func (w *environment) optionA(t *testing.T) {
	t.Helper()
	w.removeRollouts(t)
	// Helm does not take over CRDs that it has not installed.
	w.runScript(t, "kubectl get crds -o name | grep '[.]argoproj[.]io$' | xargs -r kubectl delete")
	values := w.expand(w.page.block(t, "Option A: the Helm chart of Argo Rollouts", "yaml", 0))
	w.write(t, "argo-rollouts-values.yaml", values)
	w.write(t, "plugin-server-values.yaml", w.page.block(t, "Your own server", "yaml", 1))
	w.write(t, "extra-values.yaml", "controller:\n  replicas: 1\n  image: {tag: "+w.version+"}\n")
	w.runScript(t, "kubectl -n argo-rollouts create configmap plugin-server-ca --from-file=ca.crt")
	install := w.page.block(t, "Option A: the Helm chart of Argo Rollouts", "sh", 0)
	w.runScript(t, strings.TrimSpace(install)+" --values plugin-server-values.yaml --values extra-values.yaml")
	w.runScript(t, "kubectl -n argo-rollouts rollout status deployment/argo-rollouts --timeout=120s")
	w.checkController(t)
	w.canaries(t)
	// As a dependency, with equal values, the output is equal except for file names.
	w.subChart(t)
}

// subChart upgrades the release to a chart that has Argo Rollouts' chart as a dependency, with the values of option A
// one level deeper.
func (w *environment) subChart(t *testing.T) {
	t.Helper()
	parent := filepath.Join(w.folder, "parent")
	if err := os.MkdirAll(filepath.Join(parent, "charts"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.write(t, "parent/Chart.yaml", "apiVersion: v2\nname: parent\nversion: 0.1.0\n")
	w.runScript(t, `cp -r "$INSTALL_CHART" parent/charts/argo-rollouts
for file in argo-rollouts-values plugin-server-values extra-values; do (echo 'argo-rollouts:'; sed 's/^/  /' $file.yaml) > sub-$file.yaml; done
helm get manifest argo-rollouts --namespace argo-rollouts > alone.yaml
helm upgrade argo-rollouts ./parent --namespace argo-rollouts --values sub-argo-rollouts-values.yaml \
  --values sub-plugin-server-values.yaml --values sub-extra-values.yaml
helm get manifest argo-rollouts --namespace argo-rollouts > sub.yaml
diff <(grep -v '^#' sub.yaml) <(grep -v '^#' alone.yaml)`)
}

// optionB installs Argo Rollouts' own manifest, and the plugins according to the release notes.
func (w *environment) optionB(t *testing.T) {
	t.Helper()
	w.removeRollouts(t)
	w.runScript(t, fmt.Sprintf(`kubectl apply -n argo-rollouts --server-side --force-conflicts -f %s
kubectl -n argo-rollouts set image deployment/argo-rollouts argo-rollouts=quay.io/argoproj/argo-rollouts:%s`, w.manifest, w.version))
	w.trustServer(t)
	w.write(t, "argo-rollouts-config.yaml", w.released(t))
	w.runScript(t, w.page.block(t, "Option B: an existing Argo Rollouts", "sh", 0))
	w.checkController(t)
	if output := w.tryScript(t.Context(), logs); !strings.Contains(output,
		"Downloading plugin kedify/http from: "+serverURL) {
		t.Errorf("the controller does not say that it has downloaded the plugin:\n%s", output)
	}
	w.restartContainer(t)
	w.canaries(t)
}

// logs shows the logs of the controllers, including those that have ended.
const logs = `for pod in $(kubectl -n argo-rollouts get pods -o name); do
  kubectl -n argo-rollouts logs $pod --tail=200; kubectl -n argo-rollouts logs $pod --previous --tail=50 2>/dev/null; done`

// released returns the ConfigMap of the release notes for linux/amd64.
func (w *environment) released(t *testing.T) string {
	t.Helper()
	notes, err := os.ReadFile(filepath.Join(w.dist, "release-notes.md"))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile("(?s)### linux/amd64\n\n```yaml\n(.*?)```").FindSubmatch(notes)
	if match == nil {
		t.Fatalf("the release notes have no ConfigMap for linux/amd64:\n%s", notes)
	}
	return w.expand(string(match[1]))
}

// checkController checks that the expected version of the controller runs.
func (w *environment) checkController(t *testing.T) {
	t.Helper()
	w.until(t, "the controller "+w.version, logs, "version="+w.version)
}

// rejectWrongChecksum checks that the controller rejects a binary with a wrong checksum and accepts it with the correct
// one.
func (w *environment) rejectWrongChecksum(t *testing.T) {
	t.Helper()
	right := w.released(t)
	sum := w.sums["rollouts-plugin-kedify-linux-amd64"]
	w.write(t, "argo-rollouts-config.yaml", strings.Replace(right, sum, strings.Repeat("0", len(sum)), 1))
	w.runScript(t, `kubectl apply --server-side --force-conflicts -f argo-rollouts-config.yaml
kubectl -n argo-rollouts rollout restart deployment/argo-rollouts`)
	refusal := "sha256 hash of downloaded plugin (" + serverURL +
		"/rollouts-plugin-kedify-linux-amd64) does not match expected hash"
	w.until(t, "the controller refuses a wrong checksum", logs, refusal)
	w.write(t, "argo-rollouts-config.yaml", right)
	w.runScript(t, `kubectl apply --server-side --force-conflicts -f argo-rollouts-config.yaml
kubectl -n argo-rollouts rollout restart deployment/argo-rollouts
kubectl -n argo-rollouts rollout status deployment/argo-rollouts --timeout=120s`)
}

// keepOtherPlugin uninstalls the plugins and checks that the entry of another one remains.
func (w *environment) keepOtherPlugin(t *testing.T) {
	t.Helper()
	with := w.released(t) + "    " + strings.ReplaceAll(strings.TrimSpace(other), "\n", "\n    ") + "\n"
	w.write(t, "argo-rollouts-config.yaml", with)
	w.runScript(t, "kubectl apply --server-side --force-conflicts -f argo-rollouts-config.yaml")
	w.uninstall(t, other)
	entries := w.runScript(t, "kubectl -n argo-rollouts get configmap argo-rollouts-config -o "+
		"jsonpath='{.data.trafficRouterPlugins}'")
	if entries != other {
		t.Errorf("the entries of others were\n%s, they are\n%s", other, entries)
	}
	w.until(t, "the controller loads the other plugin", logs, "Downloading plugin example/other")
}

// optionC installs the plugins with an init container.
func (w *environment) optionC(t *testing.T) {
	t.Helper()
	w.write(t, "argo-rollouts-config.yaml", w.page.block(t, "Option C: an init container", "yaml", 0))
	w.runScript(t, w.page.block(t, "Option C: an init container", "sh", 0))
	users := w.runScript(t, `kubectl -n argo-rollouts get deployment argo-rollouts \
  -o jsonpath='{.spec.template.spec.initContainers[*].securityContext.runAsUser}'`)
	if users != "999 999" {
		t.Errorf("the init containers run as %q", users)
	}
	w.canaries(t)
}

// canaries runs a canary by each router to its first pause.
func (w *environment) canaries(t *testing.T) {
	t.Helper()
	manifest, err := filepath.Abs("testdata/canaries.yaml")
	if err != nil {
		t.Fatal(err)
	}
	spent, ran := w.spent, w.ran
	w.runScript(t, `kubectl create namespace canaries
kubectl -n canaries apply -f `+manifest+`
kubectl -n canaries wait rollout --all --for=jsonpath='{.status.phase}'=Healthy --timeout=120s
for rollout in web route; do kubectl -n canaries patch rollout $rollout --type json \
  --patch '[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"argoproj/rollouts-demo:yellow"}]'; done
kubectl -n canaries wait rollout --all --for=jsonpath='{.status.phase}'=Paused --timeout=120s`)
	written := w.runScript(t, `kubectl -n canaries get httpscaledobject web -o jsonpath='{.metadata.annotations.http\.kedify\.io/weighted-backends}'
kubectl -n canaries get httproute route -o jsonpath='{.spec.rules[0].backendRefs[*].weight}'`)
	for _, want := range []string{"weight: 80", "weight: 20", "80 20"} {
		if !strings.Contains(written, want) {
			t.Errorf("%q is not in what the routers wrote:\n%s", want, written)
		}
	}
	w.runScript(t, "kubectl delete namespace canaries")
	w.spent, w.ran = spent, ran
}

// autoscaling installs the scaler and the agent.
func (w *environment) autoscaling(t *testing.T) {
	t.Helper()
	w.runScript(t, w.page.block(t, "The data path", "sh", 1))
}

// uninstall uninstalls the plugins according to the page; remaining is the edited list of plugins.
func (w *environment) uninstall(t *testing.T, remaining string) {
	t.Helper()
	w.runScript(t, w.page.block(t, "Remove the plugins", "sh", 0))
	w.write(t, "plugins.yaml", remaining)
	w.runScript(t, w.page.block(t, "Remove the plugins", "sh", 1))
}

// uninstallPlugins deletes what the options have created.
func (w *environment) uninstallPlugins(t *testing.T) {
	t.Helper()
	w.uninstall(t, "[]\n")
	w.runScript(t, w.page.block(t, "Remove the CRD", "sh", 0))
	w.checkNothingRemains(t)
}

// uninstallAll also uninstalls the data path.
func (w *environment) uninstallAll(t *testing.T) {
	t.Helper()
	w.uninstall(t, "[]\n")
	w.runScript(t, w.page.block(t, "Remove the data path", "sh", 0)+w.page.block(t, "Remove the CRD", "sh", 0))
	w.checkNothingRemains(t)
}

// ours matches the names of this project's objects.
var ours = regexp.MustCompile(
	`(?i)kedify|http-add-on|keda-add-ons|gatewayapi-plugin|argo-rollouts-gateway-api|http\.keda\.sh|httpscaledobject`)

// checkNothingRemains checks the names of all objects of the cluster, and the controller's configuration. Some
// dependents are deleted a moment after their owners.
func (w *environment) checkNothingRemains(t *testing.T) {
	t.Helper()
	var left []string
	err := await.Until(t.Context(), "nothing to be left", func() bool {
		left = w.remainingObjects(t)
		return len(left) == 0
	}, func() string { return strings.Join(left, ", ") })
	if err != nil {
		t.Error(err)
	}
}

// remainingObjects lists the remaining objects of this project.
func (w *environment) remainingObjects(t *testing.T) []string {
	t.Helper()
	all := w.runScript(t, `kubectl get -A -o jsonpath='{range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{"\n"}{end}' \
  "$(kubectl api-resources --verbs=list -o name | grep -v -e '^events' -e '\.metrics\.k8s\.io$' | paste -sd,)"`)
	if strings.Count(all, "\n") < 50 {
		t.Fatalf("only these objects are found:\n%s", all)
	}
	all += w.runScript(t, "kubectl -n argo-rollouts get deployment/argo-rollouts configmap/argo-rollouts-config -o yaml")
	var out []string
	for line := range strings.Lines(all) {
		line = strings.TrimSpace(line)
		// The last-applied-configuration annotation, which is JSON, is not an object.
		if ours.MatchString(line) && !strings.HasPrefix(line, "{") {
			out = append(out, line)
		}
	}
	return out
}

// runCanary goes from a cluster with Argo Rollouts but none of our objects to a measured split, and counts the
// commands.
func (w *environment) runCanary(t *testing.T) {
	t.Helper()
	w.write(t, "argo-rollouts-config.yaml", w.released(t))
	w.spent, w.ran = 0, 0
	began := time.Now()
	for _, heading := range []string{
		"Download the manifests", "Option B: an existing Argo Rollouts", "The data path", "An application",
	} {
		w.runScript(t, w.page.block(t, heading, "sh", 0))
	}
	w.measure(t, began)
}

// measuredRate is the number of requests per second in the measurement of a split.
const measuredRate = 100

// measure sends requests until the share of the new version is measured, and logs the commands so far.
func (w *environment) measure(t *testing.T, began time.Time) {
	t.Helper()
	client, err := load.Start(t.Context(), load.Config{
		Address: w.Addresses[provider.ProxyAddress], Host: testbed.Host, Path: "/color",
		Rate: measuredRate, Timeout: await.Patience(),
		MaxInFlight: measuredRate * int(await.Patience().Seconds()), Colors: []string{"blue", "yellow"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Stop()
	result, err := assert.Expectation{
		Color: "yellow", Share: 0.2, From: time.Now(), First: 1000, Second: 2000,
		Rule: stats.DefaultRule(), Stalls: stall.Watch(t),
	}.Check(t.Context(), client.Sample)
	switch {
	case errors.Is(err, assert.ErrSplit):
		invariant.Broken(t, invariant.Split, "%v", err)
	case err != nil:
		t.Fatal(err)
	}
	if result.Window.Failed > 0 {
		invariant.Broken(t, invariant.FailedRequests, "%d of %d", result.Window.Failed, result.Window.Done)
	}
	t.Logf("%d commands, %.0f s in all, %.0f s of them the commands: %d of %d requests got the new version",
		w.ran, time.Since(began).Seconds(), w.spent.Seconds(), result.Hits, result.Total)
}
