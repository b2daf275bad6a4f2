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

// breakersOf are the circuit breakers of a cluster, the options' where nobody has changed them.
func (f clusterFactory) breakersOf(tuning model.ClusterTuning) *clusterv3.CircuitBreakers {
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		Priority:           corev3.RoutingPriority_DEFAULT,
		MaxConnections:     wrapperspb.UInt32(cmp.Or(tuning.MaxConnections, f.options.MaxConnections)),
		MaxPendingRequests: wrapperspb.UInt32(cmp.Or(tuning.MaxPendingRequests, f.options.MaxPendingRequests)),
		MaxRequests:        wrapperspb.UInt32(cmp.Or(tuning.MaxRequests, f.options.MaxRequests)),
		MaxRetries:         wrapperspb.UInt32(cmp.Or(tuning.MaxRetries, f.options.MaxRetries)),
	}}}
}

// balance has a cluster choose Pods by a policy; without one it stays as it is.
func balance(cluster *clusterv3.Cluster, by model.Balance) {
	policy, isKnown := clusterv3.Cluster_LbPolicy_value[by.Policy]
	if !isKnown {
		return
	}
	cluster.LbPolicy = clusterv3.Cluster_LbPolicy(policy)
	var start *clusterv3.Cluster_SlowStartConfig
	if by.SlowStart > 0 {
		start = &clusterv3.Cluster_SlowStartConfig{SlowStartWindow: durationpb.New(by.SlowStart)}
		if by.MinWeight.IsGiven {
			start.MinWeightPercent = &typev3.Percent{Value: by.MinWeight.Value}
		}
	}
	switch cluster.GetLbPolicy() {
	case clusterv3.Cluster_ROUND_ROBIN:
		cluster.LbConfig = &clusterv3.Cluster_RoundRobinLbConfig_{RoundRobinLbConfig: &clusterv3.Cluster_RoundRobinLbConfig{SlowStartConfig: start}}
	case clusterv3.Cluster_LEAST_REQUEST:
		config := &clusterv3.Cluster_LeastRequestLbConfig{SlowStartConfig: start}
		if by.ChoiceCount > 0 {
			config.ChoiceCount = wrapperspb.UInt32(by.ChoiceCount)
		}
		cluster.LbConfig = &clusterv3.Cluster_LeastRequestLbConfig_{LeastRequestLbConfig: config}
	default: // RANDOM has no settings.
	}
}
