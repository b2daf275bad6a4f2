package router

import (
	"fmt"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// defaultMaxWeight is the sum of all weights of a Rollout without maxTrafficWeight.
const defaultMaxWeight = 100

// Backend is one Service with its weight.
type Backend struct {
	// Service is the name of a Service in the Rollout's namespace.
	Service string
	// Weight is the Service's weight, from 0 to the Rollout's maxTrafficWeight.
	Weight uint32
}

// Split is the requested traffic split of a Rollout. The weights add up to its maxTrafficWeight.
type Split struct {
	// Stable is the stable Service. Its weight is the rest.
	Stable Backend
	// Canary is the canary Service.
	Canary Backend
	// Others are the Services of an experiment, in the order of the call.
	Others []Backend
	// PingPong is true if the stable and the canary Service swap after each promotion, so that a name alone does not
	// identify the stable one.
	PingPong bool
}

// IsStableOnly reports whether all requests go to the stable Service, as outside of a canary.
func (s Split) IsStableOnly() bool {
	for _, other := range s.Others {
		if other.Weight > 0 {
			return false
		}
	}
	return s.Canary.Weight == 0
}

// Total returns the sum of all weights.
func (s Split) Total() uint32 {
	total := s.Stable.Weight + s.Canary.Weight
	for _, other := range s.Others {
		total += other.Weight
	}
	return total
}

// WithCanaryWeight returns the Split with a lower canary weight. The stable Service gets the difference.
func (s Split) WithCanaryWeight(weight uint32) Split {
	s.Stable.Weight += s.Canary.Weight - weight
	s.Canary.Weight = weight
	return s
}

// SplitFor returns the Split that a SetWeight of rollout requests. A canary weight above maxTrafficWeight and up to 100
// counts as maxTrafficWeight: the controller sometimes passes 100 whatever the maximum is. It is an error if a Service
// has no name, a weight is negative or above both limits, or the sum of the weights exceeds the maximum.
func SplitFor(rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) (Split, error) {
	stable, canary, err := services(rollout)
	if err != nil {
		return Split{}, err
	}
	if weight < 0 {
		return Split{}, fmt.Errorf("rollout %q: the canary weight %d is negative: correct setWeight in "+
			"spec.strategy.canary.steps", NameOf(rollout), weight)
	}
	limit := maxWeight(rollout)
	if highest := max(limit, defaultMaxWeight); uint32(weight) > highest {
		return Split{}, fmt.Errorf("rollout %q: the canary weight %d is above %d: correct setWeight in "+
			"spec.strategy.canary.steps", NameOf(rollout), weight, highest)
	}
	split := Split{
		Canary:   Backend{Service: canary, Weight: min(uint32(weight), limit)},
		PingPong: isPingPong(rollout.Spec.Strategy.Canary),
	}
	rest := limit - split.Canary.Weight
	for _, other := range withServiceNames(rollout, others) {
		if other.ServiceName == "" {
			return Split{}, fmt.Errorf("rollout %q: a Service of the experiment has no name yet, so its weight %d cannot be set",
				NameOf(rollout), other.Weight)
		}
		if other.Weight < 0 {
			return Split{}, fmt.Errorf("rollout %q: the weight %d of Service %q is negative: correct the experiment's "+
				"template in spec.strategy.canary.steps", NameOf(rollout), other.Weight, other.ServiceName)
		}
		backend := Backend{Service: other.ServiceName, Weight: uint32(other.Weight)}
		if backend.Weight > rest {
			return Split{}, fmt.Errorf("rollout %q: the weights of the canary and the experiment add up to %d, above %d: "+
				"lower setWeight or the weights of the experiment's templates in spec.strategy.canary.steps", NameOf(rollout),
				limit-rest+backend.Weight, limit)
		}
		rest -= backend.Weight
		split.Others = append(split.Others, backend)
	}
	split.Stable = Backend{Service: stable, Weight: rest}
	return split, nil
}

// withServiceNames returns others with the missing Service names filled in. The controller replaces the status of all
// Experiment templates at once, sometimes from an outdated copy (seen with v1.10.1): the name of a Service that it
// created is then missing until the Experiment ends. The Service is that of a template with the same weight. Its name
// is the one in the step, or the controller's default (experiments/replicaset.go, newReplicaSetFromTemplate).
func withServiceNames(rollout *v1alpha1.Rollout, others []v1alpha1.WeightDestination) []v1alpha1.WeightDestination {
	isUnnamed := func(other v1alpha1.WeightDestination) bool { return other.ServiceName == "" }
	if !slices.ContainsFunc(others, isUnnamed) {
		return others
	}
	others = slices.Clone(others)
	for _, template := range experimentTemplates(rollout) {
		name := rollout.Status.Canary.CurrentExperiment + "-" + template.Name
		if template.Service != nil && template.Service.Name != "" {
			name = template.Service.Name
		}
		hasName := func(other v1alpha1.WeightDestination) bool { return other.ServiceName == name }
		if template.Weight == nil || slices.ContainsFunc(others, hasName) {
			continue
		}
		at := slices.IndexFunc(others, func(other v1alpha1.WeightDestination) bool {
			return isUnnamed(other) && other.Weight == *template.Weight
		})
		if at >= 0 {
			others[at].ServiceName = name
		}
	}
	return others
}

// experimentTemplates returns the templates of the running experiment: of the last step up to the current one that has
// an experiment.
func experimentTemplates(rollout *v1alpha1.Rollout) []v1alpha1.RolloutExperimentTemplate {
	steps, current := rollout.Spec.Strategy.Canary.Steps, currentStep(rollout)
	for _, step := range slices.Backward(steps[:min(current+1, len(steps))]) {
		if step.Experiment != nil {
			return step.Experiment.Templates
		}
	}
	return nil
}

// services returns the names of the stable and the canary Service of rollout. With ping-pong they are the two Services
// in pingPong, and the status names the stable one. Without a name there, it is the pong Service, as in the controller
// (rollout/trafficrouting/service_helper.go).
func services(rollout *v1alpha1.Rollout) (stable, canary string, err error) {
	strategy := rollout.Spec.Strategy.Canary
	if strategy == nil {
		return "", "", fmt.Errorf("rollout %q: spec.strategy.canary is missing: a traffic router works for canaries only",
			NameOf(rollout))
	}
	type field struct{ name, value string }
	stableField, canaryField := field{"stableService", strategy.StableService},
		field{"canaryService", strategy.CanaryService}
	if pingPong := strategy.PingPong; isPingPong(strategy) {
		stableField, canaryField = field{"pingPong.pongService", pingPong.PongService},
			field{"pingPong.pingService", pingPong.PingService}
		if rollout.Status.Canary.StablePingPong == v1alpha1.PPPing {
			stableField, canaryField = canaryField, stableField
		}
	}
	for _, service := range []field{stableField, canaryField} {
		if service.value == "" {
			return "", "", fmt.Errorf("rollout %q: spec.strategy.canary.%s is empty: name the Service there", NameOf(rollout),
				service.name)
		}
	}
	return stableField.value, canaryField.value, nil
}

// isPingPong reports whether the ping and the pong Service split the traffic. In a Rollout that also names a stable or
// a canary Service, those two do, as in the controller for every router except ALB (GetStableAndCanaryServices in
// rollout/trafficrouting/service_helper.go).
func isPingPong(strategy *v1alpha1.CanaryStrategy) bool {
	return strategy.PingPong != nil && strategy.StableService == "" && strategy.CanaryService == ""
}

// maxWeight returns the sum of the weights of rollout. A missing maximum is 100; so is 0, which gob turns into a
// missing one.
func maxWeight(rollout *v1alpha1.Rollout) uint32 {
	routing := rollout.Spec.Strategy.Canary.TrafficRouting
	if routing == nil || routing.MaxTrafficWeight == nil || *routing.MaxTrafficWeight <= 0 {
		return defaultMaxWeight
	}
	return uint32(*routing.MaxTrafficWeight)
}

// NameOf returns namespace/name of rollout, for messages.
func NameOf(rollout *v1alpha1.Rollout) string {
	if rollout == nil {
		return "(none)"
	}
	return rollout.Namespace + "/" + rollout.Name
}
