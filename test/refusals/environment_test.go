package refusals_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/pluginprocess"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

const (
	// config is the folder of the manifests that users apply.
	config = "../../config/"
	// interceptorService is the host name of the interceptor in the installed bootstrap.
	interceptorService = "keda-add-ons-http-interceptor-kedify-proxy-metric-sink.keda"
)

// proxySlice contains the endpoint of Envoy as a shared proxy: its address is the source address of Envoy's
// connections.
const proxySlice = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kedify-proxy-0, namespace: keda, labels: {kubernetes.io/service-name: kedify-proxy}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [%s], conditions: {ready: true}}]
`

// environment contains every component from the plugin to the backends.
type environment struct {
	*apiserver.ControlPlane

	admin        *rest.RESTClient
	plugin       *pluginprocess.Process // runs as the controller's ServiceAccount
	unprivileged *pluginprocess.Process // runs as a ServiceAccount without permissions
	ports        map[string]int         // of the two apps, stable and canary
}

// newEnvironment starts everything. It stops with the test.
func newEnvironment(t *testing.T) *environment {
	t.Helper()
	binaries, err := apiserver.FromEnvironment(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	s := &environment{ports: map[string]int{}}
	for _, name := range []string{"stable", "canary"} {
		s.ports[name] = startApp(t, name)
	}
	if s.ControlPlane, err = apiserver.Start(context.WithoutCancel(t.Context()), binaries, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	if s.admin, err = s.Client(apiserver.AdminToken); err != nil {
		t.Fatal(err)
	}
	s.install(t)
	s.startInterceptor(t)
	startEnvoy(t)
	s.plugin, s.unprivileged = s.startPlugin(t, apiserver.RolloutsToken), s.startPlugin(t, apiserver.UnprivilegedToken)
	return s
}

// install applies the manifests that users apply, except those of Pods.
func (s *environment) install(t *testing.T) {
	t.Helper()
	s.apply(t, "", `{apiVersion: v1, kind: Namespace, metadata: {name: argo-rollouts}}`)
	for _, file := range []string{
		filepath.Join(netspace.Folder(), argoManifest), config + "crd/http.keda.sh_httpscaledobjects.yaml",
		config + "interceptor/namespace.yaml",
		config + "interceptor/rbac.yaml", config + "argo-rollouts/rbac.yaml",
	} {
		manifest, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			t.Fatal(err)
		}
		s.apply(t, "argo-rollouts", string(manifest))
	}
	s.apply(t, "", fmt.Sprintf(proxySlice, netspace.Address()))
}

// startInterceptor starts the built interceptor as its ServiceAccount.
func (s *environment) startInterceptor(t *testing.T) {
	t.Helper()
	program.Run(t, filepath.Join(netspace.Folder(),
		"interceptor"), "--kubeconfig="+s.kubeconfig(t, apiserver.InterceptorToken),
		"--xds-address="+netspace.Address().String()+":5678", "--proxy-address=127.0.0.1:8081",
		"--metric-sink-address=127.0.0.1:0", "--pod-name=interceptor-0", "--shutdown-delay=0s", "--access-log=false")
}

// startEnvoy starts Envoy with the installed bootstrap and the address of the test's interceptor.
func startEnvoy(t *testing.T) {
	t.Helper()
	bootstrap, err := envoyproc.InstalledBootstrap("../..", [2]string{interceptorService, netspace.Address().String()})
	if err != nil {
		t.Fatal(err)
	}
	// With one worker, all requests after the first one with a new configuration use this configuration.
	envoyproc.Run(t, bootstrap, 1)
}

// startPlugin starts the built plugin as the user of token.
func (s *environment) startPlugin(t *testing.T, token string) *pluginprocess.Process {
	t.Helper()
	return pluginprocess.Run(t, filepath.Join(netspace.Folder(), "rollouts-plugin-kedify"), s.kubeconfig(t, token))
}

// kubeconfig writes a kubeconfig file for the user of token.
func (s *environment) kubeconfig(t *testing.T, token string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "kubeconfig")
	if err := s.WriteKubeconfig(file, token); err != nil {
		t.Fatal(err)
	}
	return file
}

// apply applies manifests in namespace.
func (s *environment) apply(t *testing.T, namespace string, manifests ...string) {
	t.Helper()
	if err := apiserver.Apply(t.Context(), s.admin, namespace, manifests...); err != nil {
		t.Fatal(err)
	}
}

// patch sends a merge patch in YAML.
func (s *environment) patch(t *testing.T, path, patch string) {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.admin.Patch(types.MergePatchType).AbsPath(path).Body(body).Do(t.Context()).Error(); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// remove deletes an object.
func (s *environment) remove(t *testing.T, path string) {
	t.Helper()
	if err := s.admin.Delete().AbsPath(path).Do(t.Context()).Error(); err != nil {
		t.Fatalf("delete %s: %v", path, err)
	}
}

// read reads an object.
func read[T any](t *testing.T, s *environment, path string) T {
	t.Helper()
	var object T
	body, err := s.admin.Get().AbsPath(path).DoRaw(t.Context())
	if err := errors.Join(err, json.Unmarshal(body, &object)); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return object
}
