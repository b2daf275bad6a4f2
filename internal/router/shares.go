package router

import (
	"fmt"
	"slices"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// defaultMaxWeight is the sum of all weights where a Rollout names no maxTrafficWeight.
const defaultMaxWeight = 100

// Share is one Service with its part of a Rollout's requests.
type Share struct {
	// Service is the name of a Service in the Rollout's namespace.
	Service string
	// Weight is the part, from 0 to the Rollout's maxTrafficWeight.
	Weight uint32
}

// Shares is how the requests of a Rollout are to be shared. The weights add up to its maxTrafficWeight.
type Shares struct {
	// Stable is the share of the stable Service: what the others leave.
	Stable Share
	// Canary is the share of the canary Service.
	Canary Share
	// Others are the shares of an experiment's Services, in the order of the call.
	Others []Share
	// PingPong says that the stable and the canary Service change places after each promotion, so that neither name alone says which one is stable.
	PingPong bool
}

// Idle says whether everything goes to the stable Service, as outside of a canary.
func (s Shares) Idle() bool {
	for _, other := range s.Others {
		if other.Weight > 0 {
			return false
		}
	}
	return s.Canary.Weight == 0
}

// SharesOf works out what a SetWeight of rollout asks for. A canary weight of up to 100 that is above maxTrafficWeight counts as that: the controller asks for 100 at
// times whatever the maximum is. It is an error when the Services are not named, a weight is negative or above both, or the weights exceed the maximum together.
func SharesOf(rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) (Shares, error) {
	stable, canary, err := services(rollout)
	if err != nil {
		return Shares{}, err
	}
	if weight < 0 {
		return Shares{}, fmt.Errorf("rollout %q: the canary weight %d is negative: correct setWeight in spec.strategy.canary.steps", NameOf(rollout), weight)
	}
	limit := maxWeight(rollout)
	if highest := max(limit, defaultMaxWeight); uint32(weight) > highest {
		return Shares{}, fmt.Errorf("rollout %q: the canary weight %d is above %d: correct setWeight in spec.strategy.canary.steps", NameOf(rollout), weight, highest)
	}
	shares := Shares{Canary: Share{Service: canary, Weight: min(uint32(weight), limit)}, PingPong: isPingPong(rollout.Spec.Strategy.Canary)}
	rest := limit - shares.Canary.Weight
	for _, other := range named(rollout, others) {
		if other.ServiceName == "" {
			return Shares{}, fmt.Errorf("rollout %q: a Service of the experiment has no name yet, so its weight %d cannot be given to it", NameOf(rollout), other.Weight)
		}
		if other.Weight < 0 {
			return Shares{}, fmt.Errorf("rollout %q: the weight %d of Service %q is negative: correct the experiment's template in spec.strategy.canary.steps",
				NameOf(rollout), other.Weight, other.ServiceName)
		}
		share := Share{Service: other.ServiceName, Weight: uint32(other.Weight)}
		if share.Weight > rest {
			return Shares{}, fmt.Errorf("rollout %q: the weights of the canary and the experiment add up to %d, above %d: lower setWeight or the weights of the "+
				"experiment's templates in spec.strategy.canary.steps", NameOf(rollout), limit-rest+share.Weight, limit)
		}
		rest -= share.Weight
		shares.Others = append(shares.Others, share)
	}
	shares.Stable = Share{Service: stable, Weight: rest}
	return shares, nil
}

// named is others, with names for Services that have none. The controller replaces the statuses of an Experiment's templates as a whole, and at times from an old
// copy (seen with v1.10.1): the name of a Service that it made is then lost for as long as the Experiment runs. It can only be that of a template of the same
// weight, as the step names it or as the controller does by default (experiments/replicaset.go, newReplicaSetFromTemplate).
func named(rollout *v1alpha1.Rollout, others []v1alpha1.WeightDestination) []v1alpha1.WeightDestination {
	isUnnamed := func(other v1alpha1.WeightDestination) bool { return other.ServiceName == "" }
	if !slices.ContainsFunc(others, isUnnamed) {
		return others
	}
	others = slices.Clone(others)
	for _, template := range templates(rollout) {
		name := rollout.Status.Canary.CurrentExperiment + "-" + template.Name
		if template.Service != nil && template.Service.Name != "" {
			name = template.Service.Name
		}
		isNamed := func(other v1alpha1.WeightDestination) bool { return other.ServiceName == name }
		if template.Weight == nil || slices.ContainsFunc(others, isNamed) {
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

// templates are those of the experiment that runs: of the last step that has one, up to the current.
func templates(rollout *v1alpha1.Rollout) []v1alpha1.RolloutExperimentTemplate {
	steps, current := rollout.Spec.Strategy.Canary.Steps, 0 // a pointer to 0 arrives as nil
	if index := rollout.Status.CurrentStepIndex; index != nil {
		current = int(*index)
	}
	for _, step := range slices.Backward(steps[:min(current+1, len(steps))]) {
		if step.Experiment != nil {
			return step.Experiment.Templates
		}
	}
	return nil
}

// services names the stable and the canary Service of rollout. With ping-pong they are the two Services named there, and the Rollout's status says which
// one is stable; while it doesn't say, that is the pong Service, as the controller has it (rollout/trafficrouting/service_helper.go).
func services(rollout *v1alpha1.Rollout) (stable, canary string, err error) {
	strategy := rollout.Spec.Strategy.Canary
	if strategy == nil {
		return "", "", fmt.Errorf("rollout %q: spec.strategy.canary is missing: a traffic router works for canaries only", NameOf(rollout))
	}
	type field struct{ name, value string }
	stableField, canaryField := field{"stableService", strategy.StableService}, field{"canaryService", strategy.CanaryService}
	if isPingPong(strategy) {
		stableField, canaryField = field{"pingPong.pongService", strategy.PingPong.PongService}, field{"pingPong.pingService", strategy.PingPong.PingService}
		if rollout.Status.Canary.StablePingPong == v1alpha1.PPPing {
			stableField, canaryField = canaryField, stableField
		}
	}
	for _, named := range []field{stableField, canaryField} {
		if named.value == "" {
			return "", "", fmt.Errorf("rollout %q: spec.strategy.canary.%s is empty: name the Service there", NameOf(rollout), named.name)
		}
	}
	return stableField.value, canaryField.value, nil
}

// isPingPong says whether the ping and the pong Service share the requests. A Rollout that names a stable or a canary Service too has those share them, as the
// controller has it for every router but ALB's (GetStableAndCanaryServices in rollout/trafficrouting/service_helper.go).
func isPingPong(strategy *v1alpha1.CanaryStrategy) bool {
	return strategy.PingPong != nil && strategy.StableService == "" && strategy.CanaryService == ""
}

// maxWeight is what the weights of rollout add up to. A missing maximum is 100; so is one of zero, which travels as a missing one.
func maxWeight(rollout *v1alpha1.Rollout) uint32 {
	routing := rollout.Spec.Strategy.Canary.TrafficRouting
	if routing == nil || routing.MaxTrafficWeight == nil || *routing.MaxTrafficWeight <= 0 {
		return defaultMaxWeight
	}
	return uint32(*routing.MaxTrafficWeight)
}

// NameOf is namespace/name of rollout, as it stands in messages.
func NameOf(rollout *v1alpha1.Rollout) string {
	if rollout == nil {
		return "(none)"
	}
	return rollout.Namespace + "/" + rollout.Name
}
