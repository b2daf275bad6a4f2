// Command propagation measures how long a weight takes from the PATCH of the annotation to the first response with the new split, through a real etcd and
// kube-apiserver, the built interceptor and a real Envoy, at several numbers of HTTPScaledObjects; and what memory the interceptor takes.
//
// Beside it, in the same run and alternating with it sample by sample, a bare server pushes a route configuration that was marshalled before to a second
// Envoy with the same resources: what no control plane with this design can be faster than. It prints quantiles over all samples, as a table and as JSON,
// and fails when one is over its limit.
//
// What it does not show: a network between the parts, more than one proxy, and a machine whose processors are busy with requests. A weight counts as there
// with the first response that follows it, so the time from there to the last worker thread of a proxy is not in it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/figures"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/controlplane"
)

// options are what the command line can set.
type options struct {
	binaries controlplane.Binaries
	envoy    string
	repo     string
	json     string
	objects  string
	sizes    []int
	repeats  int
	samples  int
	churn    time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench/propagation:", err)
		os.Exit(1) //nolint:gocritic // only the handling of signals ends with the process
	}
}

// run is the program with its surroundings as arguments.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (err error) {
	var chosen options
	flags := flag.NewFlagSet("propagation", flag.ContinueOnError)
	flags.SetOutput(stderr)
	chosen.binaries.Flags(flags, getenv)
	flags.StringVar(&chosen.envoy, "envoy", getenv("ENVOY_BIN"), "`file` of Envoy; by default $ENVOY_BIN")
	flags.StringVar(&chosen.repo, "repo", ".", "`folder` of the repository, for its manifests")
	flags.StringVar(&chosen.json, "json", "", "`file` to write the results to, too")
	flags.StringVar(&chosen.objects, "objects", "1,100,1000", "`numbers` of HTTPScaledObjects in ascending order; the limits are for the last one")
	flags.IntVar(&chosen.repeats, "repeats", 5, "`number` of rounds, at least 5")
	flags.IntVar(&chosen.samples, "samples", 40, "`number` of weights of each kind in a round")
	flags.DurationVar(&chosen.churn, "churn", time.Minute, "`time` of changes during which memory is watched; 0 for none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case chosen.binaries.Etcd == "" || chosen.binaries.APIServer == "" || chosen.envoy == "":
		return errors.New("set ETCD_BIN, KUBE_APISERVER_BIN and ENVOY_BIN, or --etcd, --kube-apiserver and --envoy, to the files of the three")
	case chosen.repeats < 5 || chosen.samples < 1:
		return fmt.Errorf("--repeats is %d, at least 5; --samples is %d, at least 1", chosen.repeats, chosen.samples)
	}
	if chosen.sizes, err = sizesOf(chosen.objects); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "bench-propagation")
	if err != nil {
		return err
	}
	results, err := measure(ctx, chosen, folder, stderr)
	if err != nil {
		return fmt.Errorf("%w (logs are in %s)", err, folder)
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	results.table(stdout)
	return figures.Publish(results, results.Limits, chosen.json, stdout)
}

// measure starts everything, measures, and ends everything.
func measure(ctx context.Context, chosen options, folder string, progress io.Writer) (results report, err error) {
	s := &stage{options: chosen, folder: folder}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := s.start(ctx); err != nil {
		return report{}, err
	}
	results = report{Repeats: chosen.repeats, Samples: chosen.samples}
	for _, count := range chosen.sizes {
		line, err := s.measureAt(ctx, count)
		if err != nil {
			return report{}, fmt.Errorf("with %d HTTPScaledObjects: %w", count, err)
		}
		results.Lines = append(results.Lines, line)
		fmt.Fprintf(progress, "%d HTTPScaledObjects done\n", count)
	}
	if results.Memory, err = s.measureMemory(ctx); err != nil {
		return report{}, fmt.Errorf("memory: %w", err)
	}
	results.summarise()
	return results, nil
}

// sizesOf reads the numbers of HTTPScaledObjects.
func sizesOf(text string) ([]int, error) {
	var sizes []int
	for part := range strings.SplitSeq(text, ",") {
		size, err := strconv.Atoi(part)
		if err != nil || size < 1 || len(sizes) > 0 && size <= sizes[len(sizes)-1] {
			return nil, fmt.Errorf("--objects is %q: numbers of 1 or more in ascending order, separated by commas (%w)", text, errNotAscending)
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}

// errNotAscending says that the sizes are not as they have to be.
var errNotAscending = errors.New("not ascending numbers")
