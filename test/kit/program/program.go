// Package program builds commands of this module, and runs programs as processes of a test or benchmark.
package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

const (
	// module is the import path of the project.
	module = "github.com/kedify/argo-rollouts-plugin"
	// maxLogTail is the size in bytes of the part of a log that a failure shows.
	maxLogTail = 8000
)

// Build builds commands, named after their folders below cmd, into folder. As in a release they are built without cgo,
// so that they depend on no library, and without symbols. An error contains the compiler's output.
func Build(ctx context.Context, folder, version string, commands ...string) error {
	return build(ctx, "", folder, "-s -w -X main.version="+version, commands)
}

// BuildIn is Build in the repository at repo, but without a version. Benchmarks use it.
func BuildIn(ctx context.Context, repo, folder string, commands ...string) error {
	return build(ctx, repo, folder, "-s -w", commands)
}

// build builds commands with linker flags. An empty repo is the current folder.
func build(ctx context.Context, repo, folder, linkerFlags string, commands []string) error {
	for _, name := range commands {
		build := exec.CommandContext(ctx, "go", "build", //nolint:gosec // our own packages
			"-trimpath", "-tags=grpcnotrace", "-gcflags=all=-dwarf=false", // The flags of the Makefile share its build cache.
			"-ldflags", linkerFlags, "-o", filepath.Join(folder, name), module+"/cmd/"+name)
		build.Dir, build.Env = repo, append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, output)
		}
	}
	return nil
}

// ModuleFolder returns the folder of a module's files. args are the arguments of a go command in the folder dir that
// prints the module as JSON: `list -m -json` for a dependency of the module in dir, `mod download -json` for any other
// module.
func ModuleFolder(ctx context.Context, dir string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the test names the module
	command.Dir = dir
	answer, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %v: %w", args, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(answer, &module); err != nil || module.Dir == "" {
		return "", fmt.Errorf("go %v: no folder in %s: %w", args, answer, err)
	}
	return module.Dir, nil
}

// Process is a running program.
type Process struct {
	name     string
	log      string
	command  *exec.Cmd
	ended    chan struct{} // closed when the process has ended
	stopping sync.Once
}

// Start starts binary with args. Its output goes to a file in folder, named after the binary. The process gets SIGKILL
// when ctx ends.
func Start(ctx context.Context, folder, binary string, args ...string) (*Process, error) {
	return StartWith(ctx, folder, nil, binary, args...)
}

// StartWith is Start with more environment variables, each as NAME=value.
func StartWith(
	ctx context.Context, folder string, variables []string, binary string, args ...string,
) (*Process, error) {
	p := &Process{name: filepath.Base(binary), ended: make(chan struct{})}
	p.log = filepath.Join(folder, p.name+".log")
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.command = exec.CommandContext(ctx, binary, args...) //nolint:gosec // the developer names the program
	p.command.Stdout, p.command.Stderr = log, log
	p.command.Env = append(os.Environ(), variables...)
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	go func() {
		_ = p.command.Wait() // the log contains the reason
		close(p.ended)
	}()
	return p, nil
}

// InterceptorVariables returns the environment variables of the interceptor's Deployment that control its garbage
// collector, without the memory limit of its container.
func InterceptorVariables() []string { return []string{"GOGC=20"} }

// Run is Start in a temporary folder of the test, followed by StopWithTest.
func Run(tb testing.TB, binary string, args ...string) *Process {
	tb.Helper()
	p, err := Start(context.WithoutCancel(tb.Context()), tb.TempDir(), binary, args...)
	if err != nil {
		tb.Fatal(err)
	}
	p.StopWithTest(tb)
	return p
}

// StopWithTest stops the process when the test ends. If the test has failed, it logs the end of the process's output.
func (p *Process) StopWithTest(tb testing.TB) {
	tb.Helper()
	tb.Cleanup(func() {
		p.Stop(tb)
		if tb.Failed() {
			tb.Logf("end of the log of %s:\n%s", p.name, p.logTail())
		}
	})
}

// Stop stops the process with SIGTERM and, after await.Patience, with SIGKILL, which fails the test. The test also
// fails if the process has exited before. A second call has no effect.
func (p *Process) Stop(tb testing.TB) {
	tb.Helper()
	p.stopping.Do(func() {
		select {
		case <-p.ended:
			tb.Errorf("%s exited before SIGTERM", p.name)
		default:
			_ = p.command.Process.Signal(syscall.SIGTERM) // the process may exit at this moment
		}
		select {
		case <-p.ended:
		case <-time.After(await.Patience()):
			tb.Errorf("%s still runs %v after SIGTERM: %v", p.name, await.Patience(), p.Kill())
		}
	})
}

// Kill sends SIGKILL to the process and waits until it has exited.
func (p *Process) Kill() error {
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}

// Signal sends a signal to the process without waiting.
func (p *Process) Signal(signal os.Signal) error { return p.command.Process.Signal(signal) }

// Ended returns a channel that is closed when the process has exited.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Await calls ready until it returns no error, for at most await.Patience. It fails if the process has exited before.
// The error contains the last error of ready, and the end of the process's output.
func (p *Process) Await(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, await.Patience())
	defer cancel()
	var last error
	timeoutErr := await.Until(ctx, p.name+" to be ready", func() bool {
		last = ready(ctx)
		return last == nil || p.hasExited()
	}, func() string { return last.Error() })
	switch {
	case timeoutErr != nil:
		return fmt.Errorf("%w\n%s", timeoutErr, p.logTail())
	case last != nil:
		return fmt.Errorf("%s has exited: %w\n%s", p.name, last, p.logTail())
	default:
		return nil
	}
}

// hasExited reports whether the process has exited.
func (p *Process) hasExited() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// PID returns the process ID.
func (p *Process) PID() int { return p.command.Process.Pid }

// Log returns the output of the process so far.
func (p *Process) Log() ([]byte, error) { return os.ReadFile(p.log) }

// logTail returns the end of the process's log, or the error of reading it.
func (p *Process) logTail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-maxLogTail):]))
}
