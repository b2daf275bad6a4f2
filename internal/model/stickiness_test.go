package model_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
)

// canaryWorld is a Route with a stable backend, a canary, experiments, and which of the latter have endpoints.
type canaryWorld struct {
	backends []model.Backend
	services map[model.ServicePort]model.Endpoints
}

// newCanaryWorld returns backends that all have an endpoint. The weights are those of stable, canary and experiments.
func newCanaryWorld(weights ...uint32) canaryWorld {
	world := canaryWorld{services: map[model.ServicePort]model.Endpoints{}}
	for i, weight := range weights {
		backend := model.Backend{
			Service: model.Key{Namespace: "a", Name: fmt.Sprintf("s%d", i)}, Port: 80, Weight: weight, Protocol: model.HTTP1,
		}
		world.backends = append(world.backends, backend)
		world.setReady(i, true)
	}
	return world
}

// setReady gives a backend an endpoint, or takes it away.
func (w canaryWorld) setReady(i int, isReady bool) {
	endpoints := model.Endpoints{}
	if isReady {
		endpoints.Ready = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80")}
	}
	w.services[w.backends[i].ServicePort()] = endpoints
}

// sides returns the backend of each hash value below the sum of the weights, as Envoy selects it.
func (w canaryWorld) sides() []int {
	var sides []int
	for _, part := range model.StickyRanges(w.backends, w.services) {
		for range part.Weight {
			sides = append(sides, part.Backend)
		}
	}
	return sides
}

func TestStickyRanges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		weights  []uint32
		notReady int // a backend, 0 for none
		want     []model.Range
	}{
		"canary":            {[]uint32{80, 20}, 0, []model.Range{{0, 80}, {1, 20}}},
		"without it":        {[]uint32{80, 20}, 1, []model.Range{{0, 80}, {0, 20}}},
		"one at zero":       {[]uint32{100, 0}, 0, []model.Range{{0, 100}, {1, 0}}},
		"at zero, gone":     {[]uint32{100, 0}, 1, []model.Range{{0, 100}, {1, 0}}},
		"full weight, gone": {[]uint32{0, 100}, 1, []model.Range{{0, 0}, {1, 100}}},
		"a single backend":  {[]uint32{100}, 0, []model.Range{{0, 100}}},
		"experiments":       {[]uint32{65, 20, 10, 5}, 0, []model.Range{{0, 65}, {2, 10}, {3, 5}, {1, 20}}},
		"without one":       {[]uint32{65, 20, 10, 5}, 2, []model.Range{{0, 65}, {0, 10}, {3, 5}, {1, 20}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			world := newCanaryWorld(test.weights...)
			if test.notReady > 0 {
				world.setReady(test.notReady, false)
			}
			if diff := cmp.Diff(test.want, model.StickyRanges(world.backends, world.services)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestStickyRangesHaveEffectiveWeights: each backend has ranges with exactly its effective weight.
func TestStickyRangesHaveEffectiveWeights(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		world := randomCanary(random)
		got := make([]uint32, len(world.backends))
		for _, part := range model.StickyRanges(world.backends, world.services) {
			got[part.Backend] += part.Weight
		}
		if diff := cmp.Diff(model.EffectiveWeights(world.backends, world.services), got); diff != "" {
			t.Fatalf("%+v (-effective +ranges):\n%s", world, diff)
		}
	}
}

// TestStickyRangesAreMonotone plays random sequences of weights: no client moves except as the changed weights require.
func TestStickyRangesAreMonotone(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		world := randomCanary(random)
		for i := range world.backends {
			world.setReady(i, true)
		}
		before := world.sides()
		for range 20 {
			change := randomChange(random, world)
			after := world.sides()
			checkMoves(t, change, before, after)
			before = after
		}
	}
}

// checkMoves checks that each client that changed its backend moved as this change of the world allows.
func checkMoves(t *testing.T, change string, before, after []int) {
	t.Helper()
	for hash := range before {
		from, to := before[hash], after[hash]
		isAllowed := from == to
		switch change {
		case "canary grows":
			isAllowed = isAllowed || from != 1
		case "canary shrinks":
			isAllowed = isAllowed || to != 1
		case "experiment":
			isAllowed = isAllowed || from != 1 && to != 1
		case "endpoints", "endpoints of several":
			isAllowed = isAllowed || from == 0 || to == 0
		}
		if !isAllowed {
			t.Fatalf("%s: the clients with hash %d moved from backend %d to %d", change, hash, from, to)
		}
	}
}

// randomCanary returns a world with 2 to 5 backends, whose weights have the sum 100.
func randomCanary(random *rand.Rand) canaryWorld {
	weights := make([]uint32, 2+random.IntN(4))
	rest := uint32(100)
	for i := 1; i < len(weights); i++ {
		weights[i] = random.Uint32N(rest + 1)
		rest -= weights[i]
	}
	weights[0] = rest
	world := newCanaryWorld(weights...)
	for i := range weights {
		world.setReady(i, random.IntN(3) > 0)
	}
	return world
}

// randomChange changes one thing and returns what: the weight of the canary, that of an experiment, or the endpoints of
// one of them. The stable backend has what is left of the weights.
func randomChange(random *rand.Rand, world canaryWorld) string {
	backends := world.backends
	set := func(i int) (before, after uint32) {
		before = backends[i].Weight
		backends[i].Weight = random.Uint32N(backends[0].Weight + before + 1)
		backends[0].Weight += before
		backends[0].Weight -= backends[i].Weight
		return before, backends[i].Weight
	}
	switch {
	case random.IntN(4) == 0:
		i := 1 + random.IntN(len(backends)-1)
		world.setReady(i, len(world.services[backends[i].ServicePort()].Ready) == 0)
		return "endpoints"
	case len(backends) > 2 && random.IntN(3) == 0:
		change := "experiment"
		for i := range backends { // Without endpoints, the clients of the canary may be on the stable backend.
			if len(world.services[backends[i].ServicePort()].Ready) == 0 {
				world.setReady(i, true)
				change = "endpoints of several"
			}
		}
		if change == "experiment" {
			set(2 + random.IntN(len(backends)-2))
		}
		return change
	default:
		before, after := set(1)
		if after > before {
			return "canary grows"
		}
		return "canary shrinks"
	}
}

func TestSplitKey(t *testing.T) {
	t.Parallel()
	user, address := affinity.Key{Header: "x-user"}, affinity.Key{SourceAddress: true}
	two, one := newCanaryWorld(80, 20).backends, newCanaryWorld(100).backends
	for name, test := range map[string]struct {
		route model.Route
		want  affinity.Key
	}{
		"none":                   {model.Route{Backends: two}, affinity.Key{}},
		"stickiness":             {model.Route{Backends: two, Stickiness: user}, user},
		"affinity implies it":    {model.Route{Backends: two, Affinity: address}, address},
		"its own key":            {model.Route{Backends: two, Stickiness: user, Affinity: address}, user},
		"nothing to decide":      {model.Route{Backends: one, Stickiness: user, Affinity: address}, affinity.Key{}},
		"an incomplete document": {model.Route{Affinity: address}, affinity.Key{}},
	} {
		if got := test.route.SplitKey(); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
