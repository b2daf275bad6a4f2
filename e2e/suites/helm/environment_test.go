package helm

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/pages"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/helmcli"
	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
)

const (
	// release is the name of the release in the commands of the pages, keda its namespace.
	release, keda = "kedify-http", "keda"
	// firstTag and secondTag are tags of this checkout's images.
	firstTag, secondTag = "1234567", "89abcde"
	// demo is the namespace of the application in docs/how-to/install.md.
	demo = "rollouts-demo"
)

// awaitController waits until the Argo Rollouts controller is ready.
const awaitController = "kubectl -n argo-rollouts rollout status deployment/argo-rollouts --timeout=120s"

// environment is a cluster with Argo Rollouts and KEDA, and none of this project's objects.
type environment struct {
	*testbed.Testbed

	// howTo are pages in docs/how-to, chart is the README of the chart.
	howTo, chart pages.Pages
	// folder is the working directory of the commands, with the files of the repository.
	folder string
	// tag is the tag of the images that run's commands install.
	tag string
	// namespace is the namespace of the release.
	namespace string
	stalls    *stall.Detector
	// loadPlugins is the page's command that loads the plugins, and a wait for the controller.
	loadPlugins string
	// spent is the duration of the pages' commands, ran their number.
	spent time.Duration
	ran   int
}

// launch starts the cluster.
func launch(t *testing.T) *environment {
	t.Helper()
	b := testbed.Up(t, provider.Spec{
		Addons: []string{"traefik", "keda", "busybox"}, Forwards: map[string]string{
			provider.IngressAddress: provider.IngressTarget,
		},
	})
	e := &environment{Testbed: b, namespace: keda, tag: firstTag, stalls: stall.Watch(t)}
	var err, chartErr error
	e.howTo, err = pages.Read(filepath.Join(b.Repo, "docs", "how-to"), "install.md", "install-plugins.md", "uninstall.md",
		"proxies.md")
	e.chart, chartErr = pages.Read(filepath.Join(b.Repo, "charts", "kedify-http"), "README.md")
	if err := errors.Join(err, chartErr); err != nil {
		t.Fatal(err)
	}
	e.loadPlugins = line(t, e.howTo, "With Helm", 0, 1) + "\n" + awaitController
	e.prepareFolder(t)
	for _, tag := range []string{firstTag, secondTag} {
		testbed.TagImages(t, b.Cluster, tag)
	}
	e.kubectl("").ExplainFailure(t, evidence()...)
	e.run(t, testbed.Block(t, e.howTo, "Remove the data path", "sh", 0))
	e.run(t, testbed.Block(t, e.howTo, "Remove the CRD", "sh", 0))
	e.resetRollouts(t)
	return e
}

// prepareFolder creates the working directory of the commands, and a folder with helm.
func (e *environment) prepareFolder(t *testing.T) {
	t.Helper()
	e.folder = t.TempDir()
	binary := os.Getenv(helmcli.Variable)
	if binary == "" {
		t.Fatalf("%s is not set: run this test by `make test-helm`", helmcli.Variable)
	}
	if err := errors.Join(
		os.Mkdir(filepath.Join(e.folder, "bin"), 0o755),
		os.Symlink(binary, filepath.Join(e.folder, "bin", "helm")),
		os.Symlink(testbed.CanaryPlugin(), filepath.Join(e.folder, "bin", "kubectl-http_canary")),
		os.Symlink(filepath.Join(e.Repo, "examples"), filepath.Join(e.folder, "examples")),
	); err != nil {
		t.Fatal(err)
	}
	e.use(t, version{source: e.Repo, tag: firstTag})
}

// version is a version of this project.
type version struct {
	// source is the root folder of its source, tag the tag of its images.
	source, tag string
}

// use makes run's commands install a version: its chart, its manifests and its images.
func (e *environment) use(t *testing.T, v version) {
	t.Helper()
	e.tag = v.tag
	for _, name := range []string{"charts", "config"} {
		link := filepath.Join(e.folder, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(v.source, name), link); err != nil {
			t.Fatal(err)
		}
	}
}

// writeFile writes a file in the working directory of the commands.
func (e *environment) writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(e.folder, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// resetRollouts installs Argo Rollouts again by its own manifest, without plugins.
func (e *environment) resetRollouts(t *testing.T) {
	t.Helper()
	manifest := os.Getenv("HELM_ROLLOUTS")
	if manifest == "" {
		t.Fatal("HELM_ROLLOUTS is not set: run this test by `make test-helm`")
	}
	e.run(t, `kubectl delete --ignore-not-found namespace argo-rollouts
kubectl delete --ignore-not-found clusterrole,clusterrolebinding --selector app.kubernetes.io/part-of=argo-rollouts
kubectl delete --ignore-not-found -f config/argo-rollouts/rbac.yaml -f config/argo-rollouts/gatewayapi/rbac.yaml
kubectl create namespace argo-rollouts
kubectl apply -n argo-rollouts --server-side -f `+manifest+`
`+awaitController)
}

// kubectl returns kubectl for a namespace; empty for kubectl's own default.
func (e *environment) kubectl(namespace string) testbed.Kubectl {
	return testbed.Kubectl{Cluster: e.Cluster, Namespace: namespace}
}

// line returns the n-th line of a block, counted from 0.
func line(t *testing.T, page pages.Pages, heading string, number, n int) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(testbed.Block(t, page, heading, "sh", number)), "\n")
	if n >= len(lines) {
		t.Fatalf("block %d below %q has %d lines, want more than %d", number, heading, len(lines), n)
	}
	return lines[n]
}

// run runs commands of a page. They must succeed.
func (e *environment) run(t *testing.T, script string) string {
	t.Helper()
	began := time.Now()
	out, err := e.try(t.Context(), e.tag, script)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	e.spent += time.Since(began)
	e.ran += pages.Commands(script)
	return out
}

// try runs commands of a page that may fail. It replaces namespace keda by that of the release, and the time limits of
// the commands. Variable IMAGE_TAG is that of the page.
func (e *environment) try(ctx context.Context, tag, script string) (string, error) {
	// The loops of the pages have no limit of their own.
	ctx, cancel := context.WithTimeout(ctx, 3*await.Patience())
	defer cancel()
	script = strings.NewReplacer("--namespace keda ", "--namespace "+e.namespace+" ", "--namespace keda\n",
		"--namespace "+e.namespace+"\n", "kubectl -n keda ", "kubectl -n "+e.namespace+" ").Replace(script + "\n")
	return e.Cluster.Run(ctx, "bash", "-euo", "pipefail", "-c",
		testbed.InFolder(e.folder, "export IMAGE_TAG="+tag+"\n"+testbed.WithPatience(script)))
}

// installChart runs the page's command that installs the chart, with additional arguments, and the one that loads the
// plugin.
func (e *environment) installChart(t *testing.T, args ...string) {
	t.Helper()
	e.run(t, strings.Join(append([]string{line(t, e.howTo, "With Helm", 0, 0)}, args...), " "))
	e.run(t, e.loadPlugins)
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

// evidence returns the kubectl commands that show the state after a failure.
func evidence() [][]string {
	commands := [][]string{
		{"get", "pods,deployments,rollouts,ingresses", "-A"},
		{"get", "scaledobjects,httpscaledobjects,leases", "-A"},
		{"get", "events", "-A", "--field-selector=type=Warning"},
		{"get", "configmap/argo-rollouts-config", "-n", "argo-rollouts", "-o", "yaml"},
		{"logs", "-n", "argo-rollouts", "deployment/argo-rollouts", "--tail=60"},
		{"logs", "-n", "keda", "deployment/keda-operator", "--tail=40"},
		{"logs", "-n", "keda", "pod/kedify-http-test", "--ignore-errors"},
	}
	for _, component := range []string{"interceptor", "scaler", "agent"} {
		for _, namespace := range []string{keda, other} {
			commands = append(commands, []string{
				"logs", "-n", namespace, "-l", "app.kubernetes.io/component=" + component, "--tail=60", "--prefix",
			})
		}
	}
	return commands
}
