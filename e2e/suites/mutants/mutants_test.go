package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// demoTimeout bounds one run of the demo, its cluster's start included.
const demoTimeout = 8 * time.Minute

// environment says where the programs under test are.
type environment struct{ cluster, demo, cache, repo string }

func fromEnvironment(t *testing.T) environment {
	t.Helper()
	e := environment{
		cluster: os.Getenv("LOCALCLUSTER_BIN"), demo: os.Getenv("DEMO_BIN"),
		cache: os.Getenv("LOCALCLUSTER_CACHE"), repo: os.Getenv("LOCALCLUSTER_REPO"),
	}
	if e.cluster == "" || e.demo == "" || e.cache == "" || e.repo == "" {
		t.Fatal("LOCALCLUSTER_BIN, DEMO_BIN, LOCALCLUSTER_CACHE and LOCALCLUSTER_REPO are not set: run this test by `make test-mutants`")
	}
	return e
}

// up starts a cluster, with other binaries if any are given, and takes it down
// when the test ends.
func (e environment) up(t *testing.T, args ...string) {
	t.Helper()
	base := []string{"--cache", e.cache, "--repo", e.repo}
	printed, err := os.Create(filepath.Join(t.TempDir(), "up"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), e.cluster, append(base, "down")...).CombinedOutput(); err != nil {
			t.Errorf("cluster down: %v\n%s", err, out)
		}
	})
	command := exec.CommandContext(t.Context(), e.cluster, append(append(base, "up"), args...)...)
	command.Stdout, command.Stderr = printed, printed
	if err := command.Run(); err != nil {
		raw, _ := os.ReadFile(printed.Name())
		t.Fatalf("cluster up: %v\n%s", err, raw)
	}
}

// output collects what a command prints and tells when a text was printed.
type output struct {
	mu      sync.Mutex
	printed bytes.Buffer
	marker  string
	seen    chan struct{}
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.printed.Write(p)
	if o.marker != "" && strings.Contains(o.printed.String(), o.marker) {
		o.marker = ""
		close(o.seen)
	}
	return n, err
}

// mustFail runs the demo, calls sabotage once the marker was printed, and
// expects the demo to fail with all of the wanted words.
func (e environment) mustFail(t *testing.T, marker string, sabotage func(), want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), demoTimeout)
	defer cancel()
	out := &output{marker: marker, seen: make(chan struct{})}
	command := exec.CommandContext(ctx, e.demo, "--localcluster", e.cluster, "--repo", e.repo)
	command.Env = append(os.Environ(), "LOCALCLUSTER_CACHE="+e.cache)
	command.Stdout, command.Stderr = out, out
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	var err error
	select {
	case <-out.seen:
		sabotage()
		err = <-ended
	case err = <-ended:
		t.Errorf("the demo ended before it printed %q", marker)
	}
	if err == nil {
		t.Errorf("the demo passed although the data path was broken:\n%s", out.printed.String())
	}
	for _, word := range want {
		if !strings.Contains(out.printed.String(), word) {
			t.Errorf("the demo does not say %q:\n%s", word, out.printed.String())
		}
	}
}

func TestTheDemoFailsWhenTheInterceptorIsFrozen(t *testing.T) {
	e := fromEnvironment(t)
	e.up(t)
	frozen := 0
	defer func() {
		if frozen != 0 {
			_ = syscall.Kill(frozen, syscall.SIGCONT)
		}
	}()
	e.mustFail(t, "The load runs", func() {
		frozen = interceptor(t)
		if err := syscall.Kill(frozen, syscall.SIGSTOP); err != nil {
			t.Errorf("freeze the interceptor: %v", err)
		}
	}, "Envoy to run what the annotation says", "does the interceptor live")
}

func TestTheDemoFailsWhenTwoWeightsAreSwapped(t *testing.T) {
	e := fromEnvironment(t)
	e.up(t, "--binary", "interceptor="+swapped(t, e.repo))
	e.mustFail(t, "The load runs", func() {}, "Envoy to run what the annotation says", "Envoy runs rollouts-demo-canary 80 %, rollouts-demo-stable 20 %")
}

// interceptor finds the process of the interceptor by the program that its
// image starts.
func interceptor(t *testing.T) int {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		raw, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(raw), "/interceptor\x00") {
			continue
		}
		var pid int
		if err := json.Unmarshal([]byte(strings.Split(path, "/")[2]), &pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Error("no process of the interceptor is found")
	return 0
}
