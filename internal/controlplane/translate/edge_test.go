package translate_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// edge is what the proxies do about Envoy's practices for edge proxies: a listener for clients, its connection manager,
// and the HTTP options of a cluster that receives HTTP/2.
type edge struct {
	listener *listenerv3.Listener
	manager  *hcmv3.HttpConnectionManager
	cluster  *upstreamhttpv3.HttpProtocolOptions
}

// practices returns the practices as the table in docs/dev/decisions/requests.md names them, with the settings of the
// proxies by default. "unset" is Envoy's default. A change here is a change of the table.
func practices() map[string]struct {
	got  func(edge) string
	want string
} {
	type practice = struct {
		got  func(edge) string
		want string
	}
	return map[string]practice{
		"`use_remote_address: true`": {
			func(e edge) string { return strconv.FormatBool(e.manager.GetUseRemoteAddress().GetValue()) }, "true",
		},
		"`headers_with_underscores_action: REJECT_REQUEST`": {func(e edge) string {
			return e.manager.GetCommonHttpProtocolOptions().GetHeadersWithUnderscoresAction().String()
		}, "ALLOW"},
		"`normalize_path: true`": {
			func(e edge) string { return strconv.FormatBool(e.manager.GetNormalizePath().GetValue()) }, "true",
		},
		"`merge_slashes: true`": {func(e edge) string { return strconv.FormatBool(e.manager.GetMergeSlashes()) }, "false"},
		"`path_with_escaped_slashes_action: UNESCAPE_AND_REDIRECT`": {
			func(e edge) string { return e.manager.GetPathWithEscapedSlashesAction().String() }, "KEEP_UNCHANGED",
		},
		"`request_headers_timeout`": {
			func(e edge) string { return e.manager.GetRequestHeadersTimeout().AsDuration().String() }, "10s",
		},
		"`stream_idle_timeout` 5 min, `request_timeout`": {func(e edge) string {
			return e.manager.GetStreamIdleTimeout().AsDuration().String() + ", " + text(e.manager.GetRequestTimeout())
		}, "1h0m0s, unset"},
		"`idle_timeout` 1 h": {
			func(e edge) string { return text(e.manager.GetCommonHttpProtocolOptions().GetIdleTimeout()) }, "unset",
		},
		"`per_connection_buffer_limit_bytes` 32 KiB": {
			func(e edge) string { return text(e.listener.GetPerConnectionBufferLimitBytes()) }, "unset",
		},
		"`max_concurrent_streams` 100": {
			func(e edge) string { return text(http2(e).GetMaxConcurrentStreams()) }, "value:256",
		},
		"`initial_stream_window_size` 64 KiB": {
			func(e edge) string { return text(http2(e).GetInitialStreamWindowSize()) }, "value:65536",
		},
		"`initial_connection_window_size` 1 MiB": {
			func(e edge) string { return text(http2(e).GetInitialConnectionWindowSize()) }, "value:33554432",
		},
		"limits against floods of HTTP/2 frames": {func(e edge) string {
			return fmt.Sprint(text(http2(e).GetMaxOutboundFrames()), text(http2(e).GetMaxOutboundControlFrames()),
				text(http2(e).GetMaxConsecutiveInboundFramesWithEmptyPayload()),
				text(http2(e).GetMaxInboundPriorityFramesPerStream()),
				text(http2(e).GetMaxInboundWindowUpdateFramesPerDataFrameSent()))
		}, "unsetunsetunsetunsetunset"},
		"overload manager, limit of connections": {func(edge) string { return "bootstrap" }, "bootstrap"}, // TestOverloadManager
		"`http2_protocol_options` of clusters with small windows": {func(e edge) string {
			options := e.cluster.GetExplicitHttpConfig().GetHttp2ProtocolOptions()
			return text(options.GetInitialStreamWindowSize()) + text(options.GetInitialConnectionWindowSize())
		}, "unsetunset"},
	}
}

// http2 returns the HTTP/2 options of the connections of clients.
func http2(e edge) *corev3.Http2ProtocolOptions { return e.manager.GetHttp2ProtocolOptions() }

// text returns a message as text, and "unset" for none.
func text(message proto.Message) string {
	if !message.ProtoReflect().IsValid() {
		return "unset"
	}
	return fmt.Sprint(message)
}

// edges returns the listeners for clients by name, with the default options.
func edges(t *testing.T) map[string]edge {
	t.Helper()
	options := holdOptions()
	options.TLS = true
	route := routeWithSettings(nil)
	route.Backends[0].Protocol = model.HTTP2
	resources, err := options.Envoy(model.Config{
		Routes:   []model.Route{route},
		Services: map[model.ServicePort]model.Endpoints{route.Backends[0].ServicePort(): {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	cluster, _ := resources[resourcev3.ClusterType]["apps/shop/shop"].(*clusterv3.Cluster)
	http := new(upstreamhttpv3.HttpProtocolOptions)
	for _, packed := range cluster.GetTypedExtensionProtocolOptions() {
		if err := packed.UnmarshalTo(http); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]edge{}
	for name, manager := range managers(t) {
		if listener, _ := resources[resourcev3.ListenerType][name].(*listenerv3.Listener); name != translate.HoldName {
			all[name] = edge{listener: listener, manager: manager, cluster: http}
		}
	}
	if len(all) != 2 || http.GetExplicitHttpConfig().GetHttp2ProtocolOptions() == nil {
		t.Fatalf("listeners %v, cluster %v", slices.Sorted(maps.Keys(all)), http)
	}
	return all
}

// TestEdgePractices: the listeners for clients have the values that were decided for each of Envoy's practices for edge
// proxies, and the table of decisions has exactly these practices, each with a decision.
func TestEdgePractices(t *testing.T) {
	t.Parallel()
	for listener, e := range edges(t) {
		for name, practice := range practices() {
			if got := practice.got(e); got != practice.want {
				t.Errorf("%s: %s: %s, want %s", listener, name, got, practice.want)
			}
		}
	}
	page, err := os.ReadFile("../../../docs/dev/decisions/requests.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| Recommendation | Here | Reason |\n|---|---|---|\n")
	var rows []string
	for _, row := range regexp.MustCompile(`(?m)^\| (.+?) \| (.+?) \| .*\|$`).FindAllStringSubmatch(table, -1) {
		rows = append(rows, row[1])
	}
	slices.Sort(rows)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(practices())), rows); diff != "" {
		t.Errorf("practices (-test +decisions):\n%s", diff)
	}
}

// TestOverloadManager: the bootstrap of the proxies has the actions that were decided, by the share of the heap from
// which they apply, and the limit of connections. An action that scales has a second value.
func TestOverloadManager(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../../../config/kedify-proxy/configmap.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var configMap struct{ Data map[string]string }
	type values map[string]any
	var bootstrap struct {
		OverloadManager struct {
			ResourceMonitors []struct {
				Config values `json:"typed_config"`
			} `json:"resource_monitors"`
			Actions []struct {
				Name     string
				Triggers []struct{ Threshold, Scaled map[string]float64 }
			}
		} `json:"overload_manager"`
	}
	if err := yaml.Unmarshal(file, &configMap); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(configMap.Data["envoy.yaml"]), &bootstrap); err != nil {
		t.Fatal(err)
	}
	limits := map[string]float64{}
	for _, monitor := range bootstrap.OverloadManager.ResourceMonitors {
		for name, value := range monitor.Config {
			if number, isNumber := value.(float64); isNumber {
				limits[name] = number
			}
		}
	}
	for _, action := range bootstrap.OverloadManager.Actions {
		for _, trigger := range action.Triggers {
			for name, value := range trigger.Threshold {
				limits[action.Name+" "+name] = value
			}
			for name, value := range trigger.Scaled {
				limits[action.Name+" "+name] = value
			}
		}
	}
	const action = "envoy.overload_actions."
	if diff := cmp.Diff(map[string]float64{
		"max_heap_size_bytes": 900000000, "max_active_downstream_connections": 50000,
		action + "shrink_heap value":                             0.9,
		action + "reduce_timeouts scaling_threshold":             0.9,
		action + "reduce_timeouts saturation_threshold":          0.95,
		action + "stop_accepting_requests value":                 0.95,
		action + "reset_high_memory_stream scaling_threshold":    0.95,
		action + "reset_high_memory_stream saturation_threshold": 0.98,
		action + "stop_accepting_connections value":              0.98,
	}, limits); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
