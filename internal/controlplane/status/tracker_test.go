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

// randomProxies are proxies with random ACKs, and the changes since the last Poll.
type randomProxies struct {
	*proxies

	random  *rand.Rand
	changes map[string]map[string]map[string]struct{} // by peer, type URL and name
}

// set sets an ACK or NACK and records it as a change.
func (a *randomProxies) set(peer, typeURL, name string, ack status.ResourceAck) {
	a.setAck(peer, typeURL, name, ack)
	if a.changes[peer] == nil {
		a.changes[peer] = map[string]map[string]struct{}{}
	}
	if a.changes[peer][typeURL] == nil {
		a.changes[peer][typeURL] = map[string]struct{}{}
	}
	a.changes[peer][typeURL][name] = struct{}{}
}

// step makes a random change.
func (a *randomProxies) step() {
	peer := fmt.Sprintf("10.0.0.%d:%d", a.random.IntN(3), a.random.IntN(2))
	switch choice := a.random.IntN(12); {
	case choice == 0:
		delete(a.streams, peer)
		delete(a.numbers, peer)
		delete(a.changes, peer)
	case a.streams[peer] == nil:
		a.numbers[peer] = uint64(a.random.Uint32())
		a.streams[peer] = map[string]map[string]status.ResourceAck{
			resourcev3.ScopedRouteType: {}, resourcev3.ClusterType: {}, resourcev3.EndpointType: {},
		}
	default:
		typeURL := []string{
			resourcev3.ClusterType, resourcev3.EndpointType,
			resourcev3.ScopedRouteType,
		}[a.random.IntN(3)]
		for _, name := range slices.Sorted(maps.Keys(a.published[typeURL])) {
			if a.random.IntN(2) > 0 {
				continue
			}
			var ack status.ResourceAck
			switch a.random.IntN(8) {
			case 0: // It is in flight.
			case 1:
				ack = status.ResourceAck{Nacked: a.published[typeURL][name], Message: "bad " + name}
			default:
				ack = status.ResourceAck{Acked: a.published[typeURL][name]}
			}
			a.set(peer, typeURL, name, ack)
		}
	}
}

// randomSplit returns a Config of up to three objects at random weights. Two of them share a scope.
func randomSplit(random *rand.Rand) (config model.Config) {
	config.Services = map[model.ServicePort]model.Endpoints{}
	for i := range 3 {
		weight := random.Uint32N(3)
		if random.IntN(6) == 0 {
			continue
		}
		name := fmt.Sprint("shop-", i)
		route := model.Route{
			Owner: model.Key{Namespace: "apps", Name: name}, Fleet: "apps",
			Match: model.Match{Host: model.Host(name + ".test"), PathPrefix: "/"},
		}
		if i > 0 {
			route.Match.Host = model.Host("*." + name + ".test")
		}
		for service, share := range []uint32{3 - weight, weight} {
			backend := model.Backend{
				Service: model.Key{Namespace: "apps", Name: fmt.Sprint(name, "-", service)},
				Port:    80, Weight: share, Protocol: model.HTTP1,
			}
			route.Backends = append(route.Backends, backend)
			config.Services[backend.ServicePort()] = ready("10.1.0.1")
		}
		config.Routes = append(config.Routes, route)
	}
	return config
}

// TestChangesEqualFullComparison applies random publications and answers to an AckTracker. Its answers must equal those
// of a new AckTracker.
func TestChangesEqualFullComparison(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 5))
		source := &randomProxies{
			proxies: newProxies(), random: random,
			changes: map[string]map[string]map[string]struct{}{},
		}
		incremental := &replica{source.proxies, status.NewAckTracker(), peers.NewServer(nil, nil), nil}
		for step := range 60 {
			if step == 0 || random.IntN(4) == 0 {
				config := randomSplit(random)
				source.publish(config)
				for name := range source.published[resourcev3.EndpointType] {
					source.published[resourcev3.EndpointType][name] = fmt.Sprint("e", random.IntN(2))
				}
				all := publications(config)
				changed := maps.Clone(all)
				for key := range incremental.known {
					if _, isThere := all[key]; !isThere {
						changed[key] = status.Publication{}
					}
				}
				incremental.known = all
				incremental.tracker.Record(changed, source.Versions())
			} else {
				source.step()
			}
			incremental.server.Apply(incremental.tracker.Changes(source.Poll()))
			full := &replica{source.proxies, status.NewAckTracker(), peers.NewServer(nil, nil), incremental.known}
			full.tracker.Record(full.known, source.Versions())
			full.sync()
			if diff := cmp.Diff(full.table(), incremental.table()); diff != "" {
				t.Fatalf("seed %d, step %d: answers (-full +changes):\n%s", seed, step, diff)
			}
		}
	}
}

// Poll implements status.Source. It returns the changes since the last call.
func (a *randomProxies) Poll() []status.Stream {
	var streams []status.Stream
	for peer := range a.streams {
		stream, changes := a.stream(peer), a.changes[peer]
		stream.changed = func(typeURL string) iter.Seq[string] { return maps.Keys(changes[typeURL]) }
		streams = append(streams, stream)
	}
	a.changes = map[string]map[string]map[string]struct{}{}
	return streams
}

// table returns the ACKs of all proxies about all objects.
func (r *replica) table() map[string]peers.Ack {
	out := map[string]peers.Ack{}
	for i := range 3 {
		for key := range r.known {
			address := fmt.Sprint("10.0.0.", i)
			if ack, connected := r.ackOf(address, key); connected {
				out[address+" "+key.Name] = ack
			}
		}
	}
	return out
}
