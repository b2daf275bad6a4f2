package peers

import (
	"maps"
	"net/netip"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Delta contains the changes of one replica, which apply together. The zero value is no change.
type Delta struct {
	// Objects are the digests of the models of published objects, "" for one that is no longer published.
	Objects map[model.Key]string
	// Proxies are the changed proxies, by address.
	Proxies map[netip.Addr]Proxy
}

// Proxy contains the changes of one proxy.
type Proxy struct {
	// Fleet is the fleet of its stream.
	Fleet model.Fleet
	// Gone means that the proxy has disconnected.
	Gone bool
	// Full means that earlier Acks are void: the proxy has ACKed all objects of its fleet except those in Acks.
	Full bool
	// Acks are about objects of its fleet, as they are published now.
	Acks map[model.Key]Ack
}

// Ack is the ACK or NACK of a proxy for an object.
type Ack struct {
	// Acked means that the proxy has ACKed all resources of the object.
	Acked bool
	// NackMessage is the message of a NACK that may concern the object, "" without one.
	NackMessage string
}

// IsEmpty reports whether the Delta contains no change.
func (d Delta) IsEmpty() bool { return len(d.Objects) == 0 && len(d.Proxies) == 0 }

// mergedWith merges a later Delta into d, and returns the result. It may change d.
func (d Delta) mergedWith(later Delta) Delta {
	if d.Objects == nil {
		d.Objects, d.Proxies = map[model.Key]string{}, map[netip.Addr]Proxy{}
	}
	maps.Copy(d.Objects, later.Objects)
	for address, proxy := range later.Proxies {
		before, isKnown := d.Proxies[address]
		if isKnown && !proxy.Gone && !proxy.Full {
			maps.Copy(before.Acks, proxy.Acks)
			continue
		}
		acks := make(map[model.Key]Ack, len(proxy.Acks))
		maps.Copy(acks, proxy.Acks)
		proxy.Acks = acks
		d.Proxies[address] = proxy
	}
	return d
}

// State is the state of one replica, the sum of its Deltas. It is not safe for concurrent use.
type State struct {
	digests map[model.Key]string
	proxies map[netip.Addr]*proxyState
}

// proxyState is the state of one proxy.
type proxyState struct {
	fleet model.Fleet
	// missing are the objects that it has not ACKed, with the reason of a NACK.
	missing map[model.Key]string
}

// newState returns an empty State.
func newState() *State {
	return &State{digests: map[model.Key]string{}, proxies: map[netip.Addr]*proxyState{}}
}

// Ack returns the ACK of the proxy with an address for an object of a fleet, if the object's model has the
// digest. connected is false if the replica has no such proxy.
func (s *State) Ack(
	address netip.Addr, fleet model.Fleet, object model.Key, digest string,
) (ack Ack, connected bool) {
	proxy, connected := s.proxies[address]
	if !connected || proxy.fleet != fleet || digest == "" || s.digests[object] != digest {
		return Ack{}, connected
	}
	refusal, isMissing := proxy.missing[object]
	return Ack{Acked: !isMissing, NackMessage: refusal}, true
}

// apply applies a Delta and returns the effective changes. They contain every Ack for an object with a new digest,
// and the Fleet of a proxy that is Gone.
func (s *State) apply(d Delta) Delta {
	changes := Delta{Objects: map[model.Key]string{}, Proxies: map[netip.Addr]Proxy{}}
	for object, digest := range d.Objects {
		if s.digests[object] == digest {
			continue
		}
		changes.Objects[object], s.digests[object] = digest, digest
		if digest == "" {
			s.removeObject(object)
		}
	}
	for address, proxy := range d.Proxies {
		if update, isChanged := s.applyProxy(address, proxy, changes.Objects); isChanged {
			changes.Proxies[address] = update
		}
	}
	return changes
}

// applyProxy is apply for one proxy. changed are the objects with a new digest.
func (s *State) applyProxy(address netip.Addr, proxy Proxy, changed map[model.Key]string) (Proxy, bool) {
	state, isKnown := s.proxies[address]
	switch {
	case proxy.Gone && !isKnown, !isKnown && !proxy.Full:
		return Proxy{}, false
	case proxy.Gone:
		delete(s.proxies, address)
		return Proxy{Fleet: state.fleet, Gone: true}, true
	case proxy.Full:
		state = &proxyState{fleet: proxy.Fleet, missing: map[model.Key]string{}}
		s.proxies[address] = state
	}
	changes := Proxy{Fleet: state.fleet, Full: proxy.Full, Acks: map[model.Key]Ack{}}
	for object, ack := range proxy.Acks {
		refusal, isMissing := state.missing[object]
		_, isChanged := changed[object]
		if !isChanged && isMissing != ack.Acked && refusal == ack.NackMessage {
			continue
		}
		if changes.Acks[object] = ack; ack.Acked {
			if delete(state.missing, object); len(state.missing) == 0 {
				state.missing = map[model.Key]string{} // A map never shrinks.
			}
		} else {
			state.missing[object] = ack.NackMessage
		}
	}
	return changes, proxy.Full || len(changes.Acks) > 0
}

// removeObject removes an object.
func (s *State) removeObject(object model.Key) {
	delete(s.digests, object)
	for _, proxy := range s.proxies {
		delete(proxy.missing, object)
	}
}

// snapshot returns the State as a Delta.
func (s *State) snapshot() Delta {
	all := Delta{Objects: maps.Clone(s.digests), Proxies: make(map[netip.Addr]Proxy, len(s.proxies))}
	for address, proxy := range s.proxies {
		acks := make(map[model.Key]Ack, len(proxy.missing))
		for object, refusal := range proxy.missing {
			acks[object] = Ack{NackMessage: refusal}
		}
		all.Proxies[address] = Proxy{Fleet: proxy.fleet, Full: true, Acks: acks}
	}
	return all
}

// disconnected returns the Delta that removes all proxies.
func (s *State) disconnected() Delta {
	removed := Delta{Proxies: make(map[netip.Addr]Proxy, len(s.proxies))}
	for address, proxy := range s.proxies {
		removed.Proxies[address] = Proxy{Fleet: proxy.fleet, Gone: true}
	}
	return removed
}

// entries returns the size of the State: objects, proxies and missing objects.
func (s *State) entries() int {
	count := len(s.digests) + len(s.proxies)
	for _, proxy := range s.proxies {
		count += len(proxy.missing)
	}
	return count
}
