package scenarios_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/testkit/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/rolloutscontroller"
)

// release is a release of the Argo Rollouts controller.
type release struct {
	name     string
	binary   string // the environment's variable that names the controller
	manifest string // the environment's variable that names its install.yaml, or the folder of argo-helm's chart
	only     string // the one scenario that is played with it; empty for all
}

// releases are those that the scenarios are played with, where they are built: make test-parts sets the variables.
func releases() []release {
	all := []release{
		{"v1.9.1", "ROLLOUTS_V1_9_1_CONTROLLER_BIN", "ROLLOUTS_V1_9_1_INSTALL_YAML", ""},
		{"v1.10.1", "ROLLOUTS_CONTROLLER_BIN", "ROLLOUTS_INSTALL_YAML", ""},
		{"v1.10.1, chart", "ROLLOUTS_CONTROLLER_BIN", chartVariable, "every step"},
	}
	var built []release
	for _, one := range all {
		if os.Getenv(one.binary) != "" && os.Getenv(one.manifest) != "" {
			built = append(built, one)
		}
	}
	return built
}

// cluster is an API server with a controller and both plugins.
type cluster struct {
	*controlplane.ControlPlane
	*recorder

	release release
	folder  string // has the plugins, and the controllers' homes
	admin   *rest.RESTClient
	player  *rolloutscontroller.Player
	main    *rolloutscontroller.Controller
}

// clusters are those of all tests, one for each release; TestMain starts them.
var clusters []*cluster

func TestMain(m *testing.M) {
	programs := []string{"gatewayapi-plugin", "rollouts-plugin-kedify"}
	os.Exit(controlplane.RunIn(programs, func(ctx context.Context, folder controlplane.Folder) (int, error) {
		return run(ctx, m, folder)
	}))
}

// run starts a cluster for each release, and runs the tests.
func run(ctx context.Context, m *testing.M, folder controlplane.Folder) (code int, err error) {
	if len(releases()) == 0 || os.Getenv("GATEWAY_API_CRDS") == "" {
		return 1, errors.New("no Argo Rollouts controller or no CustomResourceDefinitions of the Gateway API: run `make test-parts`")
	}
	if err := flag.Set("test.parallel", "12"); err != nil { // most of the time, a scenario waits
		return 1, err
	}
	for _, one := range releases() {
		c, stop, err := start(ctx, folder.Binaries, one, folder.Path)
		if err != nil {
			return 1, fmt.Errorf("cluster with Argo Rollouts %s: %w", one.name, err)
		}
		defer stop()
		clusters = append(clusters, c)
	}
	return m.Run(), nil
}

// start starts one cluster. The built plugins are in folder.
func start(ctx context.Context, binaries controlplane.Binaries, which release, folder string) (c *cluster, stop func(), err error) {
	state := filepath.Join(folder, which.name, "state")
	if err := os.MkdirAll(state, 0o755); err != nil {
		return nil, nil, err
	}
	plane, err := controlplane.Start(ctx, binaries, state)
	if err != nil {
		return nil, nil, err
	}
	c = &cluster{ControlPlane: plane, release: which, folder: folder, recorder: newRecorder()}
	if c.admin, err = plane.Client(controlplane.AdminToken); err == nil {
		err = c.install(ctx)
	}
	if err == nil {
		c.main, err = c.controller("main", "--leader-elect=false")
	}
	if err != nil {
		return nil, nil, errors.Join(err, plane.Stop())
	}
	c.player = rolloutscontroller.NewPlayer(c.admin, nil)
	go c.player.Play(ctx)
	for resource, path := range recorded() {
		go c.follow(ctx, c.admin, path, resource)
	}
	return c, func() {
		_ = c.main.End()
		_ = plane.Stop()
	}, nil
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
