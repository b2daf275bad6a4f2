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
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/figures"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/realparts"
)

// options are what the command line can set.
type options struct {
	realparts.Options

	held    int
	samples int
	peer    string
	only    string
}

func main() {
	var own options
	os.Exit(realparts.Benchmark{
		Name: "zero", Programs: []string{"interceptor", "scaler"},
		Flags: own.flags, Check: own.check,
		Prepare: func(ctx context.Context, folder string) error {
			if own.peer == "" {
				return nil
			}
			return buildPeer(ctx, own.peer, folder)
		},
		Publish: func(ctx context.Context, chosen realparts.Options, stdout, stderr io.Writer) error {
			own.Options = chosen
			return publish(ctx, own, stdout, stderr)
		},
	}.Main())
}

// flags adds what the command line can set.
func (o *options) flags(flags *flag.FlagSet) {
	flags.IntVar(&o.held, "held", 10_000, "`number` of requests that are held at a time; each takes a descriptor of this process and one of Envoy")
	flags.IntVar(&o.samples, "samples", 200, "`number` of apps that are woken for each figure")
	flags.StringVar(&o.peer, "http-add-on", "", "`folder` with the source of the KEDA HTTP add-on: its interceptor is built and measured beside ours")
	flags.StringVar(&o.only, "only", "", "`part` that is measured: told, wake, held or cost; all of them by default")
}

// check says whether that can work.
func (o *options) check() error {
	switch {
	case !slices.Contains([]string{"", "told", "wake", "held", "cost"}, o.only):
		return fmt.Errorf("%w: --only is %q, want told, wake, held or cost", realparts.ErrArgument, o.only)
	case o.held < mostApps || o.samples < mostApps:
		return fmt.Errorf("%w: --held is %d and --samples is %d, each at least %d", realparts.ErrArgument, o.held, o.samples, mostApps)
	}
	return nil
}

// publish measures, prints what was found, and fails when a limit is missed.
func publish(ctx context.Context, chosen options, stdout, stderr io.Writer) error {
	results, err := measure(ctx, chosen, stderr)
	if err != nil {
		return err
	}
	results.summarise()
	results.table(stdout)
	return figures.Publish(results, results.Limits, chosen.JSON, stdout)
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
