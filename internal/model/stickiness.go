package model

import "github.com/kedify/argo-rollouts-plugin/internal/model/affinity"

// SplitKey returns the part of a request that decides which backend receives it. The zero value means that each request
// is decided on its own. Affinity to an endpoint needs affinity to a backend, so it implies Stickiness.
func (r Route) SplitKey() affinity.Key {
	switch {
	case len(r.Backends) <= 1: // There is nothing to decide.
		return affinity.Key{}
	case r.Stickiness.IsZero():
		return r.Affinity
	}
	return r.Stickiness
}

// Range is a part of the hash values, modulo the sum of all weights, and the backend that receives its requests.
type Range struct {
	// Backend is an index in Route.Backends.
	Backend int
	// Weight is the number of values.
	Weight uint32
}

// StickyRanges returns the ranges of hash values in ascending order, from 0. Their weights have the sum of the desired
// weights. The stable backend, the first one, has the first range, the canary, the second one, has the last range, and
// experiments are between them. So while the sum stays the same:
//
//   - If the canary's weight grows, requests move to the canary, and none moves away from it. If it shrinks, requests
//     move away from the canary, and none moves to it.
//   - If only weights of experiments change, the requests of the canary stay.
//
// A backend whose weight goes to the stable one (EffectiveWeights) keeps its range, and the stable backend receives the
// requests of this range: no other request moves.
func StickyRanges(backends []Backend, services map[ServicePort]Endpoints) []Range {
	effective := EffectiveWeights(backends, services)
	ranges := make([]Range, len(backends))
	for i, backend := range backends {
		at := i - 1 // of an experiment
		switch i {
		case 0:
			at = 0
		case 1:
			at = len(backends) - 1
		}
		ranges[at] = Range{Backend: i, Weight: backend.Weight}
		if backend.Weight > 0 && effective[i] == 0 {
			ranges[at].Backend = 0
		}
	}
	return ranges
}

// Cookies returns the cookies that responses of the Route set for clients without them. No two have the same name.
func (r Route) Cookies() []affinity.Cookie {
	cookies := r.AffinityCookies()
	if key := r.SplitKey(); key.HasCookie() && key.Cookie.Name != r.Affinity.Cookie.Name {
		cookies = append(cookies, key.Cookie)
	}
	return cookies
}

// AffinityCookies returns those of Cookies that decide which endpoint receives a request.
func (r Route) AffinityCookies() []affinity.Cookie {
	if r.Affinity.HasCookie() {
		return []affinity.Cookie{r.Affinity.Cookie}
	}
	return nil
}
