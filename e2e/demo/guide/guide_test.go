package guide

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/shell"
)

// fakeCluster simulates the cluster and records the commands.
type fakeCluster struct {
	overlaps bool   // the namespace of an earlier run exists
	foreign  bool   // the namespace exists and belongs to another owner
	without  bool   // the cluster has no KEDA
	service  string // of the HTTPScaledObject
	address  string // that the Ingress controller publishes
	fails    string // a command with this text fails

	commands []string
}

// Run implements kube.Runner.
func (w *fakeCluster) Run(_ context.Context, args ...string) (string, error) {
	line := strings.Join(args, " ")
	w.commands = append(w.commands, line)
	switch {
	case w.fails != "" && strings.Contains(line, w.fails):
		return "", io.ErrUnexpectedEOF
	case strings.HasPrefix(line, "kubectl get ns") && (w.overlaps || w.foreign && !strings.Contains(line, shell.Mark)):
		return "namespace/rollouts-demo\n", nil
	case strings.HasPrefix(line, "kubectl delete ns"):
		w.overlaps = false
	case strings.Contains(line, " get crd "), strings.Contains(line, " get deployments "):
		if !w.without {
			return "there\n", nil
		}
	case strings.Contains(line, "jsonpath={.spec.scaleTargetRef.service}"):
		return w.service, nil
	case strings.Contains(line, "jsonpath={.status.loadBalancer.ingress[0].ip}"):
		return w.address, nil
	}
	return "", nil
}

// Stream implements kube.Runner.
func (*fakeCluster) Stream(context.Context, func(io.Reader) error, ...string) error { return nil }

// Print implements shell.Screen.
func (*fakeCluster) Print(...string) {}

// Frame implements shell.Screen.
func (*fakeCluster) Frame([]string) {}

// Columns implements shell.Screen.
func (*fakeCluster) Columns() int { return 100 }

// guide returns the guide in this cluster.
func (w *fakeCluster) guide() Guide {
	//testbounds:allow the value is only compared
	return Guide{Shell: w.shell(), Repo: "repo", Patience: 80 * time.Second, Delete: time.Minute}
}

func (w *fakeCluster) shell() shell.Shell {
	//testbounds:allow the value is only compared
	return shell.Shell{Runner: w, Screen: w, Within: time.Minute}
}

// deploy applies the objects and waits for them.
func (g Guide) deploy(ctx context.Context) error {
	err := g.Apply(ctx)
	if err == nil {
		err = g.Ready(ctx)
	}
	if err == nil && !g.Manual {
		err = g.Scales(ctx)
	}
	return err
}

const (
	find   = "kubectl get ns -l kubernetes.io/metadata.name=rollouts-demo -o name"
	create = "kubectl create -f repo/e2e/demo/namespace.yaml"
	apply  = "kubectl -n rollouts-demo apply -f repo/examples/argo-rollouts-canary/manifests.yaml -f " +
		"repo/examples/argo-rollouts-canary/"
)

func TestGuideObjectsAreApplied(t *testing.T) {
	verbatim := []string{
		create,
		apply + "scaledobject.yaml",
		"kubectl -n rollouts-demo wait rollout/rollouts-demo --for=jsonpath={.status.phase}=Healthy --timeout=80s",
		"kubectl -n rollouts-demo wait ingress/rollouts-demo --for=jsonpath={.status.loadBalancer.ingress} --timeout=80s",
		"kubectl -n rollouts-demo wait ingress/rollouts-demo " +
			"--for=jsonpath={.spec.rules[0].http.paths[0].backend.service.name}=kedify-proxy --timeout=80s",
		"kubectl -n rollouts-demo get rollout,httpso,scaledobject",
		"kubectl -n rollouts-demo get httpso rollouts-demo -o jsonpath={.spec.scaleTargetRef.service}",
		"kubectl -n rollouts-demo wait scaledobject/rollouts-demo --for=condition=Ready --timeout=80s",
	}
	byHand := []string{
		create, "kubectl -n rollouts-demo apply -k repo/config/kedify-proxy",
		apply + "httpscaledobject.yaml",
	}
	left := []string{
		find,
		"kubectl get ns -l kubernetes.io/metadata.name=rollouts-demo,app.kubernetes.io/managed-by=kedify-canary-demo -o name",
		"kubectl delete ns -l kubernetes.io/metadata.name=rollouts-demo,app.kubernetes.io/managed-by=kedify-canary-demo",
	}
	tests := []struct {
		name    string
		cluster fakeCluster
		byHand  bool
		want    []string
	}{
		{"verbatim", fakeCluster{}, false, append([]string{find}, verbatim...)},
		{"where an earlier run has left its namespace", fakeCluster{overlaps: true}, false, append(left, verbatim...)},
		{"manually", fakeCluster{}, true, append([]string{find}, byHand...)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &tt.cluster
			w.service = Stable
			g := w.guide()
			g.Manual = tt.byHand
			if err := g.deploy(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, w.commands); diff != "" {
				t.Errorf("commands (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name        string
		cluster     fakeCluster
		wantErr     error
		wantMessage string
	}{
		{
			"a namespace that is another's",
			fakeCluster{foreign: true},
			shell.ErrForeign,
			"kubectl label ns rollouts-demo app.kubernetes.io/managed-by=kedify-canary-demo",
		},
		{"objects that are refused", fakeCluster{fails: "apply"}, io.ErrUnexpectedEOF, ""},
		{
			"KEDA that does not take the ScaledObject",
			fakeCluster{service: Stable, fails: "wait scaledobject"},
			io.ErrUnexpectedEOF, "",
		},
		{"an Ingress that is not wired", fakeCluster{fails: "=kedify-proxy"}, io.ErrUnexpectedEOF, ""},
		{"another Service", fakeCluster{service: Canary}, ErrCheck, `Service "rollouts-demo-canary"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cluster.guide().deploy(t.Context())
			if !errors.Is(err, tt.wantErr) || !strings.Contains(err.Error(), tt.wantMessage) {
				t.Errorf("error = %v\nwant %v with %q", err, tt.wantErr, tt.wantMessage)
			}
		})
	}
}

func TestEntrance(t *testing.T) {
	tests := []struct {
		name, ingress, published, want string
		wantErr                        error
	}{
		{name: "what the user names", ingress: "127.0.0.1:8000", published: "10.0.0.1", want: "127.0.0.1:8000"},
		{name: "what is published", published: "10.0.0.1", want: "10.0.0.1:80"},
		{name: "nothing", wantErr: ErrCheck},
	}
	for _, tt := range tests {
		w := &fakeCluster{address: tt.published}
		g := w.guide()
		g.Ingress = tt.ingress
		if got, err := g.IngressAddress(t.Context()); got != tt.want || !errors.Is(err, tt.wantErr) {
			t.Errorf("%s: %q (%v), want %q (%v)", tt.name, got, err, tt.want, tt.wantErr)
		}
	}
}

func TestPossible(t *testing.T) {
	for _, without := range []bool{false, true} {
		w := &fakeCluster{without: without}
		if possible, err := IsSupported(t.Context(), w.shell()); err != nil || possible == without {
			t.Errorf("possible %v (%v) in a cluster without KEDA %v", possible, err, without)
		}
	}
}
