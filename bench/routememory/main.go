// Command routememory measures the memory of the router argoproj-labs/gatewayAPI in a cluster with many HTTPRoutes of
// which few are in use. It runs the built plugin over go-plugin against a real etcd and kube-apiserver, with the
// controller's ServiceAccount. It prints the value next to its limit, and fails when the limit is missed.
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
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/routerbench"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/pluginprocess"
	"github.com/kedify/argo-rollouts-plugin/test/kit/process"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

const (
	command  = "gatewayapi-plugin"
	resource = "httproutes"
	// limit is the plugin's limit, in MB of a million bytes: it shares the controller's container.
	limit = 60
	// atOnce is the number of routes that are created, or whose weight is set, in parallel. rounds is the number of
	// weights of each route in use.
	atOnce, rounds = 8, 5
	// watchLimit bounds the time until the plugin's watch is established.
	watchLimit = time.Minute
)

// errNoWatch is returned if the plugin keeps requesting unchanged routes.
var errNoWatch = errors.New("the plugin has not established its watch")

// options are the command line options.
type options struct {
	binaries         apiserver.Binaries
	repo, crds, json string
	routes, used     int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "bench/routememory: %v\n", err)
		os.Exit(1) //nolint:gocritic // only the handling of signals ends with the process
	}
}

// run is the program with its environment as arguments.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (err error) {
	var chosen options
	flags := flag.NewFlagSet("bench/routememory", flag.ContinueOnError)
	flags.SetOutput(stderr)
	chosen.binaries.Flags(flags, getenv)
	flags.StringVar(&chosen.repo, "repo", ".", "`folder` of the repository, for its manifests")
	flags.StringVar(&chosen.json, "json", "", "`file` for the results as JSON, instead of stdout")
	flags.StringVar(&chosen.crds, "crds", getenv("GATEWAY_API_CRDS"),
		"`folder` of the Gateway API's CustomResourceDefinitions; by default $GATEWAY_API_CRDS")
	flags.IntVar(&chosen.routes, "routes", 10_000, "`number` of HTTPRoutes")
	flags.IntVar(&chosen.used, "used", 50, "`number` of those in use by a Rollout")
	if err := flags.Parse(args); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	memory, err := measure(ctx, chosen, folder, stderr)
	if err != nil {
		return err
	}
	limits := []benchresult.Limit{{
		Name:  fmt.Sprintf("%s, MB, %d HTTPRoutes, %d of them in use", command, chosen.routes, chosen.used),
		Value: memory.Resident, Limit: limit,
	}}
	columns := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	benchresult.Print(columns, limits, "")
	if err := columns.Flush(); err != nil {
		return err
	}
	return benchresult.Publish(map[string]any{"plugin": gatewayapi.Type, "memory": memory, "limits": limits}, limits,
		chosen.json, stdout)
}

// measure starts everything, sets weights for the Rollouts, and stops everything.
func measure(
	ctx context.Context, chosen options, folder string, progress io.Writer,
) (memory process.Memory, err error) {
	plane, kubeconfig := filepath.Join(folder, "controlplane"), filepath.Join(folder, "kubeconfig")
	if err := os.Mkdir(plane, 0o700); err != nil {
		return memory, err
	}
	if err := program.BuildIn(ctx, chosen.repo, folder, command); err != nil {
		return memory, err
	}
	cluster, err := apiserver.Start(ctx, chosen.binaries, plane)
	if err != nil {
		return memory, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if err := setup(ctx, cluster, chosen, progress); err != nil {
		return memory, err
	}
	if err := cluster.WriteKubeconfig(kubeconfig, apiserver.RolloutsToken); err != nil {
		return memory, err
	}
	router, err := pluginprocess.Start(filepath.Join(folder, command), kubeconfig, progress, "--log-level=warn")
	if err != nil {
		return memory, err
	}
	defer router.Kill()
	if err := setWeights(ctx, cluster, router, chosen.used); err != nil {
		return memory, err
	}
	return process.Folder("/proc/" + strconv.Itoa(router.PID())).Memory()
}

// setup creates the routes.
func setup(ctx context.Context, cluster *apiserver.ControlPlane, chosen options, progress io.Writer) error {
	admin, err := cluster.Client(apiserver.AdminToken)
	if err != nil {
		return err
	}
	if err := apiserver.CreateNamespace(ctx, admin, routerbench.Namespace); err != nil {
		return err
	}
	err = apiserver.ApplyFiles(ctx, admin, routerbench.Namespace,
		filepath.Join(chosen.crds, "gateway.networking.k8s.io_"+resource+".yaml"),
		filepath.Join(chosen.repo, "config/argo-rollouts/gatewayapi/rbac.yaml"))
	if err != nil {
		return err
	}
	_, err = stopwatch.Calls(atOnce, chosen.routes, func(n int) error {
		return apiserver.Apply(ctx, admin, routerbench.Namespace, manifest(n))
	})
	fmt.Fprintf(progress, "created %d HTTPRoutes\n", chosen.routes)
	return err
}

// manifest is a route of typical size, as in bench/gatewayroutes.
func manifest(n int) string {
	web := name(n)
	pair := fmt.Sprintf("[{name: %s-stable, port: 80, weight: 100}, {name: %s-canary, port: 80, weight: 0}]", web, web)
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  parentRefs: [{name: gateway, namespace: gateways}]
  hostnames: [%[1]s.example.com]
  rules:
    - {name: api, matches: [{path: {type: PathPrefix, value: /api}}], timeouts: {request: 10s}, backendRefs: %[2]s}
    - {name: pages, matches: [{path: {type: PathPrefix, value: /}}], backendRefs: %[2]s}
    - {name: docs, matches: [{path: {type: PathPrefix, value: /docs}}], backendRefs: [{name: docs, port: 80}]}
`, web, pair)
}

// name returns the name of a route and its Rollout.
func name(n int) string { return fmt.Sprintf("web-%05d", n) }

// rollout returns the Rollout of route n, in a reconcile after its weight was set.
func rollout(n int, weight int32) *v1alpha1.Rollout {
	made := routerbench.NewRollout(name(n), gatewayapi.Type,
		[]byte(`{"httpRoute":"`+name(n)+`","verifyRouteStatus":false}`))
	made.Status.Canary.Weights = &v1alpha1.TrafficWeights{Canary: v1alpha1.WeightDestination{Weight: weight}}
	return made
}

// setWeights sets one weight after another for the Rollouts, and waits until the plugin has established its watch: from
// then on, idle calls make no requests.
func setWeights(ctx context.Context, cluster *apiserver.ControlPlane, router *pluginprocess.Process, used int) error {
	weighAll := func(before, weight int32) error {
		_, err := stopwatch.Calls(atOnce, used, func(n int) error {
			return pluginprocess.AsError(router.SetWeight(rollout(n, before), weight, nil))
		})
		return err
	}
	for weight := range int32(rounds) {
		if err := weighAll(weight, weight+1); err != nil {
			return err
		}
	}
	admin, err := cluster.Client(apiserver.AdminToken)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	for ctx.Err() == nil {
		before, err := apiserver.CountRequests(ctx, admin, resource)
		if err != nil {
			return err
		}
		if err := weighAll(rounds, rounds); err != nil {
			return err
		}
		after, err := apiserver.CountRequests(ctx, admin, resource)
		if err != nil || after.Reads() == before.Reads() {
			return err
		}
	}
	return errNoWatch
}
