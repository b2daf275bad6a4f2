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
	binary   string   // the environment's variable that names the controller
	manifest string   // the environment's variable that names its install.yaml, or the folder of argo-helm's chart
	only     []string // the scenarios that are played with it; none for all

	// overlooks says that the controller may overlook what is written to a Rollout while it reconciles it, until something else is: it puts its own copy over the newer
	// one in its cache. Seen with v1.9.1, where a promotion in the first moments of a pause was mostly without effect.
	overlooks bool
	// oneLease says that all controllers of a cluster share one Lease, whichever instance they are of, so that only one pair of replicas at a time can have a leader.
	oneLease bool
	// refuses returns the controller's words where it refuses the Rollout of a scenario, whoever routes; nil for one that refuses none.
	refuses func(scenario) string
}

// refusedByV1_9_1 are Rollouts that v1.9.1 has only with routers of its own.
func refusedByV1_9_1(one scenario) string {
	switch {
	case one.pingPong:
		return "Ping-pong feature works with the ALB and Istio traffic routers only"
	case strings.Contains(one.steps, "setMirrorRoute"):
		return "SetMirrorRoute requires TrafficRouting, supports Istio only"
	}
	return ""
}

// onlyVariable names the one release that all scenarios are played with, such as 1.9.1. Without it they are played with the newest one, and a few with the
// others.
const onlyVariable = "ROLLOUTS"

// releases are those that the scenarios are played with, where they are built: make test-parts and make test-scenarios set the variables.
func releases() []release {
	all := []release{
		{
			name: "v1.9.1", binary: "ROLLOUTS_V1_9_1_CONTROLLER_BIN", manifest: "ROLLOUTS_V1_9_1_INSTALL_YAML", only: few(),
			overlooks: true, oneLease: true, refuses: refusedByV1_9_1,
		},
		{name: "v1.10.1", binary: "ROLLOUTS_CONTROLLER_BIN", manifest: "ROLLOUTS_INSTALL_YAML"},
		{name: "v1.10.1, chart", binary: "ROLLOUTS_CONTROLLER_BIN", manifest: chartVariable, only: []string{"every step"}},
	}
	var built []release
	for _, one := range all {
		asked := os.Getenv(onlyVariable)
		if asked == strings.TrimPrefix(one.name, "v") {
			one.only, asked = nil, ""
		}
		if asked == "" && os.Getenv(one.binary) != "" && os.Getenv(one.manifest) != "" {
			built = append(built, one)
		}
	}
	return built
}

// cluster is an API server with a controller and both plugins.
type cluster struct {
	*apiserver.ControlPlane
	*recorder

	release release
	folder  string // has the plugins, and the controllers' homes
	admin   *rest.RESTClient
	lease   sync.Mutex // held by the scenario whose controllers have the Lease, where there is one only
	player  *rolloutscontroller.Player
	main    *rolloutscontroller.Controller
}

// built has the plugins, and the files of the clusters.
var built apiserver.Folder

func TestMain(m *testing.M) {
	programs := []string{"gatewayapi-plugin", "rollouts-plugin-kedify"}
	os.Exit(apiserver.RunIn(programs, func(_ context.Context, folder apiserver.Folder) (int, error) {
		built = folder
		return run(m)
	}))
}

// run checks that everything is there, and runs the tests.
func run(m *testing.M) (code int, err error) {
	if len(releases()) == 0 || os.Getenv("GATEWAY_API_CRDS") == "" {
		return 1, errors.New("no Argo Rollouts controller or no CustomResourceDefinitions of the Gateway API: run `make test-parts`")
	}
	if err := flag.Set("test.parallel", "12"); err != nil { // most of the time, a scenario waits
		return 1, err
	}
	return m.Run(), nil
}

// start starts the cluster of a release, which ends with the test. Two releases cannot share an API server: each has a
// CustomResourceDefinition of Rollouts of its own.
func start(t *testing.T, which release) *cluster {
	t.Helper()
	ctx, state := t.Context(), filepath.Join(built.Path, which.name, "state")
	if err := os.MkdirAll(state, 0o755); err != nil {
		t.Fatal(err)
	}
	plane, err := apiserver.Start(ctx, built.Binaries, state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plane.Stop() })
	c := &cluster{ControlPlane: plane, release: which, folder: built.Path, recorder: newRecorder()}
	if c.admin, err = plane.Client(apiserver.AdminToken); err == nil {
		err = c.install(ctx)
	}
	if err == nil {
		c.main, err = c.controller("main", "--leader-elect=false")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.main.End() })
	c.player = rolloutscontroller.NewPlayer(c.admin, nil)
	go c.player.Play(ctx)
	for resource, path := range recorded() {
		go c.follow(ctx, c.admin, path, resource)
	}
	return c
}

// controller starts a controller with a home of that name.
func (c *cluster) controller(name string, flags ...string) (*rolloutscontroller.Controller, error) {
	return rolloutscontroller.Start(c.ControlPlane, os.Getenv(c.release.binary), filepath.Join(c.folder, c.release.name, name), flags...)
}

// install applies what users install.
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
		kedify.plugin: filepath.Join(c.folder, "rollouts-plugin-kedify"), gateway.plugin: filepath.Join(c.folder, "gatewayapi-plugin"),
	}
	files = append(files, "../../config/argo-rollouts/rbac.yaml", "../../config/argo-rollouts/gatewayapi/rbac.yaml")
	return rolloutscontroller.Install(ctx, c.admin, os.Getenv(c.release.manifest), maps.Clone(plugins), files...)
}
