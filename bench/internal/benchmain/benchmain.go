// Package benchmain is the common code of the benchmarks with a real API server and a real Envoy: options for their
// binaries, programs that are built in advance, and a network namespace of their own.
package benchmain

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

// ErrArgument is returned for invalid arguments.
var ErrArgument = errors.New("invalid argument")

// Options are the command line options of every such benchmark.
type Options struct {
	// Binaries are the paths of etcd and kube-apiserver. Envoy is the path of Envoy.
	Binaries apiserver.Binaries
	Envoy    string
	// Repository is the folder of the repository, for its manifests.
	Repository string
	// JSON is an additional output file for the results; empty for none.
	JSON string
}

// Benchmark is one of them.
type Benchmark struct {
	// Name is the name of its folder in bench.
	Name string
	// Programs are the programs below cmd that it runs, in netspace.Folder.
	Programs []string
	// Flags adds the benchmark's own flags. Check validates them.
	Flags func(flags *flag.FlagSet)
	Check func() error
	// Prepare is optional. It adds files to netspace.Folder, in the machine's network namespace.
	Prepare func(ctx context.Context, folder string) error
	// Publish measures, prints the results, and fails when a limit is missed. It runs in a network namespace of its
	// own.
	Publish func(ctx context.Context, chosen Options, stdout, stderr io.Writer) error
}

// Main is the body of the benchmark's main function. It returns the exit code.
func (b Benchmark) Main() int { return b.Run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr) }

// Run is Main with the environment as arguments.
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

// Parse parses the command line. Its error wraps ErrArgument, or is package flag's.
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
