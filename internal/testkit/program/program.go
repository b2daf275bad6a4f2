// Package program builds commands of this module and runs them, and other programs, as processes of a test.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// module is the import path of the project.
	module = "github.com/kedify/argo-rollouts-plugin"
	// endLimit is how long a process may take to end in good order.
	endLimit = 20 * time.Second
	// shownLog is how much of the end of a log is shown when a test fails, in bytes.
	shownLog = 8000
)

// Build builds commands, named as their folders below cmd, into folder, as a release does: without cgo, so that they need nothing beside them. It
// returns when all are there; an error has the compiler's output.
func Build(ctx context.Context, folder, version string, commands ...string) error {
	return build(ctx, "", folder, "-X main.version="+version, commands)
}

// BuildStripped builds as Build does, from the repository in the folder repo, but without a version, and without symbols as a release is: for what is measured.
func BuildStripped(ctx context.Context, repo, folder string, commands ...string) error {
	return build(ctx, repo, folder, "-s -w", commands)
}

// build builds commands with flags of the linker. An empty repo is the current folder.
func build(ctx context.Context, repo, folder, linkerFlags string, commands []string) error {
	for _, name := range commands {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", linkerFlags, //nolint:gosec // our own packages
			"-o", filepath.Join(folder, name), module+"/cmd/"+name)
		build.Dir, build.Env = repo, append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, output)
		}
	}
	return nil
}

// Process is a running program.
type Process struct {
	name    string
	log     string
	command *exec.Cmd
	ended   chan struct{} // closed when it has ended
}

// Run starts binary with args and ends it with the test: by SIGTERM, and when that takes too long by SIGKILL, which fails the test. That it ends before
// fails the test too. What it writes goes to a file of its own, whose end is shown when the test fails.
func Run(tb testing.TB, binary string, args ...string) *Process {
	tb.Helper()
	p := &Process{name: filepath.Base(binary), ended: make(chan struct{})}
	p.log = filepath.Join(tb.TempDir(), p.name+".log")
	log, err := os.Create(p.log)
	if err != nil {
		tb.Fatal(err)
	}
	p.command = exec.CommandContext(context.WithoutCancel(tb.Context()), binary, args...) //nolint:gosec // the test names the program
	p.command.Stdout, p.command.Stderr = log, log
	if err := p.command.Start(); err != nil {
		tb.Fatalf("start %s: %v", p.name, errors.Join(err, log.Close()))
	}
	go func() {
		_ = p.command.Wait() // how it ended matters less than that it did, and its log says why
		_ = log.Close()
		close(p.ended)
	}()
	tb.Cleanup(func() { p.end(tb) })
	return p
}

// Log is what the process has written so far.
func (p *Process) Log(tb testing.TB) string {
	tb.Helper()
	text, err := os.ReadFile(p.log)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// end ends the process.
func (p *Process) end(tb testing.TB) {
	tb.Helper()
	select {
	case <-p.ended:
		tb.Errorf("%s ended before the test did", p.name)
	default:
		_ = p.command.Process.Signal(syscall.SIGTERM) // it may end by itself at this moment
	}
	select {
	case <-p.ended:
	case <-time.After(endLimit):
		tb.Errorf("%s goes on %v after SIGTERM", p.name, endLimit)
		_ = p.command.Process.Kill()
		<-p.ended
	}
	if tb.Failed() {
		text := p.Log(tb)
		tb.Logf("the end of what %s wrote:\n%s", p.name, strings.TrimSpace(text[max(0, len(text)-shownLog):]))
	}
}
