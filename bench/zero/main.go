// Command zero measures requests that wait for an app without a replica, through a real etcd and kube-apiserver, the built interceptor and scaler and a real
// Envoy: the time from an EndpointSlice that gets its endpoint to the first byte of the answer, for 1, 25 and 100 apps, beside pushes of the same endpoints at the
// same moments by the same code without an API server; the time from a request to the scaler's word to KEDA; the processor time of a request that is held, and of
// one for an app that is awake; and what thousands of held requests take of memory and descriptors. With --http-add-on the interceptor of the KEDA HTTP add-on takes
// turns with ours, for the same objects. It prints a table and JSON, and fails when a figure is over its limit.
//
// What it does not show: the start of a Pod, a network between the parts, and more than one proxy. The apps, the client and everything else share
// the processors.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/figures"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/netspace"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/program"
)

// errArgument says that an argument cannot work.
var errArgument = errors.New("invalid argument")

// options are what the command line can set.
type options struct {
	binaries controlplane.Binaries
	envoy    string
	repo     string
	json     string
	held     int
	samples  int
	peer     string
	only     string
}

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

// run is the program with its surroundings as arguments. It returns the exit code.
func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed := func(err error) int {
		fmt.Fprintln(stderr, "bench/zero:", err)
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
	}, func(folder string) error {
		if chosen.peer != "" {
			if err := buildPeer(ctx, chosen.peer, folder); err != nil {
				return err
			}
		}
		return program.BuildStripped(ctx, chosen.repo, folder, "interceptor", "scaler")
	})
}

// parse reads the command line.
func parse(args []string, getenv func(string) string, stderr io.Writer) (chosen options, err error) {
	flags := flag.NewFlagSet("zero", flag.ContinueOnError)
	flags.SetOutput(stderr)
	chosen.binaries.Flags(flags, getenv)
	flags.StringVar(&chosen.envoy, "envoy", getenv("ENVOY_BIN"), "`file` of Envoy; by default $ENVOY_BIN")
	flags.StringVar(&chosen.repo, "repo", ".", "`folder` of the repository, for its manifests")
	flags.StringVar(&chosen.json, "json", "", "`file` to write the results to, too")
	flags.IntVar(&chosen.held, "held", 10_000, "`number` of requests that are held at a time; each takes a descriptor of this process and one of Envoy")
	flags.IntVar(&chosen.samples, "samples", 200, "`number` of apps that are woken for each figure")
	flags.StringVar(&chosen.peer, "http-add-on", "", "`folder` with the source of the KEDA HTTP add-on: its interceptor is built and measured beside ours")
	flags.StringVar(&chosen.only, "only", "", "`part` that is measured: told, wake, held or cost; all of them by default")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	switch {
	case !slices.Contains([]string{"", "told", "wake", "held", "cost"}, chosen.only):
		return options{}, fmt.Errorf("%w: --only is %q, want told, wake, held or cost", errArgument, chosen.only)
	case chosen.binaries.Etcd == "" || chosen.binaries.APIServer == "" || chosen.envoy == "":
		return options{}, fmt.Errorf("%w: set ETCD_BIN, KUBE_APISERVER_BIN and ENVOY_BIN, "+
			"or --etcd, --kube-apiserver and --envoy, to the files of the three", errArgument)
	case chosen.held < mostApps || chosen.samples < mostApps:
		return options{}, fmt.Errorf("%w: --held is %d and --samples is %d, each at least %d", errArgument, chosen.held, chosen.samples, mostApps)
	}
	return chosen, nil
}

// publish measures, prints what was found, and fails when a limit is missed.
func publish(ctx context.Context, chosen options, stdout, stderr io.Writer) error {
	results, err := measure(ctx, chosen, stderr)
	if err != nil {
		return err
	}
	results.summarise()
	results.table(stdout)
	return figures.Publish(results, results.Limits, chosen.json, stdout)
}

// measure starts everything and measures.
func measure(ctx context.Context, chosen options, progress io.Writer) (results report, err error) {
	s, err := start(ctx, chosen)
	if err != nil {
		return report{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	for _, part := range []struct {
		name    string
		measure func(context.Context, *report) error
	}{{"told", s.measureTold}, {"wake", s.measureWake}, {"cost", s.measureCost}, {"held", s.measureHeld}} {
		if chosen.only != "" && chosen.only != part.name {
			continue
		}
		began := time.Now()
		if err := part.measure(ctx, &results); err != nil {
			return report{}, fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Fprintf(progress, "%s done after %.0f s\n", part.name, time.Since(began).Seconds())
	}
	return results, nil
}
