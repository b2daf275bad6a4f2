package translate

import (
	"cmp"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// breakersOf returns the circuit breakers of a cluster. The options apply unless the settings replace them.
func (f clusterFactory) breakersOf(settings model.ClusterSettings) *clusterv3.CircuitBreakers {
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		Priority:           corev3.RoutingPriority_DEFAULT,
		MaxConnections:     wrapperspb.UInt32(cmp.Or(settings.MaxConnections, f.options.MaxConnections)),
		MaxPendingRequests: wrapperspb.UInt32(cmp.Or(settings.MaxPendingRequests, f.options.MaxPendingRequests)),
		MaxRequests:        wrapperspb.UInt32(cmp.Or(settings.MaxRequests, f.options.MaxRequests)),
		MaxRetries:         wrapperspb.UInt32(cmp.Or(settings.MaxRetries, f.options.MaxRetries)),
	}}}
}

// applyBalance sets the load balancing policy of a cluster; without a policy it changes nothing.
func applyBalance(cluster *clusterv3.Cluster, settings model.Balance) {
	policy, isKnown := clusterv3.Cluster_LbPolicy_value[settings.Policy]
	if !isKnown {
		return
	}
	cluster.LbPolicy = clusterv3.Cluster_LbPolicy(policy)
	var start *clusterv3.Cluster_SlowStartConfig
	if settings.SlowStart > 0 {
		start = &clusterv3.Cluster_SlowStartConfig{SlowStartWindow: durationpb.New(settings.SlowStart)}
		if settings.MinWeight.IsGiven {
			start.MinWeightPercent = &typev3.Percent{Value: settings.MinWeight.Value}
		}
	}
	switch cluster.GetLbPolicy() {
	case clusterv3.Cluster_ROUND_ROBIN:
		cluster.LbConfig = &clusterv3.Cluster_RoundRobinLbConfig_{
			RoundRobinLbConfig: &clusterv3.Cluster_RoundRobinLbConfig{SlowStartConfig: start},
		}
	case clusterv3.Cluster_LEAST_REQUEST:
		config := &clusterv3.Cluster_LeastRequestLbConfig{SlowStartConfig: start}
		if settings.ChoiceCount > 0 {
			config.ChoiceCount = wrapperspb.UInt32(settings.ChoiceCount)
		}
		cluster.LbConfig = &clusterv3.Cluster_LeastRequestLbConfig_{LeastRequestLbConfig: config}
	default: // RANDOM has no settings.
	}
}
