package envoy_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
)

// scenarios are the golden scenarios of package translate.
const scenarios = "../../internal/controlplane/translate/testdata"

// TestEnvoyAccepts makes Envoy validate the resources of every golden scenario. Validation reads one file, so the test
// moves routes and endpoints into the listener and the clusters. Envoy then also checks that every cluster of a route
// exists. Of a scenario with proxies, the endpoints are those that the last proxy receives.
func TestEnvoyAccepts(t *testing.T) {
	t.Parallel()
	envoy := envoyproc.Binary(t)
	kit.Scenarios{Dir: scenarios}.Run(t, func(t *testing.T, scenario *kit.Scenario) {
		t.Helper()
		for _, name := range []string{"input.yaml", "previous.yaml", "ir.yaml", "problems.yaml"} {
			scenario.OptionalInput(t, name) // unused here, but not orphans
		}
		config := kit.ParseEnvoyConfig(t, scenario.Input(t, "envoy.yaml"))
		for _, name := range []string{"endpoints-proxy-a.yaml", "endpoints-proxy-b.yaml"} {
			if text, exists := scenario.OptionalInput(t, name); exists {
				config.Endpoints = kit.ParseEnvoyConfig(t, text).Endpoints
			}
		}
		p := &proxy{files: t.TempDir()}
		p.write(t, "static.json", staticBootstrap(t, config))
		command := exec.CommandContext(t.Context(), envoy, "--mode", "validate", "--log-level", "warning",
			"--config-path", filepath.Join(p.files, "static.json"))
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("Envoy rejects the scenario (%v):\n%s", err, output)
		}
	})
}

// staticBootstrap returns a bootstrap with all resources.
func staticBootstrap(t *testing.T, config kit.EnvoyConfig) *bootstrapv3.Bootstrap {
	t.Helper()
	assignments := map[string]*endpointv3.ClusterLoadAssignment{}
	for _, assignment := range config.Endpoints {
		assignments[assignment.GetClusterName()] = assignment
	}
	for _, cluster := range config.Clusters {
		if cluster.GetType() != clusterv3.Cluster_EDS {
			continue
		}
		cluster.LoadAssignment = assignments[cluster.GetEdsClusterConfig().GetServiceName()]
		cluster.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
		cluster.EdsClusterConfig = nil
	}
	for _, listener := range config.Listeners {
		changeManager(t, listener, func(manager *hcmv3.HttpConnectionManager) {
			manager.GetScopedRoutes().ConfigSpecifier = &hcmv3.ScopedRoutes_ScopedRouteConfigurationsList{
				ScopedRouteConfigurationsList: &hcmv3.ScopedRouteConfigurationsList{ScopedRouteConfigurations: config.Scopes},
			}
		})
	}
	return &bootstrapv3.Bootstrap{
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{Listeners: config.Listeners, Clusters: config.Clusters},
	}
}
