package testbed

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
)

// passedStep is a setWeight step that the Rollout has passed.
type passedStep struct {
	index, weight int
	at            time.Time
	// reported are the weights in the status that contained the next step.
	reported *kube.RolloutWeights
}

// isVerified reports whether the status contained the weight of the step as verified. The controller also passes a step
// whose verification failed with an error, or that its router did not verify at all.
func (p passedStep) isVerified() bool {
	return p.reported != nil && p.reported.Canary.Weight == p.weight && p.reported.Verified != nil && *p.reported.Verified
}

// passedSteps returns the setWeight steps from index from to index until, of which until is not passed.
func passedSteps(version inside.Version, reported *kube.RolloutWeights, from, until int) []passedStep {
	var rollout struct {
		Spec struct {
			Strategy struct {
				Canary struct {
					Steps []struct {
						SetWeight *int `json:"setWeight"`
					} `json:"steps"`
				} `json:"canary"`
			} `json:"strategy"`
		} `json:"spec"`
	}
	if json.Unmarshal(version.Value, &rollout) != nil {
		return nil
	}
	var passed []passedStep
	for i, step := range rollout.Spec.Strategy.Canary.Steps {
		if i >= from && i < until && step.SetWeight != nil {
			passed = append(passed, passedStep{index: i, weight: *step.SetWeight, at: version.Seen, reported: reported})
		}
	}
	return passed
}

// PassedSteps returns the weights of the setWeight steps that the Rollout has passed since a moment, and describes those
// that were not verified.
func (r *Record) PassedSteps(moment time.Time) (weights []int, unverified []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.passed {
		if p.at.Before(moment) {
			continue
		}
		weights = append(weights, p.weight)
		if p.isVerified() {
			continue
		}
		reported := "no weight"
		if p.reported != nil {
			reported = fmt.Sprintf("weight %d, not verified", p.reported.Canary.Weight)
			if p.reported.Verified != nil {
				reported = fmt.Sprintf("weight %d, verified %t", p.reported.Canary.Weight, *p.reported.Verified)
			}
		}
		unverified = append(unverified, fmt.Sprintf("step %d with weight %d was passed at %+.3f s with %s", p.index, p.weight,
			p.at.Sub(moment).Seconds(), reported))
	}
	return weights, unverified
}
