package kit

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

// EnvoyConfig contains the xDS resources of one Envoy, each list sorted by name.
type EnvoyConfig struct {
	// Listeners are the resources of type Listener.
	Listeners []*listenerv3.Listener
	// Scopes are the resources of type ScopedRouteConfiguration.
	Scopes []*routev3.ScopedRouteConfiguration
	// Clusters are the resources of type Cluster.
	Clusters []*clusterv3.Cluster
	// Endpoints are the resources of type ClusterLoadAssignment.
	Endpoints []*endpointv3.ClusterLoadAssignment
}

// envoyDocument is the YAML of an EnvoyConfig.
type envoyDocument struct {
	Listeners []json.RawMessage `json:"listeners"`
	Scopes    []json.RawMessage `json:"scopes"`
	Clusters  []json.RawMessage `json:"clusters"`
	Endpoints []json.RawMessage `json:"endpoints"`
}

// NewEnvoyConfig returns the sorted resources. resources are by type URL and name.
func NewEnvoyConfig(tb testing.TB, resources map[string]map[string]proto.Message) EnvoyConfig {
	tb.Helper()
	return EnvoyConfig{
		Listeners: sorted[*listenerv3.Listener](tb, resources[resourcev3.ListenerType]),
		Scopes:    sorted[*routev3.ScopedRouteConfiguration](tb, resources[resourcev3.ScopedRouteType]),
		Clusters:  sorted[*clusterv3.Cluster](tb, resources[resourcev3.ClusterType]),
		Endpoints: sorted[*endpointv3.ClusterLoadAssignment](tb, resources[resourcev3.EndpointType]),
	}
}

// YAML returns the configuration in the format of Envoy's configuration files.
func (c EnvoyConfig) YAML(tb testing.TB) []byte {
	tb.Helper()
	text, err := yaml.Marshal(envoyDocument{
		Listeners: toJSON(tb, c.Listeners),
		Scopes:    toJSON(tb, c.Scopes),
		Clusters:  toJSON(tb, c.Clusters),
		Endpoints: toJSON(tb, c.Endpoints),
	})
	if err != nil {
		tb.Fatalf("write Envoy config: %v", err)
	}
	return text
}

// ParseEnvoyConfig parses the output of EnvoyConfig.YAML.
func ParseEnvoyConfig(tb testing.TB, text []byte) EnvoyConfig {
	tb.Helper()
	var document envoyDocument
	if err := yaml.UnmarshalStrict(text, &document); err != nil {
		tb.Fatalf("read Envoy config: %v", err)
	}
	return EnvoyConfig{
		Listeners: fromJSON(tb, document.Listeners, func() *listenerv3.Listener { return new(listenerv3.Listener) }),
		Scopes: fromJSON(tb, document.Scopes, func() *routev3.ScopedRouteConfiguration {
			return new(routev3.ScopedRouteConfiguration)
		}),
		Clusters: fromJSON(tb, document.Clusters, func() *clusterv3.Cluster { return new(clusterv3.Cluster) }),
		Endpoints: fromJSON(tb, document.Endpoints,
			func() *endpointv3.ClusterLoadAssignment { return new(endpointv3.ClusterLoadAssignment) }),
	}
}

// sorted returns the messages of one type, sorted by name.
func sorted[T proto.Message](tb testing.TB, byName map[string]proto.Message) []T {
	tb.Helper()
	list := make([]T, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		message, ok := byName[name].(T)
		if !ok {
			tb.Fatalf("resource %s is a %T", name, byName[name])
		}
		list = append(list, message)
	}
	return list
}

// toJSON encodes messages with the field names of the proto files.
func toJSON[T proto.Message](tb testing.TB, messages []T) []json.RawMessage {
	tb.Helper()
	texts := make([]json.RawMessage, 0, len(messages))
	for _, message := range messages {
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
		if err != nil {
			tb.Fatalf("write %T: %v", message, err)
		}
		texts = append(texts, text)
	}
	return texts
}

// fromJSON decodes messages.
func fromJSON[T proto.Message](tb testing.TB, texts []json.RawMessage, empty func() T) []T {
	tb.Helper()
	messages := make([]T, 0, len(texts))
	for _, text := range texts {
		message := empty()
		if err := protojson.Unmarshal(text, message); err != nil {
			tb.Fatalf("read %T: %v", message, err)
		}
		messages = append(messages, message)
	}
	return messages
}
