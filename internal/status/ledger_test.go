package status_test

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/status"
)

// answers are what proxies answer at random, with what is new since the last look.
type answers struct {
	*proxies

	random *rand.Rand
	news   map[string]map[string]map[string]struct{} // by peer, type URL and name
}

// set has a proxy answer, and takes note of it.
func (a *answers) set(peer, typeURL, name string, is status.Confirmation) {
	a.answer(peer, typeURL, name, is)
	if a.news[peer] == nil {
		a.news[peer] = map[string]map[string]struct{}{}
	}
	if a.news[peer][typeURL] == nil {
		a.news[peer][typeURL] = map[string]struct{}{}
	}
	a.news[peer][typeURL][name] = struct{}{}
}

// step lets anything happen.
func (a *answers) step() {
	peer := fmt.Sprintf("10.0.0.%d:%d", a.random.IntN(3), a.random.IntN(2))
	switch dice := a.random.IntN(12); {
	case dice == 0:
		delete(a.streams, peer)
		delete(a.numbers, peer)
		delete(a.news, peer)
	case a.streams[peer] == nil:
		a.numbers[peer] = uint64(a.random.Uint32())
		a.streams[peer] = map[string]map[string]status.Confirmation{
			resourcev3.ScopedRouteType: {}, resourcev3.ClusterType: {}, resourcev3.EndpointType: {},
		}
	default:
		typeURL := []string{resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ScopedRouteType}[a.random.IntN(3)]
		for _, name := range slices.Sorted(maps.Keys(a.published[typeURL])) {
			if a.random.IntN(2) > 0 {
				continue
			}
			is := status.Confirmation{Acked: a.published[typeURL][name], InSync: a.random.IntN(8) > 0}
			if a.random.IntN(8) == 0 {
				is = status.Confirmation{Nacked: is.Acked, Message: "bad " + name}
			}
			a.set(peer, typeURL, name, is)
		}
	}
}

// randomSplit is a Config of some of three objects at a few weights. Two of them share a scope.
func randomSplit(random *rand.Rand) (config ir.Config) {
	config.Services = map[ir.ServicePort]ir.Endpoints{}
	for i := range 3 {
		weight := random.Uint32N(3)
		if random.IntN(6) == 0 {
			continue
		}
		name := fmt.Sprint("shop-", i)
		route := ir.Route{Owner: ir.Key{Namespace: "apps", Name: name}, Match: ir.Match{Host: ir.Host(name + ".test"), PathPrefix: "/"}}
		if i > 0 {
			route.Match.Host = ir.Host("*." + name + ".test")
		}
		for service, share := range []uint32{3 - weight, weight} {
			backend := ir.Backend{Service: ir.Key{Namespace: "apps", Name: fmt.Sprint(name, "-", service)}, Port: 80, Weight: share, Protocol: ir.HTTP1}
			route.Backends = append(route.Backends, backend)
			config.Services[backend.ServicePort()] = ready("10.1.0.1")
		}
		config.Routes = append(config.Routes, route)
	}
	return config
}

// TestLooksAtTheNewsAddUpToLooksAtAll plays random publications and answers to two ledgers. One is told what is new and the other looks at everything; they
// have to tell the same, and the first has to name every object for which that is new.
func TestLooksAtTheNewsAddUpToLooksAtAll(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 5))
		source := &answers{proxies: newProxies(), random: random, news: map[string]map[string]map[string]struct{}{}}
		byNews, byAll := status.NewLedger(), status.NewLedger()
		var before map[ir.Key]status.Part
		for step := range 60 {
			if step == 0 || random.IntN(4) == 0 {
				config := randomSplit(random)
				source.publish(config)
				for name := range source.published[resourcev3.EndpointType] {
					source.published[resourcev3.EndpointType][name] = fmt.Sprint("e", random.IntN(2))
				}
				parts := source.parts(config)
				changed := map[ir.Key]status.Part{}
				for key, part := range parts {
					if before[key].Digest != part.Digest || random.IntN(2) == 0 {
						changed[key] = part
					}
				}
				for key := range before {
					if parts[key].Digest == "" {
						changed[key] = status.Part{}
					}
				}
				byNews.Record(changed)
				byAll.Record(changed)
				before = parts
			} else {
				source.step()
			}
			source.compare(t, byNews, byAll)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}

// compare has both ledgers look at every proxy.
func (a *answers) compare(t *testing.T, byNews, byAll *status.Ledger) {
	t.Helper()
	was := standings(byNews.Acks("a"))
	told, open := map[string]struct{}{}, map[uint64]struct{}{}
	a.Poll(func(stream status.Stream) {
		open[stream.Number] = struct{}{}
		byAll.Look(stream)
		news := a.news[stream.Peer]
		stream.Changed = func(typeURL string) iter.Seq[string] { return maps.Keys(news[typeURL]) }
		for key := range byNews.Look(stream) {
			told[key.String()] = struct{}{}
		}
	})
	a.news = map[string]map[string]map[string]struct{}{}
	isNew := byNews.Keep(open)
	byAll.Keep(open)
	got := byNews.Acks("a")
	if diff := cmp.Diff(byAll.Acks("a"), got, cmp.Comparer(func(x, y netip.Addr) bool { return x == y })); diff != "" {
		t.Errorf("acks (-all +news):\n%s", diff)
	}
	is := standings(got)
	for object, standing := range is {
		if _, named := told[object]; !named && !isNew && was[object] != "" && len(was) == len(is) && was[object] != standing {
			t.Errorf("%s stood at %q and now at %q, and nobody was told", object, was[object], standing)
		}
	}
}

// standings say for each object which proxies have it.
func standings(acks status.Acks) map[string]string {
	out := map[string]string{}
	for place, object := range acks.Objects {
		var text strings.Builder
		text.WriteString(object.Digest)
		for _, proxy := range acks.Proxies {
			isBehind := slices.ContainsFunc(proxy.Behind, func(r status.Range) bool { return r[0] <= place && place <= r[1] })
			fmt.Fprint(&text, " ", proxy.Address, " ", isBehind)
		}
		out[object.Name] = text.String()
	}
	return out
}
