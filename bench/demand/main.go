// Command demand measures the cost of the metrics pipeline without requests: the processor time and the memory of the
// built interceptor and the built scaler together. It uses a real etcd and kube-apiserver, two real Envoys with the
// installed bootstrap, and a thousand HTTPScaledObjects, each of which received requests once, a minute before. A
// client makes the calls of KEDA 2.19 and of the HorizontalPodAutoscaler for as many triggers: a stream per trigger, a
// poll of each every 30 s, and a sync of each every 15 s (pkg/scaling/scale_handler.go there). Each poll and sync calls
// GetMetricSpec, GetMetrics and IsActive. The command prints a table and JSON, and fails when a value is over its
// limit.
//
// It omits the second replica of each component, and requests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchmain"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
)

// options are the command line options.
type options struct {
	benchmain.Options

	objects  int
	watched  time.Duration
	profiles string
}

func main() {
	var chosen options
	os.Exit(benchmain.Benchmark{
		Name: "demand", Programs: []string{"interceptor", "scaler"},
		Flags: func(flags *flag.FlagSet) {
			flags.IntVar(&chosen.objects, "objects", 1000, "`number` of HTTPScaledObjects")
			flags.DurationVar(&chosen.watched, "watched", time.Minute,
				"duration (`time`) of each measurement, with KEDA and without")
			flags.StringVar(&chosen.profiles, "profiles", "",
				"`folder` for Go profiles of both programs, whose cost is part of the results; empty for none")
		},
		Check: func() error {
			if chosen.objects < 1 || chosen.watched < polling {
				return fmt.Errorf("%w: --objects is %d, at least 1; --watched is %v, at least %v", benchmain.ErrArgument,
					chosen.objects, chosen.watched, polling)
			}
			return nil
		},
		Publish: func(ctx context.Context, common benchmain.Options, stdout, stderr io.Writer) error {
			chosen.Options = common
			return publish(ctx, chosen, stdout, stderr)
		},
	}.Main())
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

// measure starts everything and measures, without KEDA and with it.
func measure(ctx context.Context, chosen options, progress io.Writer) (results report, err error) {
	s, err := start(ctx, chosen, progress)
	if err != nil {
		return report{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	results = report{Objects: chosen.objects, WatchedSeconds: chosen.watched.Seconds()}
	if results.Alone, err = s.watch(ctx, "alone"); err != nil {
		return report{}, err
	}
	fmt.Fprintln(progress, "without KEDA done")
	err = s.askedByKEDA(ctx, func(ctx context.Context) (err error) {
		results.Asked, err = s.watch(ctx, "asked")
		return err
	}, &results)
	return results, err
}
