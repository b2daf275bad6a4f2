package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/localcluster/demo/kube"
	"github.com/kedify/argo-rollouts-plugin/localcluster/demo/scenario"
)

// paper is a screen that keeps what is printed.
type paper struct{ strings.Builder }

func (p *paper) Print(lines ...string) { p.WriteString(strings.Join(lines, "\n") + "\n") }
func (*paper) Frame([]string)          {}
func (*paper) Columns() int            { return 80 }

// place is a folder with a project, and commands that only note their calls:
// localcluster in the given state, and a kubectl that refuses to create.
type place struct{ dir string }

func newPlace(t *testing.T, state string) place {
	t.Helper()
	p := place{dir: t.TempDir()}
	p.write(t, "repo/examples/argo-rollouts-canary/manifests.yaml", "")
	p.write(t, "repo/config/kedify-proxy/kustomization.yaml", "")
	p.write(t, "state", state)
	p.write(t, "localcluster", `#!/bin/sh
cd "$(dirname "$0")"
case "$1" in
status)
	echo '{"state":"'"$(cat state)"'","kubeconfig":"/kubeconfig","bin":"'"$PWD"'","addresses":{"proxy":"127.0.0.1:1234"}}'
	exit ;;
up) if [ "$(cat state)" = broken ]; then echo "localcluster up" >> calls; exit 1; fi; printf running > state ;;
esac
echo "localcluster $*" >> calls
`)
	p.write(t, "kubectl", `#!/bin/sh
case "$*" in
*"create ns"*) echo "refused" >&2; exit 1 ;;
*"delete ns"*) echo "kubectl $*" >> "$(dirname "$0")/calls" ;;
esac
`)
	return p
}

func (p place) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (p place) calls(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

func (p place) options(keep bool, out *paper) options {
	o := options{
		keep: keep, localcluster: filepath.Join(p.dir, "localcluster"), settings: scenario.DefaultSettings(),
		screen: out, terminal: kube.Terminal{Err: out},
	}
	o.settings.Repo = filepath.Join(p.dir, "repo")
	return o
}

// However a run ends, what the demo has brought is taken away, and no more.
func TestWhatIsTakenAway(t *testing.T) {
	const remove = "kubectl delete ns rollouts-demo --ignore-not-found"
	tests := []struct {
		name, state string
		keep        bool
		want        []string
		says        string
	}{
		{name: "a cluster that the demo started", state: "stopped", want: []string{"localcluster up", "localcluster down"}, says: "refused"},
		{name: "a cluster that ran before stays", state: "running", want: []string{remove}, says: "refused"},
		{name: "kept", state: "stopped", keep: true, want: []string{"localcluster up"}, says: "refused"},
		{name: "a cluster that doesn't come up", state: "broken", want: []string{"localcluster up", "localcluster down"}, says: "localcluster up: exit status 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, out := newPlace(t, tt.state), new(paper)
			o := p.options(tt.keep, out)
			err := o.run(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error = %v, want one with %q", err, tt.says)
			}
			if diff := cmp.Diff(tt.want, p.calls(t)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if tt.keep != strings.Contains(out.String(), "http://rollouts-demo.localhost:1234/") {
				t.Errorf("kept %v, but printed:\n%s", tt.keep, out)
			}
		})
	}
}

func TestInterruptedRunCleansUp(t *testing.T) {
	p, out := newPlace(t, "running"), new(paper)
	o := p.options(false, out)
	ctx, cancel := context.WithCancel(t.Context())
	o.screen = interrupting{paper: out, interrupt: cancel}
	if err := o.run(ctx); !errors.Is(err, errInterrupted) {
		t.Errorf("error = %v, want %v", err, errInterrupted)
	}
	if diff := cmp.Diff([]string{"kubectl delete ns rollouts-demo --ignore-not-found"}, p.calls(t)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// interrupting ends the context as soon as the cluster is up.
type interrupting struct {
	*paper

	interrupt func()
}

func (i interrupting) Print(lines ...string) {
	i.paper.Print(lines...)
	i.interrupt()
}

func TestWrongUseIsRefused(t *testing.T) {
	tests := []struct{ args, says string }{
		{"--rate 100", "--rate 100: it must be from 220 to 2000"},
		{"--repo /nowhere", "--repo /nowhere is not the folder of the project"},
		{"more", "unknown command"},
	}
	for _, tt := range tests {
		c := command()
		c.SetArgs(strings.Fields(tt.args))
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("demo %s: %v, want %q", tt.args, err, tt.says)
		}
	}
}
