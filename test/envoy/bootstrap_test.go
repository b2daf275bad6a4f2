package envoy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	// registers a message of the bootstrap
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	// registers a message of the bootstrap
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/connection_limit/v3"
	// registers a message of the bootstrap
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	// registers a message of the bootstrap
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/consistent_hashing/v3"
	// registers a message of the bootstrap
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	// registers a message of the bootstrap
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/fixed_heap/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
)

// bootstrap returns the bootstrap of the installed proxy, as text and parsed.
func bootstrap(t *testing.T) ([]byte, *bootstrapv3.Bootstrap) {
	t.Helper()
	installed, err := envoyproc.InstalledBootstrap("../..")
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(installed)
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatalf("envoy.yaml: %v", err)
	}
	config := new(bootstrapv3.Bootstrap)
	if err := protojson.Unmarshal(asJSON, config); err != nil {
		t.Fatalf("envoy.yaml: %v", err)
	}
	return text, config
}

func TestBootstrapIsValidForEnvoy(t *testing.T) {
	text, _ := bootstrap(t)
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := await.Context(t)
	output, err := exec.CommandContext(ctx, envoyproc.Binary(t), "--mode", "validate", "--disable-hot-restart",
		"--log-level", "warning", "-c", file).CombinedOutput()
	if err != nil {
		t.Fatalf("envoy rejects the bootstrap: %v\n%s", err, output)
	}
	if want := "configuration '" + file + "' OK\n"; string(output) != want {
		t.Errorf("envoy logs a warning about the bootstrap, such as a deprecated field:\n%s", output)
	}
}

// TestEnvoyConfig starts Envoy with an addition to the bootstrap, as the agent does. Envoy adds elements of lists, and keeps
// everything else.
func TestEnvoyConfig(t *testing.T) {
	// There is no interceptor, so Envoy must start without its answer.
	installed, err := envoyproc.InstalledBootstrap("../..", [2]string{"initial_fetch_timeout: 0s", "initial_fetch_timeout: 0.1s"})
	if err != nil {
		t.Fatal(err)
	}
	const added = `
stats_config: {stats_matcher: {inclusion_list: {patterns: [{suffix: .upstream_cx_active}]}}}
layered_runtime: {layers: [{name: static, static_layer: {re2.max_program_size.error_level: 200}}]}
static_resources:
  clusters: [{name: collector, type: STRICT_DNS, connect_timeout: 1s}]
`
	envoy := envoyproc.Run(t, installed, 1, "--config-yaml", added)
	dump := func(path string) string {
		text, err := envoy.Admin(await.Context(t), path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	config := dump("/config_dump")
	for _, want := range []string{
		`"collector"`, `"xds_cluster"`, `"kedify_metrics_service"`, `".upstream_cx_active"`, `".upstream_rq_total"`,
		`"re2.max_program_size.error_level"`,
	} {
		if !strings.Contains(config, want) {
			t.Errorf("the configuration lacks %s", want)
		}
	}
}

func TestBootstrap(t *testing.T) {
	_, config := bootstrap(t)
	ads := config.GetDynamicResources().GetAdsConfig()
	got := map[string]any{
		"node id":             config.GetNode().GetId(),
		"node cluster":        config.GetNode().GetCluster(),
		"ADS form":            ads.GetApiType(),
		"ADS version":         ads.GetTransportApiVersion(),
		"ADS cluster":         ads.GetGrpcServices()[0].GetEnvoyGrpc().GetClusterName(),
		"listeners over ADS":  config.GetDynamicResources().GetLdsConfig().GetAds() != nil,
		"clusters over ADS":   config.GetDynamicResources().GetCdsConfig().GetAds() != nil,
		"address of admin":    config.GetAdmin().GetAddress().GetSocketAddress().GetAddress(),
		"number of clusters":  len(config.GetStaticResources().GetClusters()),
		"number of listeners": len(config.GetStaticResources().GetListeners()),
		"flush interval":      config.GetStatsFlushInterval().AsDuration(),
	}
	want := map[string]any{
		"node id":             "kedify-proxy",
		"node cluster":        "xds_cluster",
		"ADS form":            corev3.ApiConfigSource_DELTA_GRPC,
		"ADS version":         corev3.ApiVersion_V3,
		"ADS cluster":         "xds_cluster",
		"listeners over ADS":  true,
		"clusters over ADS":   true,
		"address of admin":    "127.0.0.1",
		"number of clusters":  3,
		"number of listeners": 1,
		"flush interval":      time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bootstrap (-want +got):\n%s", diff)
	}
	sink := new(metricsv3.MetricsServiceConfig)
	if err := config.GetStatsSinks()[0].GetTypedConfig().UnmarshalTo(sink); err != nil {
		t.Fatal(err)
	}
	if cluster := sink.GetGrpcService().GetEnvoyGrpc().GetClusterName(); cluster != "kedify_metrics_service" ||
		sink.GetTransportApiVersion() != corev3.ApiVersion_V3 {
		t.Errorf("metrics go to cluster %s as %s", cluster, sink.GetTransportApiVersion())
	}
	clusters := config.GetStaticResources().GetClusters()
	checkServiceCluster(t, clusters[1], "xds_cluster", 5678, 30*time.Second, 5*time.Second)
	checkServiceCluster(t, clusters[2], "kedify_metrics_service", 9901, 5*time.Second, 3*time.Second)
}

// checkServiceCluster checks a cluster that connects to the interceptor and detects a lost connection by pings.
func checkServiceCluster(
	t *testing.T, cluster *clusterv3.Cluster, name string, port uint32, interval, timeout time.Duration,
) {
	t.Helper()
	if cluster.GetName() != name {
		t.Errorf("cluster %s, want %s", cluster.GetName(), name)
	}
	const service = "keda-add-ons-http-interceptor-kedify-proxy-metric-sink.keda"
	endpoint := cluster.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint()
	address := endpoint.GetAddress().GetSocketAddress()
	if cluster.GetType() != clusterv3.Cluster_STRICT_DNS || cluster.GetConnectTimeout().AsDuration() != 2*time.Second {
		t.Errorf("cluster %s: type %s, connect timeout %s", cluster.GetName(), cluster.GetType(),
			cluster.GetConnectTimeout().AsDuration())
	}
	if address.GetAddress() != service || address.GetPortValue() != port {
		t.Errorf("cluster %s leads to %s:%d, want %s:%d", cluster.GetName(), address.GetAddress(), address.GetPortValue(),
			service, port)
	}
	const options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	protocol := new(httpv3.HttpProtocolOptions)
	if err := cluster.GetTypedExtensionProtocolOptions()[options].UnmarshalTo(protocol); err != nil {
		t.Fatalf("cluster %s: %v", cluster.GetName(), err)
	}
	keepalive := protocol.GetExplicitHttpConfig().GetHttp2ProtocolOptions().GetConnectionKeepalive()
	if keepalive.GetInterval().AsDuration() != interval || keepalive.GetTimeout().AsDuration() != timeout {
		t.Errorf("cluster %s: keepalive %s", cluster.GetName(), keepalive)
	}
}
