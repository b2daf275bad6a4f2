package peers

import (
	"maps"
	"net/netip"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Delta is what is new about one replica. All of it holds at once. The zero value is no news.
type Delta struct {
	// Objects are the digests of the models of the objects that the replica publishes, "" for one that
	// it does not publish any more.
	Objects map[model.Key]string
	// Proxies are the proxies that there is news of, by address.
	Proxies map[netip.Addr]Proxy
}

// Proxy is what is new about one proxy.
type Proxy struct {
	// Fleet is the fleet that its stream belongs to, or belonged to.
	Fleet model.Fleet
	// Gone says that it is not connected any more.
	Gone bool
	// Full says that what was told of it before is void. It has confirmed all objects of its fleet but
	// for what Answers say.
	Full bool
	// Answers are about objects of its fleet, as they are published now.
	Answers map[model.Key]Answer
}

// Answer is what a proxy has answered about an object.
type Answer struct {
	// Confirmed says that it has everything that the object depends on.
	Confirmed bool
	// Refusal is why it may have refused the object, "" when it has not refused anything.
	Refusal string
}

// IsEmpty says that nothing is new.
func (d Delta) IsEmpty() bool { return len(d.Objects) == 0 && len(d.Proxies) == 0 }

// with is the news of both, of which later came later. It may change d.
func (d Delta) with(later Delta) Delta {
	if d.Objects == nil {
		d.Objects, d.Proxies = map[model.Key]string{}, map[netip.Addr]Proxy{}
	}
	maps.Copy(d.Objects, later.Objects)
	for address, proxy := range later.Proxies {
		before, known := d.Proxies[address]
		if known && !proxy.Gone && !proxy.Full {
			maps.Copy(before.Answers, proxy.Answers)
			continue
		}
		answers := make(map[model.Key]Answer, len(proxy.Answers))
		maps.Copy(answers, proxy.Answers)
		proxy.Answers = answers
		d.Proxies[address] = proxy
	}
	return d
}

// State is what one replica has told, all Deltas together. It is not safe for concurrent use.
type State struct {
	digests map[model.Key]string
	proxies map[netip.Addr]*proxyState
}

// proxyState is what is known of one proxy.
type proxyState struct {
	fleet model.Fleet
	// missing are the objects that it has not confirmed, with why it may have refused each.
	missing map[model.Key]string
}

// newState returns the State of a replica that has told nothing.
func newState() *State {
	return &State{digests: map[model.Key]string{}, proxies: map[netip.Addr]*proxyState{}}
}

// Answer returns what the proxy with an address has answered about an object of a fleet whose model
// has a digest. connected is false when the replica has no such proxy.
func (s *State) Answer(
	address netip.Addr, fleet model.Fleet, object model.Key, digest string,
) (answer Answer, connected bool) {
	proxy, connected := s.proxies[address]
	if !connected || proxy.fleet != fleet || digest == "" || s.digests[object] != digest {
		return Answer{}, connected
	}
	refusal, isMissing := proxy.missing[object]
	return Answer{Confirmed: !isMissing, Refusal: refusal}, true
}

// apply takes note of a Delta and returns what of it is news. Of an object whose digest is new every
// Answer is. Of a proxy that is Gone the Fleet is filled in.
func (s *State) apply(d Delta) Delta {
	news := Delta{Objects: map[model.Key]string{}, Proxies: map[netip.Addr]Proxy{}}
	for object, digest := range d.Objects {
		if s.digests[object] == digest {
			continue
		}
		news.Objects[object], s.digests[object] = digest, digest
		if digest == "" {
			s.withdraw(object)
		}
	}
	for address, proxy := range d.Proxies {
		if update, isNews := s.applyProxy(address, proxy, news.Objects); isNews {
			news.Proxies[address] = update
		}
	}
	return news
}

// applyProxy is apply for one proxy. changed are the objects whose digest is new.
func (s *State) applyProxy(address netip.Addr, proxy Proxy, changed map[model.Key]string) (Proxy, bool) {
	is, known := s.proxies[address]
	switch {
	case proxy.Gone && !known, !known && !proxy.Full:
		return Proxy{}, false
	case proxy.Gone:
		delete(s.proxies, address)
		return Proxy{Fleet: is.fleet, Gone: true}, true
	case proxy.Full:
		is = &proxyState{fleet: proxy.Fleet, missing: map[model.Key]string{}}
		s.proxies[address] = is
	}
	news := Proxy{Fleet: is.fleet, Full: proxy.Full, Answers: map[model.Key]Answer{}}
	for object, answer := range proxy.Answers {
		refusal, isMissing := is.missing[object]
		_, isChanged := changed[object]
		if !isChanged && isMissing != answer.Confirmed && refusal == answer.Refusal {
			continue
		}
		if news.Answers[object] = answer; answer.Confirmed {
			if delete(is.missing, object); len(is.missing) == 0 {
				is.missing = map[model.Key]string{} // A map keeps the room that it once needed.
			}
		} else {
			is.missing[object] = answer.Refusal
		}
	}
	return news, proxy.Full || len(news.Answers) > 0
}

// withdraw forgets an object.
func (s *State) withdraw(object model.Key) {
	delete(s.digests, object)
	for _, proxy := range s.proxies {
		delete(proxy.missing, object)
	}
}

// snapshot is the State as the first Delta.
func (s *State) snapshot() Delta {
	all := Delta{Objects: maps.Clone(s.digests), Proxies: make(map[netip.Addr]Proxy, len(s.proxies))}
	for address, is := range s.proxies {
		answers := make(map[model.Key]Answer, len(is.missing))
		for object, refusal := range is.missing {
			answers[object] = Answer{Refusal: refusal}
		}
		all.Proxies[address] = Proxy{Fleet: is.fleet, Full: true, Answers: answers}
	}
	return all
}

// disconnected is the news that the State is void.
func (s *State) disconnected() Delta {
	gone := Delta{Proxies: make(map[netip.Addr]Proxy, len(s.proxies))}
	for address, is := range s.proxies {
		gone.Proxies[address] = Proxy{Fleet: is.fleet, Gone: true}
	}
	return gone
}

// entries counts what is kept: objects, proxies, and what these miss.
func (s *State) entries() int {
	count := len(s.digests) + len(s.proxies)
	for _, is := range s.proxies {
		count += len(is.missing)
	}
	return count
}
