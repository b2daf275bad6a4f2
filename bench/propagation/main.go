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
// With --sink the measured proxy also sends its metrics to the interceptor, at the interval of its bootstrap. The bare
// server's proxy never does: what it takes stays what no control plane can be faster than.
//
// What it does not show: a network between the parts, more than one proxy, and a machine whose
// processors are busy with requests. A weight counts as there with the first response that follows
// it, so the time from there to the last worker thread of a proxy is not in it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/figures"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/realparts"
)

// options are what the command line can set.
type options struct {
	realparts.Options

	shapes  []shape
	samples int
	crowd   int
	sink    bool
}

func main() {
	var own options
	shapes := ""
	os.Exit(realparts.Benchmark{
		Name: "propagation", Programs: []string{"interceptor"},
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&shapes, "shapes", "1x100,1x1000,100x10000,1x10000", "`numbers` of fleets and of HTTPScaledObjects in all of them")
			flags.IntVar(&own.samples, "samples", 1000, "`number` of weights of each kind, alone and among changes")
			flags.IntVar(&own.crowd, "crowd", 49, "`number` of discovery clients that connect again at once, with the last shape; 0 for none, and no proxy that joins")
			flags.BoolVar(&own.sink, "sink", false, "have the measured proxy send its metrics to the interceptor")
		},
		Check: func() (err error) {
			own.shapes, err = shapesOf(shapes)
			return errors.Join(err, own.check())
		},
		Publish: func(ctx context.Context, chosen realparts.Options, stdout, stderr io.Writer) error {
			own.Options = chosen
			return publish(ctx, own, stdout, stderr)
		},
	}.Main())
}

// check says whether the numbers can work.
func (o options) check() error {
	switch {
	case o.crowd < 0:
		return fmt.Errorf("%w: --crowd is %d, at least 0", realparts.ErrArgument, o.crowd)
	case o.samples < 100:
		return fmt.Errorf("%w: --samples is %d, at least 100", realparts.ErrArgument, o.samples)
	}
	return nil
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
	return figures.Publish(results, results.Limits, chosen.JSON, stdout)
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
	results := report{Samples: chosen.samples, Sink: chosen.sink}
	for i, each := range chosen.shapes {
		joins := chosen.crowd > 0 && i == len(chosen.shapes)-1
		result, err := measureShape(ctx, chosen, folder, each, joins)
		if err != nil {
			return report{}, fmt.Errorf("with %v: %w", each, err)
		}
		results.Results = append(results.Results, result)
		fmt.Fprintf(progress, "%v done\n", each)
	}
	results.summarise()
	return results, nil
}
