package router_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/routertest"
)

// TestSharesAddUpToTheMaximum is a property: whatever is asked for, either it is refused or nothing is lost and nothing is shared twice.
func TestSharesAddUpToTheMaximum(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	limits := []int32{1, 10, 100, 1000, math.MaxInt32}
	refused := 0
	for range 5000 {
		limit := limits[random.IntN(len(limits))]
		rollout := routertest.Rollout("test/none", "")
		rollout.Spec.Strategy.Canary.TrafficRouting.MaxTrafficWeight = &limit
		weight := random.Int32N(limit)
		others := make([]v1alpha1.WeightDestination, random.IntN(4))
		for i := range others {
			others[i] = v1alpha1.WeightDestination{ServiceName: "try", Weight: random.Int32N(limit/2 + 1)}
		}

		shares, err := router.SharesOf(rollout, weight, others)

		asked := int64(weight)
		for _, other := range others {
			asked += int64(other.Weight)
		}
		if (err != nil) != (asked > int64(limit)) {
			t.Fatalf("%d of %d asked for: %v", asked, limit, err)
		}
		if err != nil {
			refused++
			continue
		}
		sum := int64(shares.Stable.Weight) + int64(shares.Canary.Weight)
		for _, other := range shares.Others {
			sum += int64(other.Weight)
		}
		if sum != int64(limit) || int64(shares.Canary.Weight) != int64(weight) || shares.Idle() != (asked == 0) {
			t.Fatalf("weight %d and %v of %d give %+v", weight, others, limit, shares)
		}
	}
	if refused == 0 {
		t.Error("the generator never asked for too much")
	}
}
