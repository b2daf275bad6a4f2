package split

import (
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// Role is what a Service is to a Rollout.
type Role string

// The roles.
const (
	Stable     Role = "stable"
	Canary     Role = "canary"
	Experiment Role = "experiment"
)

// Sharing is how the requests of a Rollout are shared.
type Sharing struct {
	// Rollout is its namespace and name.
	Rollout string `json:"rollout"`
	// Phase and Message are its status in words.
	Phase   string `json:"phase,omitempty"`
	Message string `json:"message,omitempty"`
	// Step counts from 1, to Steps; beyond the last one it is Steps. Both are 0 without steps.
	Step  int `json:"step"`
	Steps int `json:"steps"`
	// Replicas counts its Pods: all, those of the new version, and the available ones.
	Replicas Replicas `json:"replicas"`
	// Services are those that share the requests: the stable one, the canary, those of an experiment.
	Services []Service `json:"services"`
	// Objects are where the shares are written.
	Objects []Object `json:"objects"`
}

// Replicas counts Pods.
type Replicas struct {
	Total     int32 `json:"total"`
	Updated   int32 `json:"updated"`
	Available int32 `json:"available"`
}

// Service is one that gets requests.
type Service struct {
	Role Role   `json:"role"`
	Name string `json:"name"`
	// Hash is the pod-template-hash that it selects; empty where it selects by none.
	Hash string `json:"hash,omitempty"`
	// Endpoints counts the ready ones.
	Endpoints int `json:"endpoints"`
	// Asked is its weight by the Rollout's status.
	Asked int64 `json:"asked"`
}

// Object is a routing object of a Rollout.
type Object struct {
	// Name is its kind, namespace and name, and the rule where it has several.
	Name string `json:"name"`
	// Written are the weights of Sharing.Services, in their order; nil where the object does not say.
	Written []int64 `json:"written,omitempty"`
	// Problem says why nothing is known of what is written.
	Problem string `json:"problem,omitempty"`
	// AsAsked says that what is written are the shares that were asked for.
	AsAsked bool `json:"asAsked"`
	// Taken is "yes", "no" or "unknown": whether who shares the requests does so as written. Why says why not.
	Taken Taken  `json:"taken"`
	Why   string `json:"why,omitempty"`
	// Proxies counts the Ready proxies that serve an HTTPScaledObject, and those that have acknowledged it.
	Proxies *Proxies `json:"proxies,omitempty"`
	// Sent is what each of them has sent, where that was asked for: see Sharing.Count.
	Sent []Sent `json:"sent,omitempty"`
}

// Taken is an answer.
type Taken string

// The answers.
const (
	Yes     Taken = "yes"
	No      Taken = "no"
	Unknown Taken = "unknown"
)

// Proxies counts proxies.
type Proxies struct {
	Ready int32 `json:"ready"`
	Acked int32 `json:"acked"`
}

// Of tells how the requests of a Rollout are shared. The facts have what the Rollout names.
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

// services are those of a Rollout with the weights of its status. Without any there, the stable one has everything.
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

// weigh writes down the weights that an object has for Services. Those of others count in the sum alone: an object that
// shares with somebody else is not as asked.
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
