package status_test

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// randomProxies are what proxies answer at random, with what is new since the last look.
type randomProxies struct {
	*proxies

	random *rand.Rand
	changes   map[string]map[string]map[string]struct{} // by peer, type URL and name
}

// set has a proxy answer, and takes note of it.
func (a *randomProxies) set(peer, typeURL, name string, is status.Confirmation) {
	a.answer(peer, typeURL, name, is)
	if a.changes[peer] == nil {
		a.changes[peer] = map[string]map[string]struct{}{}
	}
	if a.changes[peer][typeURL] == nil {
		a.changes[peer][typeURL] = map[string]struct{}{}
	}
	a.changes[peer][typeURL][name] = struct{}{}
}

// step lets anything happen.
func (a *randomProxies) step() {
	peer := fmt.Sprintf("10.0.0.%d:%d", a.random.IntN(3), a.random.IntN(2))
	switch dice := a.random.IntN(12); {
	case dice == 0:
		delete(a.streams, peer)
		delete(a.numbers, peer)
		delete(a.changes, peer)
	case a.streams[peer] == nil:
		a.numbers[peer] = uint64(a.random.Uint32())
		a.streams[peer] = map[string]map[string]status.Confirmation{
			resourcev3.ScopedRouteType: {}, resourcev3.ClusterType: {}, resourcev3.EndpointType: {},
		}
	default:
		typeURL := []string{resourcev3.ClusterType, resourcev3.EndpointType,
			resourcev3.ScopedRouteType}[a.random.IntN(3)]
		for _, name := range slices.Sorted(maps.Keys(a.published[typeURL])) {
			if a.random.IntN(2) > 0 {
				continue
			}
			var is status.Confirmation
			switch a.random.IntN(8) {
			case 0: // It is under way.
			case 1:
				is = status.Confirmation{Nacked: a.published[typeURL][name], Message: "bad " + name}
			default:
				is = status.Confirmation{Acked: a.published[typeURL][name]}
			}
			a.set(peer, typeURL, name, is)
		}
	}
}

// randomSplit is a Config of some of three objects at a few weights. Two of them share a scope.
func randomSplit(random *rand.Rand) (config model.Config) {
	config.Services = map[model.ServicePort]model.Endpoints{}
	for i := range 3 {
		weight := random.Uint32N(3)
		if random.IntN(6) == 0 {
			continue
		}
		name := fmt.Sprint("shop-", i)
		route := model.Route{Owner: model.Key{Namespace: "apps", Name: name}, Fleet: "apps",
			Match: model.Match{Host: model.Host(name + ".test"), PathPrefix: "/"}}
		if i > 0 {
			route.Match.Host = model.Host("*." + name + ".test")
		}
		for service, share := range []uint32{3 - weight, weight} {
			backend := model.Backend{Service: model.Key{Namespace: "apps", Name: fmt.Sprint(name, "-", service)},
				Port: 80, Weight: share, Protocol: model.HTTP1}
			route.Backends = append(route.Backends, backend)
			config.Services[backend.ServicePort()] = ready("10.1.0.1")
		}
		config.Routes = append(config.Routes, route)
	}
	return config
}

// TestChangesEqualFullComparison plays random publications and answers to a tracker that is told
// what is new, and wants it to know what one does that sees everything for the first time.
func TestChangesEqualFullComparison(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 5))
		source := &randomProxies{proxies: newProxies(), random: random, changes: map[string]map[string]map[string]struct{}{}}
		byNews := &replica{source.proxies, status.NewAckTracker(), peers.NewServer(), nil}
		for step := range 60 {
			if step == 0 || random.IntN(4) == 0 {
				config := randomSplit(random)
				source.publish(config)
				for name := range source.published[resourcev3.EndpointType] {
					source.published[resourcev3.EndpointType][name] = fmt.Sprint("e", random.IntN(2))
				}
				all := publications(config)
				changed := maps.Clone(all)
				for key := range byNews.known {
					if _, isThere := all[key]; !isThere {
						changed[key] = status.Publication{}
					}
				}
				byNews.known = all
				byNews.tracker.Record(changed, source.Versions())
			} else {
				source.step()
			}
			byNews.server.Apply(byNews.tracker.Changes(source.Poll()))
			byAll := &replica{source.proxies, status.NewAckTracker(), peers.NewServer(), byNews.known}
			byAll.tracker.Record(byAll.known, source.Versions())
			byAll.sync()
			if diff := cmp.Diff(byAll.table(), byNews.table()); diff != "" {
				t.Fatalf("seed %d, step %d: answers (-all +news):\n%s", seed, step, diff)
			}
		}
	}
}

// Poll is status.Source's, with what is new since the last time.
func (a *randomProxies) Poll() []status.Stream {
	var streams []status.Stream
	for peer := range a.streams {
		each, news := a.stream(peer), a.changes[peer]
		each.changed = func(typeURL string) iter.Seq[string] { return maps.Keys(news[typeURL]) }
		streams = append(streams, each)
	}
	a.changes = map[string]map[string]map[string]struct{}{}
	return streams
}

// table is what every proxy has answered about every object.
func (r *replica) table() map[string]peers.Answer {
	out := map[string]peers.Answer{}
	for i := range 3 {
		for key := range r.known {
			address := fmt.Sprint("10.0.0.", i)
			if answer, connected := r.answerOf(address, key); connected {
				out[address+" "+key.Name] = answer
			}
		}
	}
	return out
}
