package trace

import (
	"math"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
)

// OtherSplit stands for a traffic split that corresponds to no canary weight from 0 to 100.
const OtherSplit = -1

// Pair contains the names of the two sides of a canary at one place, such as the annotation or Envoy's routes.
type Pair struct {
	Stable, Canary string
}

// AnnotationWeight returns the canary's weight in percent in an annotation: 0 for no annotation, OtherSplit for any
// text that the router does not write.
func (p Pair) AnnotationWeight(text string) int {
	if text == "" {
		return 0
	}
	for weight := range 101 {
		if text == kube.WeightsText(p.Stable, p.Canary, weight) {
			return weight
		}
	}
	return OtherSplit
}

// EnvoyWeight returns the canary's weight in percent in Envoy's routes, or OtherSplit.
func (p Pair) EnvoyWeight(shares envoyadmin.Shares) int {
	weight := int(math.Round(shares[p.Canary] * 100))
	want := envoyadmin.Shares{}
	if weight < 100 {
		want[p.Stable] = float64(100-weight) / 100
	}
	if weight > 0 {
		want[p.Canary] = float64(weight) / 100
	}
	if !shares.Equal(want) {
		return OtherSplit
	}
	return weight
}

// Observation is a weight observed at a place.
type Observation struct {
	// Weight is the canary's weight in percent, or OtherSplit.
	Weight int
	// At is when it was first observed.
	At time.Time
	// Last is the start of the last request that still returned it.
	Last time.Time
}

// Unexpected returns the observed weights, in order, that were not requested at that time. The weights in requested
// were requested one after the other. A place must not go back to an earlier one. It may skip a weight.
func Unexpected(requested, seen []int) []int {
	var unexpected []int
	for i, position := range positions(requested, seen) {
		if position == unexpectedPosition {
			unexpected = append(unexpected, seen[i])
		}
	}
	return unexpected
}

// unexpectedPosition is the position of a weight that was not requested at that time.
const unexpectedPosition = -1

// positions returns the index in requested of each observed weight.
func positions(requested, seen []int) []int {
	indexes := make([]int, len(seen))
	at := 0
	for i, weight := range seen {
		next := at
		for next < len(requested) && requested[next] != weight {
			next++
		}
		if next == len(requested) {
			indexes[i] = unexpectedPosition
			continue
		}
		at, indexes[i] = next, next
	}
	return indexes
}
