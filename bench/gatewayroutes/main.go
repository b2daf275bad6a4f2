// Command gatewayroutes measures the router argoproj-labs/gatewayAPI as the Argo Rollouts controller uses it: the built binary, over go-plugin, against a real
// etcd and kube-apiserver with the Gateway API's CustomResourceDefinitions, as the controller's ServiceAccount. Rollouts have 1, 5 and 20 HTTPRoutes. Beside it, in
// interleaved rounds of the same run, a bare client GETs and PUTs the same routes with the same weights, as many of a Rollout's at a time as the router does. It
// prints medians over the repeats, as a table and as JSON, and fails when one is over its limit.
//
// What it does not show: the controller's own work, a network between plugin and API server, and how long a Gateway takes until requests follow.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/figures"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/pluginprocess"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/program"
)

// command is the plugin, by its folder below cmd.
const command = "gatewayapi-plugin"

// options are what the command line can set.
type options struct {
	binaries controlplane.Binaries
	crds     string
	repo     string
	json     string
	repeats  int
	rollouts int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench/gatewayroutes:", err)
		os.Exit(1) //nolint:gocritic // only the handling of signals ends with the process
	}
}

// run is the program with its surroundings as arguments.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (err error) {
	var chosen options
	flags := flag.NewFlagSet("gatewayroutes", flag.ContinueOnError)
	flags.SetOutput(stderr)
	chosen.binaries.Flags(flags, getenv)
	flags.StringVar(&chosen.crds, "crds", getenv("GATEWAY_API_CRDS"), "`folder` of the Gateway API's CustomResourceDefinitions; by default $GATEWAY_API_CRDS")
	flags.StringVar(&chosen.repo, "repo", ".", "`folder` of the repository, for its roles")
	flags.StringVar(&chosen.json, "json", "", "`file` to write the results to, too")
	flags.IntVar(&chosen.repeats, "repeats", 7, "`number` of repeats, at least 5")
	flags.IntVar(&chosen.rollouts, "rollouts", 50, "`number` of Rollouts with 1, with 5 and with 20 routes each, and of calls of each kind in a round")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case chosen.binaries.Etcd == "" || chosen.binaries.APIServer == "":
		return errors.New("set ETCD_BIN and KUBE_APISERVER_BIN, or --etcd and --kube-apiserver, to the files of etcd and kube-apiserver")
	case chosen.crds == "":
		return errors.New("set GATEWAY_API_CRDS, or --crds, to the folder config/crd/standard of the Gateway API")
	case chosen.repeats < 5:
		return fmt.Errorf("--repeats is %d: at least 5", chosen.repeats)
	case chosen.rollouts < 1:
		return fmt.Errorf("--rollouts is %d: at least 1", chosen.rollouts)
	}
	folder, err := os.MkdirTemp("", "bench-gatewayroutes")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	results, err := measure(ctx, chosen, folder, stderr)
	if err != nil {
		return err
	}
	results.table(stdout)
	return figures.Publish(results, results.Limits, chosen.json, stdout)
}

// measure starts everything, measures, and ends everything.
func measure(ctx context.Context, chosen options, folder string, progress io.Writer) (results report, err error) {
	plane := filepath.Join(folder, "controlplane")
	binary := filepath.Join(folder, command)
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := os.Mkdir(plane, 0o700); err != nil {
		return report{}, err
	}
	if err := program.BuildStripped(ctx, chosen.repo, folder, command); err != nil {
		return report{}, err
	}
	cluster, err := controlplane.Start(ctx, chosen.binaries, plane)
	if err != nil {
		return report{}, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	world, err := furnish(ctx, cluster, chosen)
	if err != nil {
		return report{}, err
	}
	if err := cluster.WriteKubeconfig(kubeconfig, controlplane.RolloutsToken); err != nil {
		return report{}, err
	}
	asked, err := pluginprocess.Start(binary, kubeconfig, progress, "--log-level=warn")
	if err != nil {
		return report{}, err
	}
	defer asked.End()
	return rounds(ctx, world, asked, chosen, progress)
}
