// Command propagation measures how long a weight takes from the PATCH of the annotation to the
// first response with the new split, through a real etcd and kube-apiserver, the built interceptor
// and a real Envoy: with several numbers of HTTPScaledObjects and of fleets, alone and among other
// changes. Beside that it measures what a weight costs, and what memory the interceptor takes.
//
// In the same run, alternating sample by sample, a bare server pushes the host's scope, marshalled
// before, to a second Envoy with the same resources, and other changes at the same rate: what no
// control plane of this design can be faster than. The command prints quantiles over all samples, as
// a table and as JSON, and fails when one is over its limit.
//
// What it does not show: a network between the parts, more than one proxy, and a machine whose
// processors are busy with requests. A weight counts as there with the first response that follows
// it, so the time from there to the last worker thread of a proxy is not in it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/figures"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/netspace"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/program"
)

// options are what the command line can set.
type options struct {
	binaries controlplane.Binaries
	envoy    string
	repo     string
	json     string
	shapes   []shape
	samples  int
	crowd    int
}

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

// run is the program with its surroundings as arguments. It returns the exit code.
func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed := func(err error) int {
		fmt.Fprintln(stderr, "bench/propagation:", err)
		return 1
	}
	chosen, err := parse(args, getenv, stderr)
	if err != nil {
		return failed(err)
	}
	return netspace.Run(func() int {
		if err := publish(ctx, chosen, stdout, stderr); err != nil {
			return failed(err)
		}
		return 0
	}, func(folder string) error { return program.BuildStripped(ctx, chosen.repo, folder, "interceptor") })
}

// parse reads the command line.
func parse(args []string, getenv func(string) string, stderr io.Writer) (chosen options, err error) {
	flags := flag.NewFlagSet("propagation", flag.ContinueOnError)
	flags.SetOutput(stderr)
	chosen.binaries.Flags(flags, getenv)
	flags.StringVar(&chosen.envoy, "envoy", getenv("ENVOY_BIN"), "`file` of Envoy; by default $ENVOY_BIN")
	flags.StringVar(&chosen.repo, "repo", ".", "`folder` of the repository, for its manifests")
	flags.StringVar(&chosen.json, "json", "", "`file` to write the results to, too")
	shapes := flags.String("shapes", "1x100,1x1000,100x10000,1x10000",
		"`numbers` of fleets and of HTTPScaledObjects in all of them")
	flags.IntVar(&chosen.samples, "samples", 1000, "`number` of weights of each kind, alone and among changes")
	flags.IntVar(&chosen.crowd, "crowd", 49, "`number` of discovery clients that connect again at once, with the last shape")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	switch {
	case chosen.binaries.Etcd == "" || chosen.binaries.APIServer == "" || chosen.envoy == "":
		return options{}, fmt.Errorf("%w: set ETCD_BIN, KUBE_APISERVER_BIN and ENVOY_BIN, "+
			"or --etcd, --kube-apiserver and --envoy, to the files of the three", errArgument)
	case chosen.crowd < 1:
		return options{}, fmt.Errorf("%w: --crowd is %d, at least 1", errArgument, chosen.crowd)
	case chosen.samples < 100:
		return options{}, fmt.Errorf("%w: --samples is %d, at least 100", errArgument, chosen.samples)
	}
	chosen.shapes, err = shapesOf(*shapes)
	return chosen, err
}

// publish measures, prints what was found, and fails when a limit is missed.
func publish(ctx context.Context, chosen options, stdout, stderr io.Writer) error {
	folder, err := os.MkdirTemp("", "bench-propagation")
	if err != nil {
		return err
	}
	results, err := measure(ctx, chosen, folder, stderr)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, logsIn(folder))
	}
	results.table(stdout)
	return figures.Publish(results, results.Limits, chosen.json, stdout)
}

// logsIn has the end of each log of a shape, which goes with the network's processes.
func logsIn(folder string) string {
	const shown = 2000
	logs, _ := filepath.Glob(filepath.Join(folder, "*", "*.log")) // The pattern is right.
	var all strings.Builder
	for _, log := range logs {
		text, _ := os.ReadFile(filepath.Clean(log)) // What cannot be read is not shown.
		fmt.Fprintf(&all, "%s:\n%s\n", filepath.Base(log), text[max(0, len(text)-shown):])
	}
	return all.String()
}

// measure measures each shape on an API server of its own.
func measure(ctx context.Context, chosen options, folder string, progress io.Writer) (report, error) {
	results := report{Samples: chosen.samples}
	for i, each := range chosen.shapes {
		isLast := i == len(chosen.shapes)-1
		result, err := measureShape(ctx, chosen, folder, each, isLast)
		if err != nil {
			return report{}, fmt.Errorf("with %v: %w", each, err)
		}
		results.Results = append(results.Results, result)
		fmt.Fprintf(progress, "%v done\n", each)
	}
	results.summarise()
	return results, nil
}
