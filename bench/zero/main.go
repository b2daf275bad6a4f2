// Command zero measures requests that wait for an app without a replica, through a real etcd and kube-apiserver, the
// built interceptor and scaler and a real Envoy. It measures the time from the endpoint in an EndpointSlice to the
// first byte of the answer, for 1, 25 and 100 apps. For comparison, the same code pushes the same endpoints at the same
// moments without an API server. It also measures the time from a request to the scaler's notification of KEDA, the
// processor time of a queued request and of a request for an awake app, and the memory and descriptors of thousands of
// queued requests. With --http-add-on it alternates with the interceptor of the KEDA HTTP add-on, for the same objects.
// It prints a table and JSON, and fails when a value is over its limit.
//
// It omits the start of a Pod, a network between the components, and more than one proxy. The apps, the client and
// everything else share the processors.
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

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchmain"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
)

// options are the command line options.
type options struct {
	benchmain.Options

	held    int
	samples int
	peer    string
	only    string
}

func main() {
	var chosen options
	os.Exit(benchmain.Benchmark{
		Name: "zero", Programs: []string{"interceptor", "scaler"},
		Flags: chosen.flags, Check: chosen.check,
		Prepare: func(ctx context.Context, folder string) error {
			if chosen.peer == "" {
				return nil
			}
			return buildPeer(ctx, chosen.peer, folder)
		},
		Publish: func(ctx context.Context, common benchmain.Options, stdout, stderr io.Writer) error {
			chosen.Options = common
			return publish(ctx, chosen, stdout, stderr)
		},
	}.Main())
}

// flags adds the command line options.
func (o *options) flags(flags *flag.FlagSet) {
	flags.IntVar(&o.held, "held", 10_000,
		"`number` of requests that are queued at a time; each uses one descriptor of this process and one of Envoy")
	flags.IntVar(&o.samples, "samples", 200, "`number` of apps that are woken for each value")
	flags.StringVar(&o.peer, "http-add-on", "",
		"`folder` with the source of the KEDA HTTP add-on: its interceptor is built and measured, too")
	flags.StringVar(&o.only, "only", "", "the only `part` to measure: notify, wake, cost, warm or held (default: all)")
}

// check validates the options.
func (o *options) check() error {
	switch {
	case !slices.Contains([]string{"", "notify", "wake", "cost", "warm", "held"}, o.only):
		return fmt.Errorf("%w: --only is %q, want notify, wake, cost, warm or held", benchmain.ErrArgument, o.only)
	case o.held < mostApps || o.samples < mostApps:
		return fmt.Errorf("%w: --held is %d and --samples is %d, each at least %d", benchmain.ErrArgument, o.held, o.samples,
			mostApps)
	}
	return nil
}

// publish measures, prints the results, and fails when a limit is missed.
func publish(ctx context.Context, chosen options, stdout, stderr io.Writer) error {
	results, err := measure(ctx, chosen, stderr)
	if err != nil {
		return err
	}
	results.summarise()
	results.table(stdout)
	return benchresult.Publish(results, results.Limits, chosen.JSON, stdout)
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
	}{{"notify", s.measureNotify}, {"wake", s.measureWake}, {"cost", s.measureCost}, {"warm", s.measureWarm}, {"held", s.measureQueued}} {
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
