// Command cleanvm runs README's commands on a clean machine: a new Debian in QEMU with systemd, cgroup version 2,
// Docker and a user whose sudo requires a password. It reports the results and what the commands left on the machine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cleanvm/image"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cleanvm/machine"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cleanvm/walk"
)

// version is set by the linker.
var version = "dev"

func main() {
	// QEMU's death signal follows the thread that starts QEMU.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cleanvm: "+err.Error())
		os.Exit(1)
	}
}

// memoryMB is the memory that README requires.
const memoryMB = 4096

func rootCommand() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:   "cleanvm",
		Short: "Run README's commands on a clean Debian with systemd, Docker and sudo, in QEMU",
		Long: `cleanvm builds a Debian 13 from Debian's packages, boots it in QEMU, and has its user clone
this repository and type README's commands on a terminal, with the password for sudo. It compares the machine
with how it was before. What the host has in its caches is carried in, so that nothing is built twice.

It passes if all commands end well and nothing is left but in the user's caches and the clone. It needs root and
a Debian or Ubuntu host; /dev/kvm is used where it runs an unmodified kernel, else QEMU emulates, many times slower.`,
		Version: version, SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.runCommands(c.Context(), nil) },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&o.repo, "repo", ".", "repository to clone")
	flags.StringVar(&o.cache, "cache", os.Getenv("LOCALCLUSTER_CACHE"),
		"folder of built components and disks (default: kedify-localcluster in the user's cache folder)")
	flags.StringVar(&o.accel, "accel", "auto", "kvm, tcg (emulation), or auto: KVM where it works")
	flags.StringVar(&o.model, "cpu", "max,la57=off",
		"emulated processor, one of QEMU's models (a fifth level of page tables only costs time)")
	flags.IntVar(&o.memoryMB, "memory", memoryMB, "memory in MiB")
	flags.IntVar(&o.cpus, "cpus", 2, "processors")
	flags.BoolVar(&o.carry, "carry", true,
		"copy the host's built components and Go's caches into the guest; without them everything is built in the guest")
	flags.BoolVar(&o.docker, "docker", true, "start Docker, which loads kernel modules and enables cgroup controllers")
	flags.BoolVar(&o.install, "install", false, "install missing host packages with apt-get")
	flags.Float64Var(&o.patience, "patience", 0, "factor for all timeouts (default: 1 with KVM, 6 under emulation)")
	flags.BoolVar(&o.dirty, "dirty", false, "clone uncommitted changes, too")
	flags.BoolVar(&o.keep, "keep", false, "if something fails, leave the machine running until Ctrl-C")
	flags.StringVar(&o.term, "term", "", "TERM in the guest (default: this terminal's, or dumb if there is none)")
	flags.DurationVar(&o.timeout, "timeout", 40*time.Minute,
		"timeout of one command, before it is multiplied by --patience")
	root.Flags().StringVar(&o.tests, "tests", "",
		"test command (default: make test, or make test-cluster under emulation)")
	root.AddCommand(runCommand(o), bootCommand(o), imageCommand(o), homeCommand())
	return root
}

func runCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "run [-- COMMAND...]",
		Short: "Clone the repository in the guest and run other commands there, one line per argument",
		RunE: func(c *cobra.Command, lines []string) error {
			var commands []walk.Command
			for _, line := range lines {
				commands = append(commands, walk.Command{Line: line, Timeout: o.timeout})
			}
			return o.runCommands(c.Context(), commands)
		},
	}
}

func bootCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "boot", Short: "Boot the machine, print how to log in, and leave it running until Ctrl-C", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.boot(c.Context()) },
	}
}

func imageCommand(o *options) *cobra.Command {
	fresh := false
	c := &cobra.Command{
		Use: "image", Short: "Build the disk of the machine if it does not exist, and nothing else", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			b, _, lock, err := o.builder(c.Context())
			if err != nil {
				return err
			}
			defer lock.Close()
			base, err := b.Base(c.Context(), fresh)
			if err == nil {
				progress("%s", base.Disk)
			}
			return err
		},
	}
	c.Flags().BoolVar(&fresh, "fresh", false, "rebuild it, with Debian's newest packages")
	return c
}

func homeCommand() *cobra.Command {
	return &cobra.Command{
		Use: image.HomeCommand + " PLAN", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return image.MakeHome(args[0]) },
	}
}

// acceleration parses the flag --accel. It returns whether to try KVM, and whether to try emulation.
func acceleration(flag string) ([]machine.Acceleration, error) {
	switch flag {
	case "auto":
		return []machine.Acceleration{machine.KVM, machine.Emulation}, nil
	case string(machine.KVM), string(machine.Emulation):
		return []machine.Acceleration{machine.Acceleration(flag)}, nil
	default:
		return nil, fmt.Errorf("--accel %s: it must be auto, kvm or tcg", flag)
	}
}

// progress prints progress.
func progress(format string, args ...any) { fmt.Printf(format+"\n", args...) }
