package trace

import (
	"math"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
)

// OtherSplit stands for a split that no weight of a canary from 0 to 100 stands for.
const OtherSplit = -1

// Pair names the two sides of a canary, in whatever way they are called at the
// place in question.
type Pair struct {
	Stable, Canary string
}

// AnnotationWeight is the canary's weight in percent that an annotation stands for:
// 0 without one, Foreign for any text but the router's own.
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

// EnvoyWeight is the canary's weight in percent by which Envoy shares requests, or
// Foreign.
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

// Observation is a weight that a place took on.
type Observation struct {
	// Weight is the canary's weight in percent, or Foreign.
	Weight int
	// At is when it was first seen.
	At time.Time
	// Last is when the last look began that still found it.
	Last time.Time
}

// Unexpected are those of the weights seen, in their order, that nobody asked for
// at that time: asked are the weights that were asked for one after the other,
// and whoever has come to one of them must not go back to one before it. A
// weight may be passed over.
func Unexpected(asked, seen []int) []int {
	var unexpected []int
	for i, position := range positions(asked, seen) {
		if position == unexpectedPosition {
			unexpected = append(unexpected, seen[i])
		}
	}
	return unexpected
}

// unexpectedPosition is the position of a weight that nobody asked for at that time.
const unexpectedPosition = -1

// positions are the places that the weights seen have among those asked for.
func positions(asked, seen []int) []int {
	indexes := make([]int, len(seen))
	at := 0
	for i, weight := range seen {
		next := at
		for next < len(asked) && asked[next] != weight {
			next++
		}
		if next == len(asked) {
			indexes[i] = unexpectedPosition
			continue
		}
		at, indexes[i] = next, next
	}
	return indexes
}
