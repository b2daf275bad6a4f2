package migration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/e2e/pages"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/e2e/testbed"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/helmcli"
)

const (
	// namespace is the namespace of the application, host its host.
	namespace, host = "shop", "shop.example.com"
	// keda is the namespace of KEDA and of the add-on, release that of this project.
	keda, release = "keda", "kedify-http"
	// tag is a tag of this checkout's images.
	tag = "1234567"
)

// environment is a cluster with KEDA and Traefik, in which the test installs the add-on and this project.
type environment struct {
	testbed.Kubectl

	// page is docs/how-to/migrate.md.
	page pages.Pages
	// repo is the root folder of the repository, folder the working directory of the commands.
	repo, folder string
	// traffic is the load, nil while there is none.
	traffic *traffic
	report  report
}

// launch starts the cluster without objects of this project.
func launch(t *testing.T) *environment {
	t.Helper()
	cluster, repo := testbed.Launch(t, provider.Spec{
		Addons:   []string{"traefik", "keda", "http-add-on"},
		Forwards: map[string]string{provider.IngressAddress: provider.IngressTarget},
	})
	e := &environment{Kubectl: testbed.Kubectl{Cluster: cluster}, repo: repo, folder: t.TempDir()}
	howTo := filepath.Join(repo, "docs", "how-to")
	uninstall, err := pages.Read(howTo, "uninstall.md")
	if err != nil {
		t.Fatal(err)
	}
	if e.page, err = pages.Read(howTo, "migrate.md"); err != nil {
		t.Fatal(err)
	}
	e.prepareFolder(t)
	testbed.TagImages(t, cluster, tag)
	e.ExplainFailure(t, evidence()...)
	for _, heading := range []string{"Remove the data path", "Remove the CRD"} {
		e.run(t, testbed.Block(t, uninstall, heading, "sh", 0))
	}
	e.run(t, "kubectl delete -f config/argo-rollouts/rbac.yaml --ignore-not-found")
	return e
}

// prepareFolder creates the working directory of the commands: the charts and manifests of this project, those of the
// add-on, and the programs helm and kubectl-http_canary.
func (e *environment) prepareFolder(t *testing.T) {
	t.Helper()
	helm, addOn := os.Getenv(helmcli.Variable), os.Getenv("MIGRATION_ADD_ON")
	if helm == "" || addOn == "" {
		t.Fatalf("%s or MIGRATION_ADD_ON is not set: run this test by `make test-migration`", helmcli.Variable)
	}
	if err := os.Mkdir(filepath.Join(e.folder, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"bin/helm": helm, "bin/kubectl-http_canary": testbed.CanaryPlugin(), "charts": filepath.Join(e.repo, "charts"),
		"config": filepath.Join(e.repo, "config"),
	} {
		if err := os.Symlink(target, filepath.Join(e.folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	folder := filepath.Join(e.folder, "add-on")
	if err := errors.Join(
		os.CopyFS(folder, os.DirFS(addOn)),
		os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(releaseOf(t, e.repo)), 0o600),
	); err != nil {
		t.Fatal(err)
	}
}

// releaseOf returns a kustomization with the objects of a release of the add-on: those of its source with its images.
func releaseOf(t *testing.T, repo string) string {
	t.Helper()
	module, err := os.ReadFile(filepath.Join(repo, "localcluster", "components", "http-add-on", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`github\.com/kedacore/http-add-on v(\S+)`).FindSubmatch(module)
	if version == nil {
		t.Fatalf("the component of the add-on does not require it:\n%s", module)
	}
	var text strings.Builder
	text.WriteString("resources: [default]\nimages:\n")
	for _, component := range []string{"interceptor", "operator", "scaler"} {
		fmt.Fprintf(&text, "  - {name: ko://github.com/kedacore/http-add-on/%s, "+
			"newName: ghcr.io/kedacore/http-add-on-%[1]s, newTag: %[2]q}\n", component, version[1])
	}
	return text.String()
}

// run runs commands of a page unchanged, except for time limits. They must succeed.
func (e *environment) run(t *testing.T, script string) string {
	t.Helper()
	out, err := e.try(t.Context(), script)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// try runs commands that may fail. Variable IMAGE_TAG is that of the page.
func (e *environment) try(ctx context.Context, script string) (string, error) {
	// The loops of the page have no limit of their own.
	ctx, cancel := context.WithTimeout(ctx, 3*await.Patience())
	defer cancel()
	return e.Run(ctx, "bash", "-euo", "pipefail", "-c",
		testbed.InFolder(e.folder, "export IMAGE_TAG="+tag+"\n"+testbed.WithPatience(script)))
}

// evidence returns the kubectl commands that show the state after a failure.
func evidence() [][]string {
	commands := [][]string{
		{"get", "pods,deployments,services,ingresses", "-A"},
		{"get", "scaledobjects,httpscaledobjects,hpa", "-n", namespace, "-o", "yaml"},
		{"get", "events", "-A", "--field-selector=type=Warning"},
		{"logs", "-n", keda, "deployment/keda-operator", "--tail=40"},
		{"logs", "-n", namespace, "deployment/kedify-proxy", "--tail=20"},
		{"logs", "-n", "traefik", "deployment/traefik", "--tail=20"},
	}
	for _, component := range []string{"interceptor", "external-scaler", "operator"} {
		commands = append(commands,
			[]string{"logs", "-n", keda, "-l", "app.kubernetes.io/instance=" + component, "--tail=40", "--prefix"})
	}
	for _, component := range []string{"interceptor", "scaler", "agent"} {
		commands = append(commands,
			[]string{"logs", "-n", release, "-l", "app.kubernetes.io/component=" + component, "--tail=40", "--prefix"})
	}
	return commands
}
