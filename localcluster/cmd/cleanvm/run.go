package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/term"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cleanvm/image"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cleanvm/machine"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cleanvm/walk"
)

// errFailed is the error of a run with a failed command or with something left on the machine.
var errFailed = errors.New("the commands failed on the clean machine, or left something there")

// runCommands boots and runs README's commands, or other commands, as the user.
func (o *options) runCommands(ctx context.Context, commands []walk.Command) error {
	work, err := os.MkdirTemp("", "cleanvm-")
	if err != nil {
		return fmt.Errorf("create a folder for the clone: %w", err)
	}
	defer os.RemoveAll(work)
	bundle, err := walk.MakeBundle(ctx, o.repo, work, o.dirty)
	if err != nil {
		return err
	}
	g, err := o.start(ctx)
	if err != nil {
		return err
	}
	if commands == nil {
		commands = o.readmeCommands(g.Accel)
	}
	err = o.walk(ctx, g, bundle, append([]walk.Command{walk.CloneCommand()}, commands...))
	if err != nil && o.keep && ctx.Err() == nil {
		progress("%v", err)
		g.await(ctx)
	}
	return errors.Join(err, g.end(ctx))
}

// readmeCommands are README's commands.
func (o *options) readmeCommands(accel machine.Acceleration) []walk.Command {
	tests := "make test"
	if accel == machine.Emulation {
		tests = "make test-cluster"
	}
	return []walk.Command{{Line: "make demo", Timeout: o.timeout}, {Line: cmp.Or(o.tests, tests), Timeout: o.timeout}}
}

func (o *options) walk(ctx context.Context, g *guest, bundle walk.Bundle, commands []walk.Command) error {
	log, err := os.Create(filepath.Join(g.dir, "terminal.log"))
	if err != nil {
		return fmt.Errorf("create the terminal's log: %w", err)
	}
	defer log.Close()
	look, live := o.terminalSettings()
	w := &walk.Walk{
		Root: g.root, Transcript: walk.NewTranscript(os.Stdout, log, live), Patience: g.patience, Dir: g.dir,
		Progress: progress,
	}
	begun := time.Now()
	if err := w.AwaitBoot(ctx); err != nil {
		return err
	}
	progress("all services are up after another %s", time.Since(begun).Round(time.Second))
	if err := w.CopyBundle(ctx, bundle); err != nil {
		return err
	}
	if w.Terminal, err = g.openTerminal(ctx, look, w.Transcript); err != nil {
		return err
	}
	report, err := w.RunCommands(ctx, commands)
	if err != nil {
		return err
	}
	return g.writeSummary(report, bundle)
}

// openTerminal logs the user in on a terminal.
func (g *guest) openTerminal(
	ctx context.Context, look machine.TerminalSettings, transcript io.Writer,
) (*machine.Terminal, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(float64(bootTimeout)*g.patience))
	defer cancel()
	login := g.login
	login.User = image.User
	session, err := g.Await(ctx, login)
	if err != nil {
		return nil, err
	}
	return session.Terminal(ctx, look, image.Password, transcript)
}

// terminalSettings describes this program's own terminal, less the prefix.
func (o *options) terminalSettings() (machine.TerminalSettings, bool) {
	out := int(os.Stdout.Fd())
	columns, rows, err := term.GetSize(out)
	if err != nil {
		return machine.TerminalSettings{Term: cmp.Or(o.term, "dumb"), Columns: 160, Rows: 50}, false
	}
	columns = max(columns-len([]rune(walk.Prefix)), 40)
	return machine.TerminalSettings{Term: cmp.Or(o.term, os.Getenv("TERM"), "dumb"), Columns: columns, Rows: rows}, true
}

// writeSummary prints and stores the summary.
func (g *guest) writeSummary(report walk.Report, bundle walk.Bundle) error {
	file, err := os.Create(filepath.Join(g.dir, "summary.txt"))
	if err != nil {
		return fmt.Errorf("write the summary: %w", err)
	}
	defer file.Close()
	out := io.MultiWriter(os.Stdout, file)
	state := ""
	if bundle.Dirty {
		state = " with uncommitted changes"
	}
	fmt.Fprintf(out, "\n=== A clean machine (%s), commit %.12s%s\n", g.Accel, bundle.Commit, state)
	report.Write(out)
	fmt.Fprintf(out, "\nlogs are in %s\n", g.dir)
	if !report.Passed() {
		return errFailed
	}
	fmt.Fprintln(out, "passed")
	return nil
}
