package build

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A package is compiled once for all modules that build it from the same sources with the same flags. So modules have
// to pin their common dependencies alike, or a cold build compiles Kubernetes' libraries once per module. With
// -trimpath a package contains the required version, not the version that replaces it: two modules that replace
// different versions by the same one share nothing. So a version older than a dependency requires is pinned by
// excluding the newer ones.
func TestModulesThatShareLibrariesPinThemAlike(t *testing.T) {
	repo := filepath.Join("..", "..")
	tests := []struct {
		name string
		dirs []string
		// own are module paths, or their prefixes, that may differ between folders, because their version is what a
		// test is about.
		own []string
	}{
		{
			name: "Kubernetes 1.34",
			dirs: []string{repo, folder("cluster"), folder("keda"), folder("argo-rollouts-v1.9.1")},
			// Modules of the older controller that its plugin protocol depends on, and that its sources need in an
			// older version. Neither controller compiles with a Prometheus client newer than 1.24.
			own: []string{
				"github.com/prometheus/client_golang",
				"github.com/argoproj/", "github.com/hashicorp/go-plugin", "github.com/hashicorp/yamux", "github.com/oklog/run",
				"github.com/slack-go/slack",
			},
		},
		{
			name: "Kubernetes 1.36",
			dirs: []string{folder("envoy-gateway"), filepath.Join(repo, "tools", "fluxapply"), folder("istio"), folder("argo-cd")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first := map[string]struct{ version, dir string }{}
			for _, dir := range tt.dirs {
				for module, version := range pins(t, dir) {
					if slices.ContainsFunc(tt.own, func(prefix string) bool { return strings.HasPrefix(module, prefix) }) {
						continue
					}
					known, seen := first[module]
					if !seen {
						first[module] = struct{ version, dir string }{version, dir}
						continue
					}
					if version != known.version {
						t.Errorf("%s is %s in %s and %s in %s: go -C %s mod edit -require=%[1]s@%[4]s, with -exclude=%[1]s@VERSION if "+
							"a newer one is required, and go mod tidy",
							module, version, dir, known.version, known.dir, dir)
					}
				}
			}
		})
	}
}

// pins returns the versions of the modules that a folder's go.mod names. For a replaced module it returns both, as
// "v1.2.0 => v1.1.0".
func pins(t *testing.T, dir string) map[string]string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	command.Dir = dir
	text, err := command.Output()
	if err != nil {
		t.Fatalf("read go.mod of %s: %v", dir, err)
	}
	type module struct{ Path, Version string }
	var file struct {
		Require []module
		Replace []struct{ Old, New module }
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatalf("read go.mod of %s: %v", dir, err)
	}
	found := map[string]string{}
	for _, required := range file.Require {
		found[required.Path] = required.Version
	}
	if len(found) == 0 {
		t.Fatalf("go.mod of %s requires nothing", dir)
	}
	for _, replaced := range file.Replace {
		if required, ok := found[replaced.Old.Path]; ok {
			found[replaced.Old.Path] = required + " => " + replaced.New.Version
		}
	}
	return found
}
