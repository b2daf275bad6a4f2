package translate

import (
	"cmp"
	"math"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// retryBudget is the limit of concurrent retries in percent of the active requests if workloads may have received
	// them. In contrast to a fixed number it suffices at any load for the requests of a failed Pod, if that is one of at
	// least two. With Envoy's 20 % it would have to be one of five. Retries increase the load of a workload by at most
	// as much. minRetries is the number that is always possible.
	retryBudget, minRetries = 50, 3
	// noRetryLimit is above every number of concurrent requests.
	noRetryLimit = math.MaxUint32
	// outlierFailures, outlierInterval and outlierMax are Envoy's defaults of OutlierDetection, and so is
	// model.DefaultEjection.
	outlierFailures = 5
	outlierInterval = 10 * time.Second
	outlierMax      = 5 * time.Minute
	// outlierPercent is the maximum percentage of ejected Pods. With Envoy's 10 % no Pod of fewer than ten is ejected.
	// The only Pod of a Service is never ejected.
	outlierPercent = 50
)

// hasOwnRetryConditions reports whether the settings replace safeConditions.
func (c clusterSpec) hasOwnRetryConditions() bool { return c.settings.OfRoute().RetryOn != "" }

// limitRetries sets the limit of concurrent retries.
//
// By default there is none: no workload can have received the requests, so retries add no load to it. If several Pods
// disappear at once, all requests to them fail at the same time. Then a budget is of no use, because a request that
// waits for its retry is not active: Envoy would answer all but the minimum with 503.
func (f clusterFactory) limitRetries(thresholds *clusterv3.CircuitBreakers_Thresholds, spec clusterSpec) {
	settings := spec.settings.OfCluster()
	switch {
	case settings.MaxRetries > 0:
		thresholds.MaxRetries = wrapperspb.UInt32(settings.MaxRetries)
	case f.options.MaxRetries == 0 && !spec.hasOwnRetryConditions() && settings.RetryBudget == model.RetryBudget{}:
		thresholds.MaxRetries = wrapperspb.UInt32(noRetryLimit)
	default:
		most := cmp.Or(f.options.MaxRetries, minRetries)
		percent := cmp.Or(settings.RetryBudget.Percent, model.Given[float64]{Value: retryBudget}).Value
		least := cmp.Or(settings.RetryBudget.MinConcurrency, model.Given[uint32]{Value: most}).Value
		thresholds.MaxRetries = wrapperspb.UInt32(most)
		thresholds.RetryBudget = &clusterv3.CircuitBreakers_Thresholds_RetryBudget{
			BudgetPercent: &typev3.Percent{Value: percent}, MinRetryConcurrency: wrapperspb.UInt32(least),
		}
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
func (f clusterFactory) breakersOf(spec clusterSpec) *clusterv3.CircuitBreakers {
	settings := spec.settings.OfCluster()
	thresholds := &clusterv3.CircuitBreakers_Thresholds{
		Priority:           corev3.RoutingPriority_DEFAULT,
		MaxConnections:     wrapperspb.UInt32(cmp.Or(settings.MaxConnections, f.options.MaxConnections)),
		MaxPendingRequests: wrapperspb.UInt32(cmp.Or(settings.MaxPendingRequests, f.options.MaxPendingRequests)),
		MaxRequests:        wrapperspb.UInt32(cmp.Or(settings.MaxRequests, f.options.MaxRequests)),
	}
	f.limitRetries(thresholds, spec)
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{thresholds}}
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
