package provider

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// A cluster that is updated while it runs still belongs to the process that started it.
func TestEmbeddedOwnership(t *testing.T) {
	for name, test := range map[string]struct {
		before string
		owns   bool
	}{
		"started here":            {Stopped, true},
		"there before it":         {Running, false},
		"left by another process": {Broken, true},
	} {
		t.Run(name, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			if err := os.WriteFile(state, []byte(test.before), 0o600); err != nil {
				t.Fatal(err)
			}
			command := scriptCommand(t, `
state=`+state+`
case "$1" in
status) echo "{\"state\":\"$(cat $state)\"}" ;;
up) printf running >$state ;;
down) printf stopped >$state ;;
esac`)
			e := &embedded{Options: Options{
				Local: LocalCluster{Path: command, Patience: await.Patience()}, Report: func(string) {},
				Cache: func(*Cluster) string { return "" },
			}}
			for range 2 {
				if _, err := e.Up(t.Context(), Spec{Keep: true}); err != nil {
					t.Fatal(err)
				}
				if e.Owns() != test.owns {
					t.Errorf("owns it: %v, want %v", e.Owns(), test.owns)
				}
			}
			if err := e.Down(context.WithoutCancel(t.Context())); err != nil {
				t.Fatal(err)
			}
			left, err := os.ReadFile(state)
			if want := map[bool]string{true: Stopped, false: Running}[test.owns]; err != nil || string(left) != want {
				t.Errorf("the cluster is %s in the end, want %s (%v)", left, want, err)
			}
		})
	}
}
