package mutants

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The line of the translation that pairs backends with weights, and one that
// pairs them the wrong way round.
const (
	rightLine = "for i, weight := range ir.EffectiveWeights(route.Backends, services) {"
	wrongLine = "for i := range route.Backends {\n\t\tweight := ir.EffectiveWeights(route.Backends, services)[len(route.Backends)-1-i]"
)

// swapped builds an interceptor that gives the stable Service's weight to the
// canary and the other way round, from the working tree, which stays as it is.
func swapped(t *testing.T, repo string) string {
	t.Helper()
	source := filepath.Join(repo, "internal", "translate", "route.go")
	raw, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	mutated := strings.Replace(string(raw), rightLine, wrongLine, 1)
	if mutated == string(raw) {
		t.Fatalf("%s no longer has the line that this mutant changes: %q", source, rightLine)
	}
	dir := t.TempDir()
	replacement, overlay, binary := filepath.Join(dir, "route.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "interceptor")
	plan, err := json.Marshal(map[string]map[string]string{"Replace": {source: replacement}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{replacement: []byte(mutated), overlay: plan} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-overlay", overlay, "-o", binary, "./cmd/interceptor")
	build.Dir = repo
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the mutant: %v\n%s", err, out)
	}
	return binary
}
