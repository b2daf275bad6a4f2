package install

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/pages"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

const (
	// releases is the URL of the releases on the page.
	releases = "https://github.com/kedify/argo-rollouts-plugin/releases/download/"
	// argoCharts is the URL of the repository of charts on the page.
	argoCharts = "https://argoproj.github.io/argo-helm"
)

// environment is a cluster, the page, and the user's folder.
type environment struct {
	*provider.Cluster

	page page
	// repo is the repository, dist the folder of the snapshot, folder the working directory of the commands.
	repo, dist, folder string
	// charts is the URL of the local repository of charts.
	charts string
	// sums are the checksums of the snapshot, by file name.
	sums map[string]string
	// release is the snapshot's version.
	release string
	// version and manifest are the installed Argo Rollouts and its install.yaml.
	version, manifest string
	// spent is the duration of the page's commands, ran their number.
	spent time.Duration
	ran   int
}

// runScript runs commands of the page unchanged, except for the URLs of the releases and of the repository of charts.
// They must succeed.
func (w *environment) runScript(t *testing.T, text string) string {
	t.Helper()
	text = testbed.WithPatience(text)
	text = regexp.MustCompile(`(?m)^VERSION=.*$`).ReplaceAllString(text, "VERSION="+w.release)
	text = strings.ReplaceAll(text, releases+"v$VERSION", "file://"+w.folder+"/release")
	if w.charts != "" {
		text = strings.ReplaceAll(text, argoCharts, w.charts)
	}
	began := time.Now()
	out, err := w.Run(t.Context(), "bash", "-euo", "pipefail", "-c",
		testbed.InFolder(w.folder, text))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w.spent += time.Since(began)
	w.ran += pages.Commands(text)
	return out
}

// tryScript runs commands that may fail, and returns their output.
func (w *environment) tryScript(ctx context.Context, text string) string {
	ctx, cancel := context.WithTimeout(ctx, testbed.CommandTimeout())
	defer cancel()
	out, err := w.Run(ctx, "bash", "-c", "cd "+w.folder+"\n"+text)
	if err != nil {
		return out + err.Error()
	}
	return out
}

// until waits until the output of commands contains a text.
func (w *environment) until(t *testing.T, what, text, wanted string) {
	t.Helper()
	seen := ""
	await.Described(t, what, func() bool {
		seen = w.tryScript(t.Context(), text)
		return strings.Contains(seen, wanted)
	}, func() string { return seen })
}

// write writes a file in the user's folder.
func (w *environment) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.folder, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// expand returns a manifest of the page or of the release notes, with the checksums of this snapshot and the URL of the
// server in the cluster. The page has placeholders for the checksums.
func (w *environment) expand(text string) string {
	text = regexp.MustCompile(regexp.QuoteMeta(releases)+`v[^/"]+`).ReplaceAllString(text, serverURL)
	return regexp.MustCompile(`<sum of ([\w-]+)>`).ReplaceAllStringFunc(text, func(words string) string {
		return w.sums[strings.TrimSuffix(strings.TrimPrefix(words, "<sum of "), ">")]
	})
}

// prepare creates the folder with the snapshot's files, the examples, and helm.
func (w *environment) prepare(t *testing.T) {
	t.Helper()
	w.folder = t.TempDir()
	release, programs := filepath.Join(w.folder, "release"), filepath.Join(w.folder, "bin")
	if err := errors.Join(os.Mkdir(release, 0o755), os.Mkdir(programs, 0o755)); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(w.dist, "checksums.txt"))
	if err != nil {
		t.Fatalf("make snapshot first: %v", err)
	}
	w.sums = map[string]string{}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) == 2 {
			w.sums[fields[1]] = fields[0]
		}
	}
	for link, target := range map[string]string{
		filepath.Join(release, "checksums.txt"): filepath.Join(w.dist, "checksums.txt"),
		filepath.Join(release, "config.tar.gz"): filepath.Join(w.repo, "bin", "config.tar.gz"),
		filepath.Join(w.folder, "examples"):     filepath.Join(w.repo, "examples"),
		// kubectl finds plugins by file name.
		filepath.Join(programs, "kubectl-http_canary"): filepath.Join(w.dist, "kubectl-http_canary-linux-amd64"),
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
}

// build builds a program of the suite.
func build(t *testing.T, repo, source, target string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-tags=grpcnotrace",
		"-gcflags=all=-dwarf=false",
		"-ldflags", "-s -w", "-o", target, source)
	command.Dir, command.Env = repo, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", source, err, out)
	}
}

// explainFailure shows the controller if the test fails.
func (w *environment) explainFailure(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	t.Log(w.tryScript(context.WithoutCancel(t.Context()), `
kubectl get pods,deployments,rollouts,httpscaledobjects,httproutes -A 2>&1 | grep -v kube-system
kubectl -n argo-rollouts get configmap argo-rollouts-config -o yaml
kubectl -n argo-rollouts logs -l app.kubernetes.io/name=argo-rollouts --all-containers --prefix --tail=30
kubectl -n argo-rollouts logs -l app.kubernetes.io/name=argo-rollouts --previous --prefix --tail=10
kubectl get events -A --field-selector type=Warning | tail -30`))
}
