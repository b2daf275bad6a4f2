package scenarios_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rolloutscontroller"
)

// release is a release of the Argo Rollouts controller.
type release struct {
	name     string
	binary   string   // the environment variable with the controller's file
	manifest string   // the environment variable with its install.yaml, or the folder of argo-helm's chart
	only     []string // the scenarios that run with it; none for all

	// overlooks means that the controller may miss a write to a Rollout that it is reconciling, until the next write: it
	// replaces the newer copy in its cache with its own. Seen with v1.9.1, in which a promotion in the first moments of a
	// pause mostly had no effect.
	overlooks bool
	// oneLease means that all controllers of a cluster use the same Lease, whatever their instance ID, so that only one
	// pair of replicas at a time can have a leader.
	oneLease bool
	// rejects returns the controller's message if it rejects the Rollout of a scenario with any router; nil for a release
	// that rejects none.
	rejects func(scenario) string
}

// rejectedByV1_9_1 returns the message of v1.9.1 for Rollouts that it accepts only with its built-in routers.
func rejectedByV1_9_1(sc scenario) string {
	switch {
	case sc.pingPong:
		return "Ping-pong feature works with the ALB and Istio traffic routers only"
	case strings.Contains(sc.steps, "setMirrorRoute"):
		return "SetMirrorRoute requires TrafficRouting, supports Istio only"
	}
	return ""
}

// onlyVariable names the only release to run all scenarios with, e.g. 1.9.1. By default they all run with the newest
// one, and a few with the others.
const onlyVariable = "ROLLOUTS"

// otherBinary is the controller of the version in onlyVariable, if that is neither of the versions that the other tests
// run.
const otherBinary = "ROLLOUTS_OTHER_CONTROLLER_BIN"

// releases returns the releases that are built: make test-parts and make test-scenarios set the variables.
func releases() []release {
	all := []release{
		{
			name: "v1.9.1", binary: "ROLLOUTS_V1_9_1_CONTROLLER_BIN", manifest: "ROLLOUTS_V1_9_1_INSTALL_YAML", only: few(),
			overlooks: true, oneLease: true, rejects: rejectedByV1_9_1,
		},
		{name: "v1.10.1", binary: "ROLLOUTS_CONTROLLER_BIN", manifest: "ROLLOUTS_INSTALL_YAML"},
		{name: "v1.10.1, chart", binary: "ROLLOUTS_CONTROLLER_BIN", manifest: chartVariable, only: []string{"every step"}},
	}
	if version := os.Getenv(onlyVariable); os.Getenv(otherBinary) != "" {
		other := release{name: "v" + version, binary: otherBinary, manifest: "ROLLOUTS_OTHER_INSTALL_YAML"}
		if strings.HasPrefix(version, "1.9.") {
			other.overlooks, other.oneLease, other.rejects = true, true, rejectedByV1_9_1
		}
		all = append(all, other)
	}
	var built []release
	for _, r := range all {
		onlyRelease := os.Getenv(onlyVariable)
		if onlyRelease == strings.TrimPrefix(r.name, "v") {
			r.only, onlyRelease = nil, ""
		}
		if onlyRelease == "" && os.Getenv(r.binary) != "" && os.Getenv(r.manifest) != "" {
			built = append(built, r)
		}
	}
	return built
}

// cluster is an API server with a controller and both plugins.
type cluster struct {
	*apiserver.ControlPlane
	*recorder

	release release
	folder  string // contains the plugins, and the controllers' home folders
	admin   *rest.RESTClient
	lease   sync.Mutex // locked by the scenario whose controllers have the Lease, if there is only one
	player  *rolloutscontroller.ClusterSimulator
	main    *rolloutscontroller.Controller
}

// built contains the plugins and the files of the clusters.
var built apiserver.Folder

func TestMain(m *testing.M) {
	programs := []string{"gatewayapi-plugin", "rollouts-plugin-kedify"}
	os.Exit(apiserver.RunIn(programs, func(_ context.Context, folder apiserver.Folder) (int, error) {
		built = folder
		return run(m)
	}))
}

// run checks that all files exist, and runs the tests.
func run(m *testing.M) (code int, err error) {
	if len(releases()) == 0 || os.Getenv("GATEWAY_API_CRDS") == "" {
		return 1, errors.New("no Argo Rollouts controller or no CustomResourceDefinitions of the Gateway API: run `make " +
			"test-parts`")
	}
	if err := flag.Set("test.parallel", "12"); err != nil { // scenarios mostly wait
		return 1, err
	}
	return m.Run(), nil
}

// start starts the cluster of a release, which ends with the test. Two releases cannot share an API server: each has
// its own CRD of Rollouts.
func start(t *testing.T, r release) *cluster {
	t.Helper()
	ctx, state := t.Context(), filepath.Join(built.Path, r.name, "state")
	if err := os.MkdirAll(state, 0o755); err != nil {
		t.Fatal(err)
	}
	plane, err := apiserver.Start(ctx, built.Binaries, state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plane.Stop() })
	c := &cluster{ControlPlane: plane, release: r, folder: built.Path, recorder: newRecorder()}
	if c.admin, err = plane.Client(apiserver.AdminToken); err == nil {
		err = c.install(ctx)
	}
	if err == nil {
		c.main, err = c.controller("main", "--leader-elect=false")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.main.Kill() })
	c.player = rolloutscontroller.NewClusterSimulator(c.admin, nil)
	go c.player.Run(ctx)
	for resource, path := range recorded() {
		go c.follow(ctx, c.admin, path, resource)
	}
	return c
}

// controller starts a controller with a home folder of that name.
func (c *cluster) controller(name string, flags ...string) (*rolloutscontroller.Controller, error) {
	return rolloutscontroller.Start(c.ControlPlane, os.Getenv(c.release.binary),
		filepath.Join(c.folder, c.release.name, name), flags...)
}

// install applies the manifests that users install.
func (c *cluster) install(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(os.Getenv("GATEWAY_API_CRDS"), "*_httproutes.yaml"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("no CustomResourceDefinition of HTTPRoutes in %q: %w", os.Getenv("GATEWAY_API_CRDS"), err)
	}
	files = append(files, "../../config/crd/http.keda.sh_httpscaledobjects.yaml")
	if c.release.manifest == chartVariable {
		return c.installChart(ctx, files...)
	}
	plugins := map[string]string{
		kedify.plugin:  filepath.Join(c.folder, "rollouts-plugin-kedify"),
		gateway.plugin: filepath.Join(c.folder, "gatewayapi-plugin"),
	}
	files = append(files, "../../config/argo-rollouts/rbac.yaml", "../../config/argo-rollouts/gatewayapi/rbac.yaml")
	return rolloutscontroller.Install(ctx, c.admin, os.Getenv(c.release.manifest), maps.Clone(plugins), files...)
}
