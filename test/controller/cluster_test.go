package controller_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rolloutscontroller"
)

// pollEvery is the pause between two requests to the API server while a test waits.
const pollEvery = 50 * time.Millisecond

// The environment variables with the components; make test-parts sets them.
const (
	controllerVariable = "ROLLOUTS_CONTROLLER_BIN"
	installVariable    = "ROLLOUTS_INSTALL_YAML"
)

// release is a set of CRDs of the Gateway API.
type release struct {
	name     string
	variable string            // names the folder of the standard channel, next to that of the experimental channel
	versions map[string]string // served version of each kind of route
	extra    []string          // kinds of the experimental channel only
}

// releases returns the releases that the tests run with: an old one, without rule names and with several kinds of
// routes only in the experimental channel, and the newest.
func releases() []release {
	return []release{
		{
			name: "v1.2.1", variable: "GATEWAY_API_V1_2_1_CRDS", extra: []string{"tcproutes", "tlsroutes", "udproutes"},
			versions: map[string]string{
				"httproutes": "v1", "grpcroutes": "v1", "tcproutes": "v1alpha2", "tlsroutes": "v1alpha2", "udproutes": "v1alpha2",
			},
		},
		{
			name: "newest", variable: "GATEWAY_API_CRDS",
			versions: map[string]string{
				"httproutes": "v1", "grpcroutes": "v1", "tcproutes": "v1", "tlsroutes": "v1", "udproutes": "v1",
			},
		},
	}
}

// files returns the files with the release's CRDs of routes.
func (r release) files() ([]string, error) {
	folder := os.Getenv(r.variable)
	files, err := filepath.Glob(filepath.Join(folder, "*routes.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no CRDs of routes in %q, the value of %s: %w", folder, r.variable, err)
	}
	for _, resource := range r.extra {
		files = append(files, filepath.Join(folder, "..", "experimental", "gateway.networking.k8s.io_"+resource+".yaml"))
	}
	return files, nil
}

// cluster is an API server with a running Argo Rollouts controller.
type cluster struct {
	*apiserver.ControlPlane

	release release
	folder  string // contains the built plugin
	admin   *rest.RESTClient

	controller *rolloutscontroller.Controller
}

// programs contains the plugin, and the files of the clusters.
var programs apiserver.Folder

func TestMain(m *testing.M) {
	os.Exit(apiserver.RunIn([]string{"gatewayapi-plugin"}, func(_ context.Context, folder apiserver.Folder) (int, error) {
		programs = folder
		return run(m)
	}))
}

// run checks that all components are available, and runs the tests.
func run(m *testing.M) (code int, err error) {
	variables := []string{controllerVariable, installVariable}
	for _, release := range releases() {
		variables = append(variables, release.variable)
	}
	for _, name := range variables {
		if os.Getenv(name) == "" {
			return 1, fmt.Errorf("%s is not set: run `make test-parts`, or set it to the path of that component", name)
		}
	}
	return m.Run(), nil
}

// start starts the cluster of a release, which stops with the test. Two releases cannot share an API server: they have
// the same CRDs in different versions.
func start(t *testing.T, release release) *cluster {
	t.Helper()
	ctx, folder := t.Context(), filepath.Join(programs.Path, release.name)
	if err := os.MkdirAll(filepath.Join(folder, "state"), 0o755); err != nil {
		t.Fatal(err)
	}
	plane, err := apiserver.Start(ctx, programs.Binaries, filepath.Join(folder, "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plane.Stop() })
	c := &cluster{ControlPlane: plane, release: release, folder: programs.Path}
	if c.admin, err = plane.Client(apiserver.AdminToken); err == nil {
		err = c.install(ctx)
	}
	if err == nil {
		c.controller, err = rolloutscontroller.Start(plane, os.Getenv(controllerVariable), folder, "--leader-elect=false")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.controller.Kill() })
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		rolloutscontroller.NewClusterSimulator(c.admin, release.versions).Run(ctx)
	}()
	t.Cleanup(func() { <-stopped })
	return c
}

// install applies what users install: the Gateway API, Argo Rollouts, and the plugin's role and registration.
func (c *cluster) install(ctx context.Context) error {
	files, err := c.release.files()
	if err != nil {
		return err
	}
	return rolloutscontroller.Install(ctx, c.admin, os.Getenv(installVariable),
		map[string]string{"argoproj-labs/gatewayAPI": filepath.Join(c.folder, "gatewayapi-plugin")},
		append(files, "../../config/argo-rollouts/gatewayapi/rbac.yaml")...)
}
