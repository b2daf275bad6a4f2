// Package realparts is what the benchmarks with a real API server and a real Envoy have in common: options for the files of those, programs
// that are built before, and a network of their own.
package realparts

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

// ErrArgument says that an argument cannot work.
var ErrArgument = errors.New("invalid argument")

// Options are what the command line of every such benchmark can set.
type Options struct {
	// Binaries are the files of etcd and kube-apiserver, and Envoy is that of Envoy.
	Binaries apiserver.Binaries
	Envoy    string
	// Repository is the folder of the repository, for its manifests.
	Repository string
	// JSON is a file that the results are written to, too; empty for none.
	JSON string
}

// Benchmark is one of them.
type Benchmark struct {
	// Name is that of its folder in bench.
	Name string
	// Programs are those of cmd that it runs, in netspace.Folder.
	Programs []string
	// Flags adds what its own command line can set, and Check says whether that can work.
	Flags func(flags *flag.FlagSet)
	Check func() error
	// Prepare, if there is one, puts more into netspace.Folder, in the network of the machine.
	Prepare func(ctx context.Context, folder string) error
	// Publish measures, prints what it has found, and fails when a limit is missed. It runs in the network of its own.
	Publish func(ctx context.Context, chosen Options, stdout, stderr io.Writer) error
}

// Main is the body of the benchmark's main. Its result is the exit code.
func (b Benchmark) Main() int { return b.Run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr) }

// Run is Main with the surroundings as arguments.
func (b Benchmark) Run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed := func(err error) int {
		fmt.Fprintf(stderr, "bench/%s: %v\n", b.Name, err)
		return 1
	}
	chosen, err := b.Parse(args, getenv, stderr)
	if err != nil {
		return failed(err)
	}
	return netspace.Run(func() int {
		if err := b.Publish(ctx, chosen, stdout, stderr); err != nil {
			return failed(err)
		}
		return 0
	}, func(folder string) error {
		if b.Prepare != nil {
			if err := b.Prepare(ctx, folder); err != nil {
				return err
			}
		}
		return program.BuildIn(ctx, chosen.Repository, folder, b.Programs...)
	})
}

// Parse reads the command line. Its error has ErrArgument in its chain, or is that of package flag.
func (b Benchmark) Parse(args []string, getenv func(string) string, stderr io.Writer) (chosen Options, err error) {
	flags := flag.NewFlagSet(b.Name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	chosen.Binaries.Flags(flags, getenv)
	flags.StringVar(&chosen.Envoy, "envoy", getenv("ENVOY_BIN"), "`file` of Envoy; by default $ENVOY_BIN")
	flags.StringVar(&chosen.Repository, "repo", ".", "`folder` of the repository, for its manifests")
	flags.StringVar(&chosen.JSON, "json", "", "`file` to write the results to, too")
	b.Flags(flags)
	if err := flags.Parse(args); err != nil {
		return Options{}, err
	}
	if chosen.Binaries.Etcd == "" || chosen.Binaries.APIServer == "" || chosen.Envoy == "" {
		return Options{}, fmt.Errorf("%w: set ETCD_BIN, KUBE_APISERVER_BIN and ENVOY_BIN, "+
			"or --etcd, --kube-apiserver and --envoy, to the files of the three", ErrArgument)
	}
	return chosen, b.Check()
}
