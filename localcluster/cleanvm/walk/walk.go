package walk

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cleanvm/compare"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cleanvm/machine"
)

// Paths in the guest.
const (
	home   = "/home/dev"
	bundle = home + "/argo-rollouts-plugin.bundle"
	// Clone is the folder of the user's clone.
	Clone = home + "/argo-rollouts-plugin"
)

// Timeouts, before they are multiplied by the patience.
const (
	bootTimeout     = 3 * time.Minute
	snapshotTimeout = 2 * time.Minute
	// goneTimeout is how long objects that are being removed may still exist.
	goneTimeout  = 30 * time.Second
	pollInterval = 2 * time.Second
)

// Command is one line that the user types.
type Command struct {
	Line string
	// Timeout bounds it, before it is multiplied by the patience.
	Timeout time.Duration
}

// Walk is a user on a machine.
type Walk struct {
	// Root is a login that reads the machine's state and changes nothing.
	Root *machine.Session
	// Terminal is the user's terminal. Transcript is its output.
	Terminal   *machine.Terminal
	Transcript *Transcript
	// Patience multiplies all timeouts.
	Patience float64
	// Dir is the folder for output files.
	Dir string
	// Progress reports progress.
	Progress func(format string, args ...any)
}

// Outcome is the result of one command.
type Outcome struct {
	// Line is the command line.
	Line string
	// Code is the exit code. Problem is set if there is none.
	Code    int
	Problem error
	// Took is the duration. Asked is the number of sudo's password prompts.
	Took            time.Duration
	PasswordPrompts int
	// Tail are the last lines of its output.
	Tail []string
}

// Passed reports whether the command succeeded.
func (o Outcome) Passed() bool { return o.Problem == nil && o.Code == 0 }

// Report contains the user's commands and what they left.
type Report struct {
	// Machine describes the machine, one fact per line.
	Machine []string
	// Outcomes are the commands up to the first failure.
	Outcomes []Outcome
	// MinMemoryMB is the minimum of available memory, in MiB.
	MinMemoryMB int
	// Differences are the differences on the machine.
	Differences compare.Result
}

// Passed reports whether all commands succeeded and left nothing.
func (s Report) Passed() bool {
	for _, outcome := range s.Outcomes {
		if !outcome.Passed() {
			return false
		}
	}
	return s.Differences.Clean()
}

// progress reports progress on a line of its own.
func (w *Walk) progress(format string, args ...any) {
	w.Transcript.EndLine()
	w.Progress(format, args...)
}

// withTimeout bounds a step of the walk.
func (w *Walk) withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(float64(timeout)*w.Patience))
}

// AwaitBoot waits until the machine has finished booting.
func (w *Walk) AwaitBoot(ctx context.Context) error {
	ctx, cancel := w.withTimeout(ctx, bootTimeout)
	defer cancel()
	// A degraded machine returns a non-zero exit code; the summary shows the reason.
	_, err := w.Root.Run(ctx, "systemctl is-system-running --wait || true; ! systemctl is-active --quiet docker || "+
		"docker info >/dev/null", nil)
	if err != nil {
		return fmt.Errorf("wait for the machine's services: %w", err)
	}
	return nil
}

// CopyBundle copies a bundle to the path that the user clones from.
func (w *Walk) CopyBundle(ctx context.Context, b Bundle) error {
	ctx, cancel := w.withTimeout(ctx, snapshotTimeout)
	defer cancel()
	file, err := os.Open(b.File)
	if err != nil {
		return fmt.Errorf("open the bundle: %w", err)
	}
	defer file.Close()
	_, err = w.Root.Run(ctx, "cat >"+bundle+" && chown dev:dev "+bundle, file)
	if err != nil {
		return fmt.Errorf("copy the bundle: %w", err)
	}
	return nil
}

// CloneCommand is the user's first command.
func CloneCommand() Command {
	return Command{"git clone " + bundle + " " + Clone + " && cd " + Clone, 2 * time.Minute}
}

// RunCommands runs commands as the user until one fails, and compares the machine.
func (w *Walk) RunCommands(ctx context.Context, commands []Command) (Report, error) {
	report := Report{}
	facts, err := w.describe(ctx)
	if err != nil {
		return report, err
	}
	report.Machine = facts
	memory := w.watchMemory(ctx)
	w.progress("taking a snapshot of the machine before the commands")
	before, err := w.snapshot(ctx, "before")
	if err != nil {
		return report, err
	}
	_ = w.Transcript.Tail() // the login message belongs to no command
	for _, command := range commands {
		outcome := w.runCommand(ctx, command)
		report.Outcomes = append(report.Outcomes, outcome)
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		if !outcome.Passed() {
			break
		}
	}
	w.progress("taking a snapshot of the machine after the commands")
	if report.Differences, err = w.compare(ctx, before); err != nil {
		return report, err
	}
	report.MinMemoryMB, err = memory()
	return report, err
}

// runCommand runs one command as the user.
func (w *Walk) runCommand(ctx context.Context, command Command) Outcome {
	w.progress("dev types: %s", command.Line)
	ctx, cancel := w.withTimeout(ctx, command.Timeout)
	defer cancel()
	out := Outcome{Line: command.Line}
	start := time.Now()
	out.Code, out.Problem = w.Terminal.Run(ctx, command.Line)
	out.Took, out.PasswordPrompts, out.Tail = time.Since(start), w.Terminal.PasswordPrompts(), w.Transcript.Tail()
	return out
}

// compare takes snapshots until the machine equals its former state or the timeout passes: processes that are
// terminating may need a moment.
func (w *Walk) compare(ctx context.Context, before compare.Snapshot) (compare.Result, error) {
	until, cancel := w.withTimeout(ctx, goneTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		after, err := w.snapshot(ctx, "after")
		if err != nil {
			return compare.Result{}, err
		}
		result := compare.Diff(before, after, compare.IgnoredChanges(), compare.Allowed(Clone))
		if result.Clean() {
			return result, nil
		}
		select {
		case <-until.Done():
			return result, ctx.Err()
		case <-ticker.C:
		}
	}
}

// snapshot takes a snapshot of the machine and writes it to a file.
func (w *Walk) snapshot(ctx context.Context, name string) (compare.Snapshot, error) {
	ctx, cancel := w.withTimeout(ctx, snapshotTimeout)
	defer cancel()
	text, err := w.Root.Run(ctx, "bash -s", strings.NewReader(compare.Script))
	if err != nil {
		return nil, fmt.Errorf("take a snapshot of the machine: %w", err)
	}
	if err := os.WriteFile(filepath.Join(w.Dir, name+".txt"), []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("store the snapshot of the machine: %w", err)
	}
	return compare.Parse(text)
}

// describe queries the facts about the machine.
func (w *Walk) describe(ctx context.Context) ([]string, error) {
	ctx, cancel := w.withTimeout(ctx, snapshotTimeout)
	defer cancel()
	text, err := w.Root.Run(ctx, facts, nil)
	if err != nil {
		return nil, fmt.Errorf("query the machine's facts: %w", err)
	}
	return strings.Split(strings.TrimSpace(text), "\n"), nil
}

// facts prints what the reader of a summary needs.
const facts = `. /etc/os-release; echo "$PRETTY_NAME, kernel $(uname -r), cgroups: $(stat -fc %T /sys/fs/cgroup)"
echo "$(nproc) processors, $(awk '$1 == "MemTotal:" { print int($2 / 1024) }' /proc/meminfo) MiB of memory, $(df -h --output=avail /home | tail -1 | tr -d ' ') free below /home"
echo "systemd: $(systemctl is-system-running), docker: $(systemctl is-active docker), $(sudo -V | head -1), $(/usr/local/go/bin/go version)"
`
