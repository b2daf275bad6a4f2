package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/scaling"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/scenario"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// fakeScreen records the printed lines.
type fakeScreen struct{ strings.Builder }

func (p *fakeScreen) Print(lines ...string) { p.WriteString(strings.Join(lines, "\n") + "\n") }
func (*fakeScreen) Frame([]string)          {}
func (*fakeScreen) Columns() int            { return 80 }

// fakeBin is a folder with a project and with commands that only record their calls: localcluster in the given state,
// and a kubectl that rejects create. Each command first runs the script on-COMMAND in the folder, if it exists.
type fakeBin struct{ dir string }

func newFakeBin(t *testing.T, state string) fakeBin {
	t.Helper()
	p := fakeBin{dir: t.TempDir()}
	p.write(t, "repo/examples/argo-rollouts-canary/manifests.yaml", "")
	p.write(t, "repo/config/kedify-proxy/kustomization.yaml", "")
	p.write(t, "state", state)
	if state != "stopped" {
		p.write(t, "run/logs/etcd.log", "")
	}
	p.write(t, "localcluster", `#!/bin/sh
cd "$(dirname "$0")"
if [ "$1" = status ]; then
	[ -d run ] && logs="$PWD/run/logs"
	[ -f run/transient ] && transient=true
	echo '{"state":"'"$(cat state)"'","kubeconfig":"/kubeconfig","bin":"'"$PWD"'","logs":"'"$logs"'","transient":'"${transient-false}"',"startSeconds":100,"addresses":{"ingress":"127.0.0.1:1234"}}'
	exit
fi
[ "$1" = build ] && echo '{"components":["etcd"],"seconds":540}' && exit
echo "progress" >&2 || exit # as a Go program does when nobody reads
echo "localcluster $*" >> calls
[ -f "on-$1" ] && . "./on-$1"
case "$1" in
up)
	# As the real one: the start marks the cluster, a call without the flag takes the mark away.
	case "$(cat state)$2" in stopped--transient) mkdir -p run && touch run/transient ;; *--transient) ;; *) rm -f run/transient ;; esac
	mkdir -p run/logs && printf running > state ;;
down) rm -rf run && printf stopped > state ;;
esac
`)
	p.write(t, "kubectl", `#!/bin/sh
mkdir -p "$KUBECACHEDIR" && touch "$KUBECACHEDIR/discovery"
cd "$(dirname "$0")"
[ -f on-kubectl ] && . ./on-kubectl
case "$*" in
*"create -f"*) echo "refused" >&2; exit 1 ;;
*"get crd"* | *"get deployments"*) [ -f without-keda ] || echo there ;;
*"delete ns"* | *"replace -f"*) echo "kubectl $*" >> calls ;;
esac
`)
	return p
}

func (p fakeBin) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (p fakeBin) calls(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

func (p fakeBin) options(keep bool, out *fakeScreen) options {
	o := options{
		keep: keep, provider: provider.NameEmbedded, settings: scenario.DefaultSettings(),
		scaling: scaling.DefaultSettings(), screen: out,
		local: provider.LocalCluster{Path: filepath.Join(p.dir, "localcluster"), Terminal: provider.Terminal{Err: out}},
	}
	o.repo = filepath.Join(p.dir, "repo")
	return o
}

const (
	remove = "kubectl delete ns -l " +
		"kubernetes.io/metadata.name=rollouts-demo,app.kubernetes.io/managed-by=kedify-canary-demo --wait=false"
	// addons are the guide's arguments for the cluster, up is the command that starts it.
	addons = " --with keda-api --with traefik --forward ingress=traefik.traefik.svc.cluster.local:80"
	up     = "localcluster up --transient" + addons
)

// However a run ends, it removes exactly what the demo created, and its output is true. A running cluster is updated.
func TestCleanup(t *testing.T) {
	const deleted = "The local cluster is being deleted."
	tests := []struct {
		name, state, up    string
		keep               bool
		want               []string
		fails, wantMessage string
	}{
		{
			name: "a cluster that the demo started", state: "stopped", want: []string{up, "localcluster down"},
			fails: "refused", wantMessage: deleted,
		},
		{
			name: "a cluster that ran before stays", state: "running", want: []string{up, remove},
			fails: "refused", wantMessage: "goes on",
		},
		{
			name: "a cluster that another process starts stays", state: "starting", want: []string{up, remove},
			fails: "refused", wantMessage: "goes on",
		},
		{
			name: "kept", state: "stopped", keep: true, want: []string{"localcluster up" + addons}, fails: "refused",
			wantMessage: "http://rollouts-demo.localhost:1234/",
		},
		{name: "a start that fails and leaves nothing", state: "stopped", up: "exit 1", want: []string{up}, fails: up +
			": exit status 1", wantMessage: "No local cluster runs."},
		{name: "a start that fails and leaves something", state: "broken", up: "exit 1", want: []string{up}, fails: up +
			": exit status 1", wantMessage: "No local cluster runs."},
		{
			name: "a cluster that can't be brought up to date", state: "running", up: "exit 1", want: []string{up},
			fails: up + ": exit status 1",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, out := newFakeBin(t, tt.state), new(fakeScreen)
			p.write(t, "on-up", tt.up)
			o := p.options(tt.keep, out)
			err := o.run(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("error = %v, want one with %q", err, tt.fails)
			}
			if diff := cmp.Diff(tt.want, p.calls(t)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if !strings.Contains(out.String(), tt.wantMessage) ||
				strings.Contains(out.String(), deleted) != (tt.wantMessage == deleted) {
				t.Errorf("printed, and not %q:\n%s", tt.wantMessage, out)
			}
		})
	}
}

// The embedded cluster has everything that the guide requires.
func TestAClusterWithoutKEDA(t *testing.T) {
	p, out := newFakeBin(t, "running"), new(fakeScreen)
	p.write(t, "without-keda", "")
	o := p.options(false, out)
	err := o.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "KEDA, the agent or the scaler is not in this cluster") {
		t.Errorf("error = %v", err)
	}
	if diff := cmp.Diff([]string{up, remove}, p.calls(t)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// The CRD of another owner replaces this project's, but not in a cluster that ran before.
func TestOtherCRD(t *testing.T) {
	tests := []struct {
		state string
		want  []string
		fails string
	}{
		{"stopped", []string{up, "kubectl replace -f theirs.yaml", "localcluster down"}, "refused"},
		{"running", []string{up, remove}, "--crd changes a definition that others use"},
	}
	for _, tt := range tests {
		p := newFakeBin(t, tt.state)
		o := p.options(false, new(fakeScreen))
		o.crd = "theirs.yaml"
		if err := o.run(t.Context()); err == nil || !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%s: error = %v, want one with %q", tt.state, err, tt.fails)
		}
		if diff := cmp.Diff(tt.want, p.calls(t)); diff != "" {
			t.Errorf("%s: calls (-want +got):\n%s", tt.state, diff)
		}
	}
}

// The first line contains the version of the code.
func TestVersion(t *testing.T) {
	p, out := newFakeBin(t, "running"), new(fakeScreen)
	o := p.options(false, out)
	o.version = "b7200d0-dirty"
	if err := o.run(t.Context()); err == nil || !strings.HasPrefix(out.String(), "Canary demo, b7200d0-dirty\n") {
		t.Errorf("%v, printed:\n%s", err, out)
	}
}

// A cluster that was slow to start gets longer time limits.
func TestSlowStart(t *testing.T) {
	p, out := newFakeBin(t, "running"), new(fakeScreen)
	o := p.options(false, out)
	if err := o.run(t.Context()); err == nil || !strings.Contains(out.String(), "It took 100.0 s to start") ||
		o.settings.Patience != 10*await.Patience()/3 {
		t.Errorf("%v, patience %s, printed:\n%s", err, o.settings.Patience, out)
	}
}

// demoProcess returns the demo as a separate process with closed output, as after the loss of its terminal.
func (p fakeBin) demoProcess(t *testing.T) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	lost, terminal, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	if err := lost.Close(); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "--localcluster", filepath.Join(p.dir, "localcluster"), "--repo",
		filepath.Join(p.dir, "repo"))
	c.Env = append(os.Environ(), "TEST_RUNS_DEMO=yes")
	c.Stdout, c.Stderr = terminal, terminal
	return c
}

// TestMain lets the test binary run as the demo.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_RUNS_DEMO") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A terminal that closes ends the run with a cleanup, even if it sends two signals. Output that can't be printed does
// not prevent the cleanup.
func TestHangupCleansUp(t *testing.T) {
	p := newFakeBin(t, "stopped")
	p.write(t, "on-kubectl", `kill -HUP "$PPID"`)
	p.write(t, "on-down", `kill -HUP "$PPID"`)
	var failure *exec.ExitError
	if err := p.demoProcess(t).Run(); !errors.As(err, &failure) || failure.ExitCode() != 1 {
		t.Errorf("the demo ended with %v, want exit code 1", err)
	}
	if diff := cmp.Diff([]string{up, "localcluster down"}, p.calls(t)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// The next demo takes over the cluster of a killed one. No temporary files remain.
func TestClusterOfKilledDemo(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	tests := []struct {
		name string
		keep []bool // flags of the later runs
		want []string
	}{
		{"by a run that ends it", []bool{false}, []string{up, "localcluster down"}},
		{"by one with --keep", []bool{true, false}, []string{"localcluster up" + addons, up, remove}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newFakeBin(t, "stopped")
			p.write(t, "on-kubectl", `kill -KILL "$PPID"`)
			if err := p.demoProcess(t).Run(); err == nil {
				t.Fatal("the demo was not killed")
			}
			p.write(t, "on-kubectl", "")
			for _, keep := range tt.keep {
				o := p.options(keep, new(fakeScreen))
				if err := o.run(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
					t.Errorf("error = %v", err)
				}
			}
			if diff := cmp.Diff(append([]string{up}, tt.want...), p.calls(t)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestInterruptedRunCleansUp(t *testing.T) {
	p, out := newFakeBin(t, "running"), new(fakeScreen)
	o := p.options(false, out)
	ctx, cancel := context.WithCancel(t.Context())
	o.screen = interrupting{fakeScreen: out, interrupt: cancel}
	if err := o.run(ctx); !errors.Is(err, errInterrupted) {
		t.Errorf("error = %v, want %v", err, errInterrupted)
	}
	if diff := cmp.Diff([]string{up, remove}, p.calls(t)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// interrupting cancels the context as soon as the cluster is ready.
type interrupting struct {
	*fakeScreen

	interrupt func()
}

func (i interrupting) Print(lines ...string) {
	i.fakeScreen.Print(lines...)
	if strings.Contains(strings.Join(lines, "\n"), "The local cluster is up") {
		i.interrupt()
	}
}

func TestInvalidUsage(t *testing.T) {
	tests := []struct{ args, wantMessage string }{
		{"--rate 4", "--rate 4: it must be from 5 to 2000"},
		{"--rate 2001", "--rate 2001: it must be from 5 to 2000"},
		{"--only traffic", `--only "traffic": there are canary and scaling`},
		{"--repo /nowhere", "--repo /nowhere is not the folder of the project"},
		{"more", "unknown command"},
	}
	for _, tt := range tests {
		c := command()
		c.SetArgs(strings.Fields(tt.args))
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tt.wantMessage) {
			t.Errorf("demo %s: %v, want %q", tt.args, err, tt.wantMessage)
		}
	}
}
