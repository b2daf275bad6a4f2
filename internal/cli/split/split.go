package split

import (
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
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
type Report struct {
	// Rollout is its namespace and name; empty for an HTTPScaledObject that no Rollout references.
	Rollout string `json:"rollout"`
	// Router is the router that splits its requests; several are separated by commas.
	Router string `json:"router,omitempty"`
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
	// Conditions are Ready, Written, Verified and Promoted.
	Conditions []Condition `json:"conditions"`
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
	Desired int64 `json:"desired"`
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
	AsDesired bool `json:"asDesired"`
	// Applied is "yes", "no" or "unknown": whether the data plane has applied the written weights. Reason explains any
	// other value than "yes".
	Applied Applied `json:"applied"`
	Reason  string  `json:"reason,omitempty"`
	// Proxies are the numbers of proxies that serve an HTTPScaledObject.
	Proxies *Proxies `json:"proxies,omitempty"`
	// Sent contains the requests of each proxy, see Report.AddRequests.
	Sent []ProxyRequests `json:"sent,omitempty"`
}

// Applied is whether weights are applied.
type Applied string

// The values of Applied.
const (
	Yes     Applied = "yes"
	No      Applied = "no"
	Unknown Applied = "unknown"
)

// Proxies are the numbers of Ready proxies, and of those that have acknowledged the weights.
type Proxies struct {
	Ready int32 `json:"ready"`
	Acked int32 `json:"acked"`
}

// Of returns the traffic split of a Rollout. The facts contain the objects that it references.
func Of(cluster *facts.Facts, r *facts.Rollout) Report {
	status := r.Status
	report := Report{
		Rollout: r.Key().String(), Router: routerOf(r), Phase: string(status.Phase), Message: status.Message,
		Replicas: Replicas{
			Total: status.Replicas, Updated: status.UpdatedReplicas,
			Available: status.AvailableReplicas,
		},
		Objects: []Object{},
	}
	if canary := r.Spec.Strategy.Canary; canary != nil && len(canary.Steps) > 0 {
		report.Steps = len(canary.Steps)
		report.Step = 1
		if status.CurrentStepIndex != nil {
			report.Step = min(int(*status.CurrentStepIndex)+1, report.Steps)
		}
	}
	report.Services = services(cluster, r)
	if r.Uses(facts.HTTPRouter) {
		report.Objects = append(report.Objects, httpScaledObjects(cluster, r, report.Services)...)
	}
	if r.Uses(facts.GatewayRouter) {
		report.Objects = append(report.Objects, routes(cluster, r, report.Services)...)
	}
	isWritten := written(report.Objects)
	report.Conditions = []Condition{
		ready(cluster, r, &report), isWritten, verified(report.Objects, isWritten), promoted(r),
	}
	return report
}

// OfObject returns the traffic split of an HTTPScaledObject that no Rollout references: all requests go to its Service.
func OfObject(cluster *facts.Facts, object *httpv1alpha1.HTTPScaledObject) Report {
	name := object.Spec.ScaleTargetRef.Service
	report := Report{Services: []Service{{
		Role: Stable, Name: name, Desired: 100, Endpoints: cluster.ReadyOf(object.Namespace, name),
	}}}
	report.Objects = []Object{httpScaledObject(object, report.Services)}
	isWritten := written(report.Objects)
	report.Conditions = []Condition{
		readyObjects([]*httpv1alpha1.HTTPScaledObject{object}, &report), isWritten, verified(report.Objects, isWritten),
	}
	return report
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
		{Role: Stable, Name: r.Stable, Desired: int64(weights.Stable.Weight)},
		{Role: Canary, Name: r.Canary, Desired: int64(weights.Canary.Weight)},
	}
	for _, other := range weights.Additional {
		all = append(all, Service{Role: Experiment, Name: other.ServiceName, Desired: int64(other.Weight)})
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
func (o *Object) setWeights(services []Service, names []string, weights []int64) {
	o.Written = make([]int64, len(services))
	var desired, sum, matched int64
	for i, service := range services {
		desired += service.Desired
		if at := slices.Index(names, service.Name); at >= 0 {
			o.Written[i] = weights[at]
			matched += weights[at]
		}
	}
	for _, weight := range weights {
		sum += weight
	}
	o.AsDesired = matched == sum
	for i, service := range services {
		// Compare ratios: 4 of 5 equals 80 of 100.
		o.AsDesired = o.AsDesired && o.Written[i]*desired == service.Desired*sum
	}
}
