package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cgroup"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
	"github.com/kedify/argo-rollouts-plugin/localcluster/host"
	"github.com/kedify/argo-rollouts-plugin/localcluster/node"
)

// startCommand starts the supervisor and returns when it runs.
func startCommand() *cobra.Command {
	return &cobra.Command{
		Use:  "start PLAN",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			config, err := node.ReadConfig(args[0])
			if err != nil {
				return err
			}
			return startSupervisor(c.Context(), config.Settings, args)
		},
	}
}

func superviseCommand() *cobra.Command {
	return &cobra.Command{
		Use:  "supervise PLAN",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			config, err := node.ReadConfig(args[0])
			if err != nil {
				return err
			}
			return host.Supervise(c.Context(), config)
		},
	}
}

func removeCommand() *cobra.Command {
	return &cobra.Command{
		Use:  "remove DIR NAME",
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return host.Remove(c.Context(), cluster.Settings{Dir: args[0], Name: args[1]})
		},
	}
}

// modulesTimeout bounds the loading of kernel modules.
const modulesTimeout = 30 * time.Second

// startSupervisor starts the supervisor in a session of its own and returns when it holds its lock, or has ended.
func startSupervisor(ctx context.Context, s cluster.Settings, args []string) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	log, err := os.OpenFile(s.Path(host.LogFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer log.Close()
	loadModules(ctx)
	line := append(inSystemdScope(s, program, "inside", "supervise"), args...)
	command := exec.Command(line[0], line[1:]...) //nolint:noctx // this program itself; it outlives this process
	command.Stdout, command.Stderr, command.Dir = log, log, "/"
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- command.Wait() }()
	return awaitLock(ctx, s.Dir, exited)
}

// loadModules loads the kernel modules of the node. The kernel loads them on demand, unless that is disabled; a
// container has no modules to load. So a failure is not an error: the component that needs a missing module reports it.
func loadModules(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, modulesTimeout)
	defer cancel()
	_ = exec.CommandContext(ctx, "/usr/sbin/modprobe", "--quiet", "--all", "overlay", "veth", "nf_tables").Run()
}

// inSystemdScope makes systemd, if it manages cgroups of version 2, delegate a subtree to the command: other programs
// must not write there (https://systemd.io/CGROUP_DELEGATION/). systemd removes the scope with its last process.
func inSystemdScope(s cluster.Settings, command ...string) []string {
	if _, err := os.Stat("/run/systemd/system"); err != nil || !cgroup.Unified() {
		return command
	}
	return append([]string{
		"systemd-run", "--scope", "--quiet", "--collect", "--unit=" + cgroup.ScopeUnit(s.Name),
		"--description=Embedded Kubernetes of " + s.Dir, "--property=Delegate=yes", "--",
	}, command...)
}

// awaitLock waits until the supervisor holds its lock, or has ended.
func awaitLock(ctx context.Context, dir string, exited <-chan error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		holder, err := host.LockHolder(dir)
		if err != nil || holder != 0 {
			return err
		}
		select {
		case err := <-exited:
			if _, statErr := os.Stat(filepath.Join(dir, host.StatusFile)); statErr == nil {
				return nil // it has recorded the reason; awaitReady prints it
			}
			printed, _ := os.ReadFile(filepath.Join(dir, host.LogFile))
			return fmt.Errorf("the supervisor exited (%w)\n%s", err, printed)
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
