package translate

import (
	"cmp"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// retryBudget is the default limit of concurrent retries in percent of the active requests. In contrast to a fixed
	// number it suffices at any load for the requests of a failed Pod, if that is one of at least two. With Envoy's 20 %
	// it would have to be one of five. Retries increase the load of a workload by at most as much.
	retryBudget = 50
	// outlierFailures, outlierInterval and outlierMax are Envoy's defaults of OutlierDetection, and so is
	// model.DefaultEjection.
	outlierFailures = 5
	outlierInterval = 10 * time.Second
	outlierMax      = 5 * time.Minute
	// outlierPercent is the maximum percentage of ejected Pods. With Envoy's 10 % no Pod of fewer than ten is ejected.
	// The only Pod of a Service is never ejected.
	outlierPercent = 50
)

// retryBudgetOf returns the budget for retries, nil if the settings have a fixed number. Options.MaxRetries concurrent
// retries are always possible.
func (f clusterFactory) retryBudgetOf(
	settings model.ClusterSettings,
) *clusterv3.CircuitBreakers_Thresholds_RetryBudget {
	if settings.MaxRetries > 0 {
		return nil
	}
	percent := cmp.Or(settings.RetryBudget.Percent, model.Given[float64]{Value: retryBudget}).Value
	least := cmp.Or(settings.RetryBudget.MinConcurrency, model.Given[uint32]{Value: f.options.MaxRetries}).Value
	return &clusterv3.CircuitBreakers_Thresholds_RetryBudget{
		BudgetPercent: &typev3.Percent{Value: percent}, MinRetryConcurrency: wrapperspb.UInt32(least),
	}
}

// outliersOf returns the ejection of endpoints to which connections fail. A response of the workload never counts,
// whatever its status: Envoy counts it as external, and every ejection by external errors is disabled. What Envoy
// counts as local includes a request without response headers in time, but each later request that gets a connection
// to the endpoint resets the count.
//
// The endpoints of a cluster are those of one backend, so an ejection moves no request to another backend.
func outliersOf(settings model.Outliers) *clusterv3.OutlierDetection {
	none := wrapperspb.UInt32(0)
	return &clusterv3.OutlierDetection{
		SplitExternalLocalOriginErrors: true,
		ConsecutiveLocalOriginFailure: wrapperspb.UInt32(cmp.Or(settings.Failures,
			model.Given[uint32]{Value: outlierFailures}).Value),
		MaxEjectionPercent: wrapperspb.UInt32(cmp.Or(settings.MaxPercent,
			model.Given[uint32]{Value: outlierPercent}).Value),
		Interval:                        durationpb.New(cmp.Or(settings.Interval, outlierInterval)),
		BaseEjectionTime:                durationpb.New(cmp.Or(settings.Base, model.DefaultEjection)),
		MaxEjectionTime:                 durationpb.New(max(cmp.Or(settings.Max, outlierMax), settings.Base)),
		Consecutive_5Xx:                 none,
		EnforcingConsecutive_5Xx:        none,
		EnforcingSuccessRate:            none,
		EnforcingLocalOriginSuccessRate: none,
	}
}

// breakersOf returns the circuit breakers of a cluster. The options apply unless the settings replace them.
func (f clusterFactory) breakersOf(settings model.ClusterSettings) *clusterv3.CircuitBreakers {
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		Priority:           corev3.RoutingPriority_DEFAULT,
		MaxConnections:     wrapperspb.UInt32(cmp.Or(settings.MaxConnections, f.options.MaxConnections)),
		MaxPendingRequests: wrapperspb.UInt32(cmp.Or(settings.MaxPendingRequests, f.options.MaxPendingRequests)),
		MaxRequests:        wrapperspb.UInt32(cmp.Or(settings.MaxRequests, f.options.MaxRequests)),
		MaxRetries:         wrapperspb.UInt32(cmp.Or(settings.MaxRetries, f.options.MaxRetries)),
		RetryBudget:        f.retryBudgetOf(settings),
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
