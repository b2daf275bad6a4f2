// Command propagation measures the time of a weight from the PATCH of the annotation to the first response with the new
// split, through a real etcd and kube-apiserver, the built interceptor and a real Envoy. It measures several numbers of
// HTTPScaledObjects and of fleets, without and with other changes. It also measures the cost of a weight and the
// interceptor's memory.
//
// In the same run, alternating sample by sample, a bare server pushes the host's scope, marshalled in advance, to a
// second Envoy with the same resources and with other changes at the same rate. That is a lower bound for control
// planes of this design. The command prints quantiles over all samples, as a table and as JSON, and fails when one is
// over its limit.
//
// With --soak it makes such changes for a long time instead, and compares the interceptor's memory, goroutines,
// descriptors and times at the end with those before.
//
// With --accuracy it counts the requests of each side of constant weights instead, next to an Envoy with a static
// split, and those to the side without weight while a weight changes.
//
// With --envoy-gateway it measures the same change of an HTTPRoute by Envoy Gateway instead, on the same API server and
// alternating with the interceptor.
//
// With --sink the measured proxy also sends its metrics to the interceptor, at the interval of its bootstrap. The bare
// server's proxy never does, so its times stay a lower bound. With --tls the measured proxy connects as the agent's
// proxies do, by TLS and with a token.
//
// With --reporters more proxies send the metrics of all clusters of their fleets to the interceptor, and the time of a
// PATCH has an absolute limit.
//
// It omits a network between the components, more than one proxy, and a machine whose processors are busy with
// requests. A weight counts as active with the first response that follows it, so the time until a proxy's last worker
// thread is not included.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchmain"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/envoygateway"
)

// options are the command line options.
type options struct {
	benchmain.Options

	shapes  []shape
	samples int
	crowd   int
	sink    bool
	tls     bool
	soak    time.Duration
	// accuracy is the number of requests for each weight, 0 to measure times.
	accuracy int
	// reporters is the number of proxies that send metrics of all their clusters.
	reporters int
	// envoyGateway are the files of Envoy Gateway, to measure it instead of the bare server.
	envoyGateway envoygateway.Files
}

func main() {
	var chosen options
	shapes := ""
	os.Exit(benchmain.Benchmark{
		Name: "propagation", Programs: []string{"interceptor"},
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&shapes, "shapes", "1x100,1x1000,100x10000,1x10000",
				"`numbers` of fleets and of HTTPScaledObjects in all of them")
			flags.IntVar(&chosen.samples, "samples", 1000, "`number` of weights of each kind, alone and among changes")
			flags.IntVar(&chosen.crowd, "crowd", 49,
				"`number` of discovery clients that reconnect at once, with the last shape; 0 for none, and no joining proxy")
			flags.BoolVar(&chosen.sink, "sink", false, "the measured proxy sends its metrics to the interceptor")
			flags.DurationVar(&chosen.soak, "soak", 0,
				"measure only whether the interceptor stays as it is, for a `duration` of changes, with the first shape")
			flags.IntVar(&chosen.reporters, "reporters", 0,
				"`number` of more proxies, over all fleets, that send metrics of all clusters of their fleet each second")
			flags.IntVar(&chosen.accuracy, "accuracy", 0,
				"measure only the accuracy of splits, by a `number` of requests for each weight, with the first shape")
			flags.StringVar(&chosen.envoyGateway.Part, "envoy-gateway", "",
				"measure only an HTTPScaledObject and an HTTPRoute of Envoy Gateway, whose built part is in this `folder`")
			flags.StringVar(&chosen.envoyGateway.CRDs, "gateway-api-crds", os.Getenv("GATEWAY_API_CRDS"),
				"`folder` of the Gateway API's CustomResourceDefinitions; by default $GATEWAY_API_CRDS")
			flags.BoolVar(&chosen.tls, "tls", false, "the measured proxy connects by TLS with a token")
		},
		Check: func() (err error) {
			if chosen.shapes, err = shapesOf(shapes); err != nil {
				return err
			}
			return chosen.check()
		},
		Publish: func(ctx context.Context, common benchmain.Options, stdout, stderr io.Writer) error {
			chosen.Options = common
			return publish(ctx, chosen, stdout, stderr)
		},
	}.Main())
}

// check validates the numbers.
func (o options) check() error {
	switch {
	case o.crowd < 0:
		return fmt.Errorf("%w: --crowd is %d, at least 0", benchmain.ErrArgument, o.crowd)
	case o.soak < 0 || o.soak > 0 && o.soak < time.Minute:
		return fmt.Errorf("%w: --soak is %v, at least 1m", benchmain.ErrArgument, o.soak)
	case o.accuracy < 0 || o.accuracy > 0 && (o.accuracy < minRequests || o.soak > 0):
		return fmt.Errorf("%w: --accuracy is %d, at least %d, without --soak", benchmain.ErrArgument, o.accuracy, minRequests)
	case o.accuracy > 0 && (o.shapes[0].Fleets > 1 || o.shapes[0].Objects <= len(canaryShares())):
		return fmt.Errorf("%w: --accuracy needs a first shape of one fleet, with at least %d HTTPScaledObjects",
			benchmain.ErrArgument, len(canaryShares())+1)
	case o.reporters < 0 || o.reporters > maxReporters || o.reporters > 0 && o.tls:
		return fmt.Errorf("%w: --reporters is %d, 0 to %d, without --tls", benchmain.ErrArgument, o.reporters, maxReporters)
	case o.envoyGateway.Part != "" && (o.soak > 0 || o.accuracy > 0 || o.reporters > 0 || o.tls):
		return fmt.Errorf("%w: --envoy-gateway is for neither --soak, --accuracy, --reporters nor --tls",
			benchmain.ErrArgument)
	case o.samples < 100:
		return fmt.Errorf("%w: --samples is %d, at least 100", benchmain.ErrArgument, o.samples)
	}
	return nil
}

// publish measures, prints the results, and fails when a limit is missed.
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
	return benchresult.Publish(results, results.Limits, chosen.JSON, stdout)
}

// logsIn returns the end of each log of a shape. The logs are deleted with the network's processes.
func logsIn(folder string) string {
	const shown = 2000
	logs, _ := filepath.Glob(filepath.Join(folder, "*", "*.log")) // The pattern is valid.
	var all strings.Builder
	for _, log := range logs {
		text, _ := os.ReadFile(filepath.Clean(log)) // An unreadable log is omitted.
		fmt.Fprintf(&all, "%s:\n%s\n", filepath.Base(log), text[max(0, len(text)-shown):])
	}
	return all.String()
}

// measure measures each shape on an API server of its own.
func measure(ctx context.Context, chosen options, folder string, progress io.Writer) (report, error) {
	results := report{Samples: chosen.samples, Sink: chosen.sink, TLS: chosen.tls, Reporters: chosen.reporters}
	if chosen.soak > 0 || chosen.accuracy > 0 {
		chosen.shapes = chosen.shapes[:1]
	}
	for i, size := range chosen.shapes {
		joins := chosen.crowd > 0 && i == len(chosen.shapes)-1
		result, err := measureShape(ctx, chosen, folder, size, joins, progress)
		if err != nil {
			return report{}, fmt.Errorf("with %v: %w", size, err)
		}
		results.Results = append(results.Results, result)
		fmt.Fprintf(progress, "%v done\n", size)
	}
	results.summarise()
	return results, nil
}
