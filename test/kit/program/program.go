// Package program builds commands of this module and runs them, and other programs, as processes of a test or benchmark.
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
	// maxLogTail is how much of the end of a log is shown when something fails, in bytes.
	maxLogTail = 8000
)

// Build builds commands, named as their folders below cmd, into folder, as a release does: without cgo, so that they need nothing beside them, and without
// symbols. It returns when all are there; an error has the compiler's output.
func Build(ctx context.Context, folder, version string, commands ...string) error {
	return build(ctx, "", folder, "-s -w -X main.version="+version, commands)
}

// BuildIn builds as Build does, from the repository in the folder repo, but without a version: for what is measured.
func BuildIn(ctx context.Context, repo, folder string, commands ...string) error {
	return build(ctx, repo, folder, "-s -w", commands)
}

// build builds commands with flags of the linker. An empty repo is the current folder.
func build(ctx context.Context, repo, folder, linkerFlags string, commands []string) error {
	for _, name := range commands {
		build := exec.CommandContext(ctx, "go", "build", //nolint:gosec // our own packages
			"-trimpath", "-tags=grpcnotrace", "-gcflags=all=-dwarf=false", // As the Makefile does, so that the compiler's cache is shared.
			"-ldflags", linkerFlags, "-o", filepath.Join(folder, name), module+"/cmd/"+name)
		build.Dir, build.Env = repo, append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, output)
		}
	}
	return nil
}

// ModuleFolder is the folder of a module's files. args are those of a go command, run in the folder in, that answers with
// the module in JSON: `list -m -json` for one of that module's own dependencies, `mod download -json` for any other.
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
	ended    chan struct{} // closed when it has ended
	stopping sync.Once
}

// Start starts binary with args. What it writes goes to a file of its name in folder. It ends with ctx at the latest, by SIGKILL.
func Start(ctx context.Context, folder, binary string, args ...string) (*Process, error) {
	return StartWith(ctx, folder, nil, binary, args...)
}

// StartWith starts binary as Start does, with further variables in its environment, each as NAME=value.
func StartWith(ctx context.Context, folder string, variables []string, binary string, args ...string) (*Process, error) {
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
		_ = p.command.Wait() // how it ended matters less than that it did, and its log says why
		close(p.ended)
	}()
	return p, nil
}

// InterceptorVariables are the variables of the interceptor's Deployment that control its garbage collector, without the memory limit of its container.
func InterceptorVariables() []string { return []string{"GOGC=20"} }

// Run starts binary as Start does, in a folder of the test's own, and ends it as EndWith does.
func Run(tb testing.TB, binary string, args ...string) *Process {
	tb.Helper()
	p, err := Start(context.WithoutCancel(tb.Context()), tb.TempDir(), binary, args...)
	if err != nil {
		tb.Fatal(err)
	}
	p.StopWithTest(tb)
	return p
}

// StopWithTest stops the process with the test. When the test has failed, the end of what the process wrote is shown.
func (p *Process) StopWithTest(tb testing.TB) {
	tb.Helper()
	tb.Cleanup(func() {
		p.Stop(tb)
		if tb.Failed() {
			tb.Logf("the end of what %s wrote:\n%s", p.name, p.logTail())
		}
	})
}

// Stop ends the process: by SIGTERM, and after await.Patience by SIGKILL, which fails the test. That it has ended before fails the test too. A second call
// does nothing.
func (p *Process) Stop(tb testing.TB) {
	tb.Helper()
	p.stopping.Do(func() {
		select {
		case <-p.ended:
			tb.Errorf("%s ended before it was told to", p.name)
		default:
			_ = p.command.Process.Signal(syscall.SIGTERM) // it may end by itself at this moment
		}
		select {
		case <-p.ended:
		case <-time.After(await.Patience()):
			tb.Errorf("%s goes on %v after SIGTERM: %v", p.name, await.Patience(), p.Kill())
		}
	})
}

// Kill ends the process by SIGKILL and waits for its end.
func (p *Process) Kill() error {
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}

// Signal sends a signal to the process, and waits for nothing.
func (p *Process) Signal(signal os.Signal) error { return p.command.Process.Signal(signal) }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Await calls ready until it returns no error, for at most await.Patience. It fails when the process has ended before. The
// error contains the last one of ready, and the end of what the process wrote.
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
		return fmt.Errorf("%s has ended: %w\n%s", p.name, last, p.logTail())
	default:
		return nil
	}
}

// hasExited says whether the process has ended.
func (p *Process) hasExited() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// PID is the number of the process.
func (p *Process) PID() int { return p.command.Process.Pid }

// logTail is the end of what the process has written, or why that can't be read.
func (p *Process) logTail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-maxLogTail):]))
}
