package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

// ticketInterval is the interval at which sudo's ticket is renewed. The ticket lasts for minutes (timestamp_timeout of
// sudoers(5)), and a first build lasts longer.
const ticketInterval = time.Minute

// errNoRoot is returned if no method to become root is available.
var errNoRoot = errors.New("root is needed")

// elevate makes sure that commands can run as root until the context ends. It prompts a user at most once, with the
// reason.
//
// `sudo -n true` comes first: `sudo -v` may prompt even users who never need a password, if another of their rules
// requires one (verifypw of sudoers(5)).
func elevate(ctx context.Context, reason string) error {
	if os.Geteuid() == 0 || sudo(ctx, "-n", "true") == nil {
		return nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return fmt.Errorf("%w (%s), sudo needs a password, and there is no terminal for the prompt: "+
			"run it in a terminal, as root, or allow sudo without a password", errNoRoot, reason)
	}
	printProgress("root is needed: %s", reason)
	if err := sudo(ctx, "-v"); err != nil {
		return fmt.Errorf("%w (%s): run it as root, or as a user with sudo: %w", errNoRoot, reason, err)
	}
	go keepTicket(ctx)
	return nil
}

// keepTicket keeps sudo's ticket valid. If that fails, sudo prompts again.
func keepTicket(ctx context.Context) {
	ticker := time.NewTicker(ticketInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if sudo(ctx, "-n", "-v") != nil {
				return
			}
		}
	}
}

// sudo runs one sudo command. Only one that may prompt shows its output.
func sudo(ctx context.Context, args ...string) error {
	command := exec.CommandContext(ctx, "sudo", args...)
	command.Stdin = os.Stdin
	if args[0] != "-n" {
		command.Stdout, command.Stderr = os.Stderr, os.Stderr
	}
	return command.Run()
}

// runAsRoot runs this program with other arguments as root.
func runAsRoot(ctx context.Context, args ...string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if os.Geteuid() != 0 {
		args = append([]string{"--", program}, args...)
		if !term.IsTerminal(int(os.Stdin.Fd())) {
			args = append([]string{"-n"}, args...)
		}
		program = "sudo"
	}
	command := exec.CommandContext(ctx, program, args...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stderr, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	if err := command.Run(); err != nil {
		return fmt.Errorf("as root, %s: %w", strings.Join(args, " "), err)
	}
	return nil
}
