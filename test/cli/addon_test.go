package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

const (
	// addOnVariable is the environment variable with the source of the KEDA HTTP add-on, which CI requires.
	addOnVariable = "HTTP_ADD_ON"
	// kubectlVariable is the environment variable with kubectl.
	kubectlVariable = "KUBECTL_BIN"
)

// addOn returns the manifests of the KEDA HTTP add-on, which are for namespace keda.
func addOn(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), os.Getenv(kubectlVariable), "kustomize",
		filepath.Join(os.Getenv(addOnVariable), "config", "default")).Output()
	if err != nil {
		t.Fatalf("$%s: %v", addOnVariable, err)
	}
	return string(out)
}

// TestNextToTheHTTPAddOn installs the KEDA HTTP add-on by its own manifests. No component is installed next to it, in
// no namespace, and doctor reports it next to components. A router without components is installed.
func TestNextToTheHTTPAddOn(t *testing.T) {
	if os.Getenv(addOnVariable) == "" {
		return
	}
	for _, namespace := range []string{"keda", "add-on"} {
		t.Run("in namespace "+namespace, func(t *testing.T) {
			b := newBareCluster(t)
			if err := apiserver.CreateNamespace(t.Context(), b.admin, "add-on"); err != nil {
				t.Fatal(err)
			}
			b.apply(t, strings.ReplaceAll(addOn(t), "namespace: keda\n", "namespace: "+namespace+"\n"))
			b.refuses(t, "Deployment "+namespace+"/keda-add-ons-http-operator belongs to the KEDA HTTP add-on")
			b.patchFinalizers(t)
		})
	}
}

// TestNextToKedifysAgent has a Deployment with the labels of Kedify's chart.
func TestNextToKedifysAgent(t *testing.T) {
	b := newBareCluster(t)
	b.apply(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: kedify-agent, namespace: keda, labels: {app.kubernetes.io/name: kedify-agent, app.kubernetes.io/instance: kedify-agent, app.kubernetes.io/component: manager, control-plane: kedify-agent}}
spec:
  selector: {matchLabels: {control-plane: kedify-agent}}
  template:
    metadata: {labels: {control-plane: kedify-agent}}
    spec: {serviceAccountName: kedify-agent, containers: [{name: manager, image: manager}]}`)
	b.refuses(t, "Deployment keda/kedify-agent belongs to Kedify's agent")
}

// refuses checks what the commands do next to another product.
func (b *bareCluster) refuses(t *testing.T, reason string) {
	t.Helper()
	before := b.snapshot(t)
	for _, more := range [][]string{nil, {"--dry-run"}} {
		got := b.run(t, append(installArgs(t, "https://example.com/v1"), more...)...)
		if got.code != 1 || !strings.Contains(got.err, reason) || !strings.Contains(got.err, "docs/how-to/migrate.md") {
			t.Errorf("install %v: %+v, want %q", more, got, reason)
		}
	}
	if diff := cmp.Diff(before, b.snapshot(t)); diff != "" {
		t.Errorf("it changed (-before +after):\n%s", diff)
	}
	router := installArgs(t, "https://example.com/v1")
	router = append(router[:1], append(router[3:], "--router=kedify/http")...)
	if out := b.must(t, router...); !strings.HasSuffix(out, "No problems found.\n") {
		t.Errorf("the router alone:\n%s", out)
	}
	b.must(t, "uninstall")
	if diff := cmp.Diff(before, b.snapshot(t)); diff != "" {
		t.Errorf("uninstall does not restore (-before +after):\n%s", diff)
	}
	err := apiserver.ApplyFiles(t.Context(), b.admin, "shop", manifests+"agent/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(manifests + "agent/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b.apply(t, strings.ReplaceAll(string(text), "namespace: keda", "namespace: shop"))
	got := b.run(t, "doctor")
	_, message, _ := strings.Cut(reason, " belongs")
	if got.code != 3 || strings.Count(got.out, "OtherProductInstalled") != 1 ||
		!strings.Contains(got.out, "belongs"+message) {
		t.Errorf("doctor: %+v", got)
	}
}

// patchFinalizers types the command of docs/how-to/migrate.md that removes the finalizers of the add-on's operator:
// until then, an object is not deleted.
func (b *bareCluster) patchFinalizers(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("(?m)^(kubectl get .*finalizers.*)$").FindSubmatch(page)
	if command == nil {
		t.Fatal("docs/how-to/migrate.md has no command that removes finalizers")
	}
	b.apply(t, `{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: shop, namespace: shop, finalizers: [httpscaledobject.http.keda.sh]},
		spec: {hosts: [shop.test], scaleTargetRef: {name: shop, kind: Deployment, apiVersion: apps/v1, service: shop, port: 80}}}`)
	if err := b.admin.Delete().AbsPath(objectPath("shop", "shop")).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	if b.get(t, objectPath("shop", "shop")) == nil {
		t.Fatal("the finalizer does not keep the object")
	}
	shell := exec.CommandContext(t.Context(), "sh", "-ec", string(command[1]))
	shell.Env = append(os.Environ(), "KUBECONFIG="+b.kubeconfig(apiserver.AdminToken),
		"PATH="+filepath.Dir(os.Getenv(kubectlVariable))+":"+os.Getenv("PATH"))
	if out, err := shell.CombinedOutput(); err != nil || !strings.Contains(string(out), "shop patched") {
		t.Fatalf("%s: %v\n%s", command[1], err, out)
	}
	await.True(t, "the object is deleted", func() bool { return b.get(t, objectPath("shop", "shop")) == nil })
}
