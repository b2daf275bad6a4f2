// Command request measures the cost of a request in a proxy: the processor time of an Envoy that is configured as
// kedify-proxy is. It compares it with an Envoy with one plain route table in its listener, as in a static
// configuration. Both have the same hosts, clusters and endpoints.
//
// Blocks of requests alternate between the proxies. Each value is the median of the ratios of consecutive blocks. A
// second Envoy with the same plain table is the control: the distance of its ratio from 1 is the machine's noise.
//
// Two more Envoys are configured as kedify-proxy is, one with sticky canaries and one with session affinity. They are
// compared with the one that has neither.
//
// It omits latency, and requests that wait for a processor.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
)

// errArgument is returned for invalid arguments.
var errArgument = errors.New("invalid argument")

// options are the command line options.
type options struct {
	envoy    string
	repo     string
	json     string
	hosts    int
	blocks   int
	requests int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench/request:", err)
		os.Exit(1) //nolint:gocritic // only the handling of signals ends with the process
	}
}

// run is the program with its environment as arguments.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	var chosen options
	flags := flag.NewFlagSet("request", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&chosen.envoy, "envoy", getenv("ENVOY_BIN"), "`file` of Envoy; by default $ENVOY_BIN")
	flags.StringVar(&chosen.repo, "repo", ".", "`folder` of the repository, for its manifests")
	flags.StringVar(&chosen.json, "json", "", "`file` to write the results to, too")
	flags.IntVar(&chosen.hosts, "hosts", 1000, "`number` of configured exact hosts")
	flags.IntVar(&chosen.blocks, "blocks", 40, "`number` of blocks for each proxy and kind of request")
	flags.IntVar(&chosen.requests, "requests", 4000, "`number` of requests in a block")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case chosen.envoy == "":
		return fmt.Errorf("%w: set ENVOY_BIN or --envoy to the file of Envoy", errArgument)
	case chosen.hosts < 1 || chosen.blocks < 8 || chosen.requests < 100:
		return fmt.Errorf("%w: --hosts is %d, at least 1; --blocks is %d, at least 8; --requests is %d, at least 100",
			errArgument, chosen.hosts, chosen.blocks, chosen.requests)
	}
	folder, err := os.MkdirTemp("", "bench-request")
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
	return benchresult.Publish(results, results.Limits, chosen.json, stdout)
}

// measure starts the proxies, measures, and stops them.
func measure(ctx context.Context, chosen options, folder string, progress io.Writer) (results report, err error) {
	app, err := startApp(ctx)
	if err != nil {
		return report{}, err
	}
	defer func() { err = errors.Join(err, app.server.Close()) }()
	proxies, err := startProxies(ctx, chosen, folder, app)
	defer func() { err = errors.Join(err, proxies.stop()) }()
	if err != nil {
		return report{}, err
	}
	results = report{Blocks: chosen.blocks, Requests: chosen.requests, Hosts: chosen.hosts}
	for _, kind := range kinds() {
		line, err := proxies.compare(ctx, kind, chosen)
		if err != nil {
			return report{}, fmt.Errorf("%s: %w", kind.Name, err)
		}
		results.Lines = append(results.Lines, line)
		fmt.Fprintf(progress, "%s done\n", kind.Name)
	}
	results.summarise()
	return results, nil
}
