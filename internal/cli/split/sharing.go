package split

import (
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// Role is the role of a Service in a Rollout.
type Role string

// The roles.
const (
	Stable     Role = "stable"
	Canary     Role = "canary"
	Experiment Role = "experiment"
)

// Report is the traffic split of a Rollout.
type Sharing struct {
	// Rollout is its namespace and name.
	Rollout string `json:"rollout"`
	// Phase and Message are those of its status.
	Phase   string `json:"phase,omitempty"`
	Message string `json:"message,omitempty"`
	// Step is the current step, starting from 1; after the last step it is equal to Steps. Both are 0 if the Rollout
	// has no steps.
	Step  int `json:"step"`
	Steps int `json:"steps"`
	// Replicas are the numbers of its Pods: all, updated and available.
	Replicas Replicas `json:"replicas"`
	// Services are the Services that requests are split between: stable, canary, and those of an experiment.
	Services []Service `json:"services"`
	// Objects are the routing objects that contain the weights.
	Objects []Object `json:"objects"`
}

// Replicas are numbers of Pods.
type Replicas struct {
	Total     int32 `json:"total"`
	Updated   int32 `json:"updated"`
	Available int32 `json:"available"`
}

// Service is a destination of requests.
type Service struct {
	Role Role   `json:"role"`
	Name string `json:"name"`
	// Hash is the pod-template-hash in its selector; empty if it has none.
	Hash string `json:"hash,omitempty"`
	// Endpoints is the number of ready endpoints.
	Endpoints int `json:"endpoints"`
	// Desired is its weight in the Rollout's status.
	Asked int64 `json:"asked"`
}

// Object is a routing object of a Rollout.
type Object struct {
	// Name is its kind, namespace and name, and the rule if it has several.
	Name string `json:"name"`
	// Written contains the weights of Report.Services in the object; nil if unknown.
	Written []int64 `json:"written,omitempty"`
	// Problem is the reason why the written weights are unknown.
	Problem string `json:"problem,omitempty"`
	// AsDesired is true if the written weights have the desired ratio.
	AsAsked bool `json:"asAsked"`
	// Applied is "yes", "no" or "unknown": whether the data plane has applied the written weights. Reason explains any
	// other value than "yes".
	Taken Taken  `json:"taken"`
	Why   string `json:"why,omitempty"`
	// Proxies are the numbers of proxies that serve an HTTPScaledObject.
	Proxies *Proxies `json:"proxies,omitempty"`
	// Sent contains the requests of each proxy, see Report.AddRequests.
	Sent []Sent `json:"sent,omitempty"`
}

// Applied is whether weights are applied.
type Taken string

// The values of Applied.
const (
	Yes     Taken = "yes"
	No      Taken = "no"
	Unknown Taken = "unknown"
)

// Proxies are the numbers of Ready proxies, and of those that have acknowledged the weights.
type Proxies struct {
	Ready int32 `json:"ready"`
	Acked int32 `json:"acked"`
}

// Of returns the traffic split of a Rollout. The facts contain the objects that it references.
func Of(cluster *facts.Facts, r *facts.Rollout) Sharing {
	status := r.Status
	told := Sharing{
		Rollout: r.Key().String(), Phase: string(status.Phase), Message: status.Message,
		Replicas: Replicas{Total: status.Replicas, Updated: status.UpdatedReplicas, Available: status.AvailableReplicas},
		Objects:  []Object{},
	}
	if canary := r.Spec.Strategy.Canary; canary != nil && len(canary.Steps) > 0 {
		told.Steps = len(canary.Steps)
		told.Step = 1
		if status.CurrentStepIndex != nil {
			told.Step = min(int(*status.CurrentStepIndex)+1, told.Steps)
		}
	}
	told.Services = services(cluster, r)
	if r.Uses(facts.HTTPRouter) {
		told.Objects = append(told.Objects, httpScaledObjects(cluster, r, told.Services)...)
	}
	if r.Uses(facts.GatewayRouter) {
		told.Objects = append(told.Objects, routes(cluster, r, told.Services)...)
	}
	return told
}

// services returns the Services of a Rollout with the weights in its status. If the status has no weights, the stable
// Service has all requests.
func services(cluster *facts.Facts, r *facts.Rollout) []Service {
	if r.ServicesError != nil {
		return []Service{}
	}
	weights := r.Status.Canary.Weights
	if weights == nil {
		weights = &v1alpha1.TrafficWeights{Stable: v1alpha1.WeightDestination{Weight: 100}}
	}
	all := []Service{
		{Role: Stable, Name: r.Stable, Asked: int64(weights.Stable.Weight)},
		{Role: Canary, Name: r.Canary, Asked: int64(weights.Canary.Weight)},
	}
	for _, other := range weights.Additional {
		all = append(all, Service{Role: Experiment, Name: other.ServiceName, Asked: int64(other.Weight)})
	}
	for i := range all {
		all[i].Endpoints = cluster.ReadyOf(r.Namespace, all[i].Name)
		if service := cluster.Service(r.Namespace, all[i].Name); service != nil {
			all[i].Hash = service.Spec.Selector[v1alpha1.DefaultRolloutUniqueLabelKey]
		}
	}
	return all
}

// setWeights sets the written weights of Services. Weights of other Services count in the sum: an object that also
// routes to others is not as desired.
func (o *Object) weigh(services []Service, names []string, weights []int64) {
	o.Written = make([]int64, len(services))
	var asked, sum, known int64
	for i, service := range services {
		asked += service.Asked
		if at := slices.Index(names, service.Name); at >= 0 {
			o.Written[i] = weights[at]
			known += weights[at]
		}
	}
	for _, weight := range weights {
		sum += weight
	}
	o.AsAsked = known == sum
	for i, service := range services {
		// Compare ratios: 4 of 5 equals 80 of 100.
		o.AsAsked = o.AsAsked && o.Written[i]*asked == service.Asked*sum
	}
}
