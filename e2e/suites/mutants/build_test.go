package mutants

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// interceptor is the program that the mutants are variants of.
const interceptor = "interceptor"

// build builds the interceptor next to the test binary. It does not link an up-to-date interceptor again. fault is the
// name of a fault, or "" for none.
func build(t *testing.T, fault string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, tags := filepath.Join(filepath.Dir(self), "mutants", interceptor), "-tags=grpcnotrace"
	if fault != "" {
		binary, tags = binary+"-"+fault, tags+",mutant,mutant_"+fault
	}
	// The flags are those of the Makefile, so that both use the same build cache.
	command := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", tags,
		"-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-o", binary, "../../../cmd/"+interceptor)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build the interceptor: %v\n%s", err, out)
	}
	return binary
}

// TestBuild builds all mutants: `make suites` runs it before it starts a cluster.
func TestBuild(t *testing.T) {
	for _, r := range plan(t) {
		program, err := os.ReadFile(r.binary)
		if err != nil {
			t.Fatal(err)
		}
		// A binary contains the names of its functions, even without debug information.
		got, want := bytes.Contains(program, []byte("publishWrongWeights")), r.fault == "brief_wrong_weight"
		if got != want {
			t.Errorf("%s: has the code of the fault brief_wrong_weight: %t, want %t", r.name, got, want)
		}
	}
}
