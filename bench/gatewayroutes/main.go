// Command gatewayroutes measures the router argoproj-labs/gatewayAPI by package routerbench, with the Gateway API's
// CustomResourceDefinitions. Rollouts have 1, 5 and 20 HTTPRoutes. The bare client PUTs the same routes, complete and
// marshalled in advance, with the router's concurrency per Rollout.
//
// It omits the controller's own work, a network between plugin and API server, and the time until a Gateway applies a
// change.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/routerbench"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

const (
	// resource is the name of the routes in paths. collection is their REST path.
	resource   = "httproutes"
	collection = "/apis/gateway.networking.k8s.io/v1/namespaces/" + routerbench.Namespace + "/" + resource
	// sizeLabel is the label with the number of routes of a route's Rollout.
	sizeLabel = "routes-of-rollout"
	// atOnce is the number of a Rollout's routes that the router reads or writes in parallel.
	atOnce = 8
)

// sizes are the numbers of routes per Rollout.
func sizes() []int { return []int{1, 5, 20} }

func main() {
	routerbench.Main(routerbench.Benchmark{
		Name: "bench/gatewayroutes", Plugin: gatewayapi.Type, Command: "gatewayapi-plugin", Resource: resource,
		Subject: &routes{},
	})
}

// routes are HTTPRoutes, in the number that the case of each Rollout defines.
type routes struct {
	routerbench.Clients

	crds     string
	rollouts int
}

// Flags adds --crds and --rollouts.
func (r *routes) Flags(flags *flag.FlagSet, getenv func(string) string) {
	flags.StringVar(&r.crds, "crds", getenv("GATEWAY_API_CRDS"),
		"`folder` of the Gateway API's CustomResourceDefinitions; by default $GATEWAY_API_CRDS")
	flags.IntVar(&r.rollouts, "rollouts", 50,
		"`number` of Rollouts with 20 and with 5 routes each, and of calls of each kind in a round; four times as many have 1")
}

// Check returns an error if the CRDs or the Rollouts are missing.
func (r *routes) Check() error {
	switch {
	case r.crds == "":
		return errors.New("set GATEWAY_API_CRDS, or --crds, to the folder config/crd/standard of the Gateway API")
	case r.rollouts < 1:
		return fmt.Errorf("--rollouts is %d: at least 1", r.rollouts)
	}
	return nil
}

// Workload describes the number of Rollouts.
func (r *routes) Workload() string {
	return fmt.Sprintf("%d Rollouts with 1 HTTPRoute, %d each with 5 and 20, one call of each kind per Rollout in a round",
		r.rolloutCount(1), r.rolloutCount(5))
}

// rolloutCount returns the number of Rollouts with size routes. It is higher for short calls, so that a round is long
// enough.
func (r *routes) rolloutCount(size int) int {
	if size == 1 {
		return 4 * r.rollouts
	}
	return r.rollouts
}

// Cases are the numbers of routes with one caller, and one case with as many callers as the controller has.
func (r *routes) Cases() []routerbench.Case {
	var cases []routerbench.Case
	for _, size := range sizes() {
		cases = append(cases, routerbench.Case{
			Name: fmt.Sprintf("%d routes", size), Workers: 1, Rollouts: r.rolloutCount(size), Calls: r.rolloutCount(size),
			Objects: size,
		})
	}
	all := cases[0]
	all.Name, all.Workers, all.MinResync, all.Kill = "1 route, 10 workers", 10, 0.5, true
	return append(cases, all)
}

// name returns the name of a Rollout with size routes.
func name(size, rollout int) string { return fmt.Sprintf("web-%02d-%03d", size, rollout) }

// route returns the name of a route of a Rollout.
func route(size, rollout, i int) string { return fmt.Sprintf("%s-%02d", name(size, rollout), i) }

// Rollout returns the n-th Rollout with the case's number of routes.
func (*routes) Rollout(of routerbench.Case, n int) *v1alpha1.Rollout {
	named := make([]string, of.Objects)
	for i := range named {
		named[i] = `{"name":"` + route(of.Objects, n, i) + `"}`
	}
	config := `{"httpRoutes":[` + strings.Join(named, ",") + `]}`
	return routerbench.NewRollout(name(of.Objects, n), gatewayapi.Type, json.RawMessage(config))
}

// Setup creates the routes.
func (r *routes) Setup(ctx context.Context, clients routerbench.Clients, repo string) error {
	r.Clients = clients
	if err := apiserver.CreateNamespace(ctx, r.Admin, routerbench.Namespace); err != nil {
		return err
	}
	err := apiserver.ApplyFiles(ctx, r.Admin, routerbench.Namespace,
		filepath.Join(r.crds, "gateway.networking.k8s.io_"+resource+".yaml"),
		filepath.Join(repo, "config/argo-rollouts/gatewayapi/rbac.yaml"))
	if err != nil {
		return err
	}
	for _, size := range sizes() {
		_, err := stopwatch.Calls(atOnce, r.rolloutCount(size)*size, func(n int) error {
			return apiserver.Apply(ctx, r.Admin, routerbench.Namespace, manifest(size, n/size, n%size))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// manifest is a route of typical size: two rules with both Services of its Rollout, and one rule of another
// application.
func manifest(size, rollout, i int) string {
	web, routeName := name(size, rollout), route(size, rollout, i)
	pair := fmt.Sprintf("[{name: %s-stable, port: 80, weight: 100}, {name: %s-canary, port: 80, weight: 0}]", web, web)
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %s, labels: {app: %s, %s: "%d"}}
spec:
  parentRefs: [{name: gateway, namespace: gateways}]
  hostnames: [%s.example.com]
  rules:
    - {name: api, matches: [{path: {type: PathPrefix, value: /api}}], timeouts: {request: 10s}, backendRefs: %s}
    - {name: pages, matches: [{path: {type: PathPrefix, value: /}}], backendRefs: %s}
    - {name: docs, matches: [{path: {type: PathPrefix, value: /docs}}], backendRefs: [{name: docs, port: 80}]}
`, routeName, web, sizeLabel, size, routeName, pair, pair)
}
