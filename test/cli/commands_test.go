package cli_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// withNamespace returns a kubeconfig whose context names a namespace.
func withNamespace(t *testing.T, namespace string) string {
	t.Helper()
	text := readFile(t, shared.kubeconfig(apiserver.AdminToken))
	for _, old := range []string{"\"user\":", "user:"} {
		if before, after, ok := strings.Cut(text, old); ok && strings.Contains(before, "contexts") {
			text = before + strings.Replace(old, "user", "namespace", 1) + " " + namespace +
				map[bool]string{true: ", ", false: "\n    "}[strings.Contains(old, `"`)] + old + after
			break
		}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestNamespaceOfTheContext: commands honor the namespace of the context, --namespace takes precedence, and -A includes
// all.
func TestNamespaceOfTheContext(t *testing.T) {
	kubeconfig := withNamespace(t, "web")
	for args, want := range map[string]string{
		"list --no-headers":                 "web",
		"list --no-headers -n shop":         "shop",
		"list --no-headers -A":              "shop web",
		"list --no-headers -o name":         "rollout.argoproj.io/web",
		"status web -o name":                "rollout.argoproj.io/web",
		"doctor --quiet":                    "Applications No",
		"doctor --quiet -A":                 "No",
		"doctor --quiet --namespace shop":   "Applications No",
		"doctor --pre --quiet --suppress=x": "",
	} {
		got := runWith(t, kubeconfig, strings.Fields(args)...)
		var first []string
		for line := range strings.Lines(got.out) {
			first = append(first, strings.Fields(line)[0])
		}
		if all := strings.Join(first, " "); all != want || got.code != 0 && want != "" {
			t.Errorf("%s: the lines start with %q, want %q: %+v", args, all, want, got)
		}
	}
}

// TestForAwaitsAWeight: status --for ends when the condition is True, and with exit code 1 when the time is over.
func TestForAwaitsAWeight(t *testing.T) {
	for args, want := range map[string]int{
		"--for=verified": 0, "--for=verified=20": 0, "--for=ready": 0,
		//testbounds:allow the goal is never met
		"--for=verified=50 --timeout=1s": 1, "--for=promoted --timeout=1s": 1,
	} {
		got := run(t, apiserver.AdminToken, append([]string{"status", "shop", "-n=shop"}, strings.Fields(args)...)...)
		if got.code != want || !strings.HasPrefix(got.out, "Rollout:") ||
			want == 1 && !strings.Contains(got.err, "timed out waiting for the condition") {
			t.Errorf("%s: exit code %d, want %d: %+v", args, got.code, want, got)
		}
	}
}

// TestVersionOfTheInstallation lists every component of the manifests.
func TestVersionOfTheInstallation(t *testing.T) {
	got := run(t, apiserver.AdminToken, "version")
	for _, name := range []string{
		"Client: ", "interceptor ", "scaler ", "agent ", "Argo Rollouts ", "plugin kedify/http ", "KEDA ",
	} {
		if !strings.Contains("\n"+got.out, "\n"+name) {
			t.Errorf("no line %q: %+v", name, got)
		}
	}
	if got := runWith(t, "/nowhere", "version", "--client"); got.code != 0 || !strings.HasPrefix(got.out, "Client: ") {
		t.Errorf("--client: %+v", got)
	}
}

// TestSupportBundleOfTheInstallation: the archive has objects, and the data of no Secret.
func TestSupportBundleOfTheInstallation(t *testing.T) {
	const secret = `{apiVersion: v1, kind: Secret, metadata: {name: support, namespace: shop}, stringData: {key: "do-not-collect"}}`
	apply(t, secret)
	defer remove(t, "/api/v1/namespaces/shop/secrets/support")
	name := filepath.Join(t.TempDir(), "support.tar.gz")
	got := run(t, apiserver.AdminToken, "support-bundle", "--file", name)
	if got.code != 0 || !strings.Contains(got.out, "objects/rollouts.json") {
		t.Fatalf("%+v", got)
	}
	file, err := os.Open(filepath.Clean(name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for reader := tar.NewReader(compressed); ; files++ {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil || strings.Contains(string(content), "do-not-collect") {
			t.Errorf("%s contains a Secret (%v)", header.Name, err)
		}
	}
	if files < 20 {
		t.Errorf("the archive has only %d files:\n%s", files, got.out)
	}
	if got := run(t, apiserver.AdminToken, "support-bundle", "--dry-run", "-n=shop"); got.code != 0 ||
		!strings.Contains(got.out, "objects/shop/rollouts.json") {
		t.Errorf("--dry-run: %+v", got)
	}
}

// TestDoctorBeforeAnInstallation: an administrator may install; another user may not, and learns which permissions lack.
func TestDoctorBeforeAnInstallation(t *testing.T) {
	if got := run(t, apiserver.AdminToken, "doctor", "--pre"); got.code != 0 ||
		!strings.Contains(got.out, "[ ok ] Kubernetes is new enough (v1.") {
		t.Errorf("%+v", got)
	}
	got := run(t, apiserver.UnprivilegedToken, "doctor", "--pre", "-o=json")
	if codes := codesOf(t, got.out); got.code != 3 || len(codes) == 0 || codes[0] != "InstallForbidden" {
		t.Errorf("exit code %d, findings %v", got.code, codes)
	}
}
