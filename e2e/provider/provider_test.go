package provider

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// fakeBin is a folder with commands that record their calls and run a script. $PATH contains it and the system's
// folders only.
type fakeBin struct{ dir string }

func newFakeBin(t *testing.T, commands map[string]string) fakeBin {
	t.Helper()
	p := fakeBin{dir: t.TempDir()}
	for name, text := range commands {
		script := "#!/bin/sh\necho \"" + name + " $*\" >> " + filepath.Join(p.dir, "calls") + "\n" + text
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", p.dir+":/usr/bin:/bin")
	return p
}

func (p fakeBin) options(said *[]string, environ ...string) Options {
	return Options{
		Local:   LocalCluster{Path: filepath.Join(p.dir, "localcluster"), Patience: await.Patience()},
		Environ: append([]string{"PATH=" + p.dir + ":/usr/bin:/bin"}, environ...),
		Cache:   func(*Cluster) string { return filepath.Join(p.dir, "cache") },
		Report:  func(line string) { *said = append(*said, line) }, Command: await.Patience(),
	}
}

func (p fakeBin) calls(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(p.dir, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(strings.ReplaceAll(string(raw), p.dir, "DIR"), func(r rune) bool { return r == '\n' })
}

// fitCluster responds like a cluster with all components of a canary.
const fitCluster = `case "$*" in
*"config view"*) echo "prod at https://10.0.0.1:6443" ;;
*can-i*) echo yes ;;
*rollouts.argoproj.io*) echo customresourcedefinition/rollouts.argoproj.io ;;
*httpscaledobjects*) echo customresourcedefinition/httpscaledobjects.http.keda.sh ;;
*configmaps*) echo '- name: kedify/http' ;;
*deployments*) echo deployment.apps/keda-add-ons-http-interceptor ;;
esac`

// A cluster of the user is only read, and only if $KUBECONFIG is set.
func TestExisting(t *testing.T) {
	config := "KUBECONFIG=/home/me/config"
	tests := map[string]struct {
		kubectl, environ string
		spec             Spec
		plugin           bool
		fails            []string
	}{
		"a cluster with all parts": {kubectl: fitCluster, environ: config, plugin: true},
		"not named": {
			kubectl: fitCluster, plugin: true,
			fails: []string{"$KUBECONFIG is not set", "by surprise"},
		},
		"without the plugin of kubectl": {
			kubectl: fitCluster, environ: config,
			fails: []string{"kubectl-argo-rollouts is needed"},
		},
		"asked for more than it has": {
			kubectl: fitCluster, environ: config, plugin: true,
			spec: Spec{Addons: []string{"traefik"}}, fails: []string{"nothing is installed"},
		},
		"an empty cluster": {
			kubectl: "case \"$*\" in *view*) echo prod at here ;; *can-i*) echo no; exit 1 ;; esac",
			environ: config, plugin: true, fails: []string{
				"permission to create namespaces is not found", "Argo Rollouts is not installed: install it",
				"the HTTPScaledObject API is not installed: follow docs/how-to/install.md",
				"the plugin kedify/http in ConfigMap argo-rollouts-config is not installed", "the interceptor is not installed",
			},
		},
		"a file that names nothing": {
			kubectl: "echo no current context >&2; exit 1", environ: config, plugin: true,
			fails: []string{"names no cluster", "no current context"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			commands := map[string]string{"kubectl": tt.kubectl}
			if tt.plugin {
				commands["kubectl-argo-rollouts"] = ""
			}
			p := newFakeBin(t, commands)
			var lines []string
			from, err := New(NameExisting, p.options(&lines, tt.environ))
			if err != nil {
				t.Fatal(err)
			}
			cluster, err := from.Up(t.Context(), tt.spec)
			for _, words := range tt.fails {
				if err == nil || !strings.Contains(err.Error(), words) {
					t.Errorf("error %v, want %q in it", err, words)
				}
			}
			if len(tt.fails) > 0 {
				if !errors.Is(err, ErrUnsupported) {
					t.Errorf("error %v is not ErrUnsupported", err)
				}
				return
			}
			if err != nil || cluster.Kubeconfig != "/home/me/config" ||
				!strings.Contains(strings.Join(lines, " "), "context prod at https://10.0.0.1:6443 is used as it is") {
				t.Errorf("cluster %+v, said %q, error %v", cluster, lines, err)
			}
			if from.Owns() || from.Down(t.Context()) != nil {
				t.Error("the user's cluster is deleted")
			}
			for _, call := range p.calls(t) {
				if !strings.HasPrefix(call, "kubectl get ") && !strings.HasPrefix(call, "kubectl auth can-i") &&
					!strings.HasPrefix(call, "kubectl config view") {
					t.Errorf("the inspection of the cluster runs %q", call)
				}
			}
		})
	}
}

// A new kind cluster gets this checkout's images and the installation steps of the embedded cluster. Down deletes all
// of it.
func TestKindCommands(t *testing.T) {
	p := newFakeBin(t, map[string]string{
		"kind":    `[ "$1" != get ] || echo other`,
		"kubectl": "", "kubectl-argo-rollouts": "",
		"localcluster": `echo '{"images":"/images.tar","steps":[{"title":"apply it","args":["apply","-f","it.yaml"],"timeout":30000000000}]}'`,
	})
	t.Setenv("TMPDIR", p.dir)
	var lines []string
	from, err := New(NameKind, p.options(&lines))
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := from.Up(t.Context(), Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if !from.Owns() || from.Down(context.WithoutCancel(t.Context())) != nil {
		t.Error("the cluster is not deleted")
	}
	folder := strings.Replace(filepath.Dir(cluster.Kubeconfig), p.dir, "DIR", 1)
	want := []string{
		"kind get clusters",
		"kind create cluster --name kedify-canary-demo --kubeconfig " + folder + "/kubeconfig --wait 2m",
		"localcluster export " + folder + "/export",
		"kind load image-archive /images.tar --name kedify-canary-demo",
		"kubectl apply -f it.yaml",
		"kind delete cluster --name kedify-canary-demo",
	}
	if diff := cmp.Diff(want, p.calls(t)); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Dir(cluster.Kubeconfig)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the kubeconfig: %v", err)
	}
}

// An existing kind cluster belongs to the user.
func TestExistingKindClusterIsNotUsed(t *testing.T) {
	p := newFakeBin(t, map[string]string{"kind": "echo kedify-canary-demo", "kubectl": "", "kubectl-argo-rollouts": ""})
	var lines []string
	from, err := New(NameKind, p.options(&lines))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := from.Up(t.Context(), Spec{}); !errors.Is(err, ErrUnsupported) || from.Owns() {
		t.Errorf("error %v, owned %t", err, from.Owns())
	}
}

func TestUnknownProvider(t *testing.T) {
	if _, err := New("minikube", Options{}); err == nil || !strings.Contains(err.Error(), "embedded, existing, kind") {
		t.Errorf("error %v", err)
	}
}
