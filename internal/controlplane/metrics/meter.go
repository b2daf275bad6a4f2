package metrics

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// ExternalFleet is the Fleet of proxies that are in none: those of others, which report the clusters
// that an ExternalKey names. No namespace has this name.
const ExternalFleet model.Fleet = "(external)"

// Object is what a Meter has to know of an HTTPScaledObject.
type Object struct {
	// Fleet is the fleet that serves it.
	Fleet model.Fleet
	// Spec is its Spec, and SpecError says what is wrong with it, "" for nothing.
	Spec      Spec
	SpecError string
	// Services are the names of its backends, each in its namespace.
	Services []string
	// Created is when it was created.
	Created time.Time
}

// object is an Object with what the Meter keeps.
type object struct {
	Object

	name   string             // <namespace>/<name>
	since  time.Duration      // before it nothing was counted
	totals map[string]*Totals // of the Services that were asked; nil for none
	recent map[string]*recent // of those Services that were asked, where requests are shared between several; else nil
}

// Totals count what one backend of an object was asked.
type Totals struct {
	// Requests were sent to the backend, and Errors of them were answered with 500 to 599.
	Requests float64 `json:"requests"`
	Errors   float64 `json:"errors"`
	// Times are how long it took to answer.
	Times Times `json:"times"`
}

// add adds what was counted elsewhere, or at another time.
func (t *Totals) add(more *Totals) {
	t.Requests += more.Requests
	t.Errors += more.Errors
	t.Times.add(&more.Times)
}

// proxy is a proxy with what is known of its requests, over all its streams.
type proxy struct {
	name    string
	serves  bool          // takes requests, be it about to go away
	isGone  bool          // is no proxy of the fleet any more
	since   time.Duration // when it was first seen in the fleet
	stream  *Stream       // the latest one; nil before the first
	times   []int64       // of the last flushes, by the proxy's clock
	covered coverage
	rings   map[model.Key]*ring
}

// Meter is what one replica knows of the demand. It is not safe for concurrent use. Make it with NewMeter.
type Meter struct {
	began   time.Time
	objects map[model.Key]*object
	keys    map[string][]model.Key // objects by their ExternalKey, the oldest first
	fleets  map[model.Fleet]map[string]*proxy
	version int // of objects and keys: another one with each change
}

// NewMeter returns a Meter that knows of no object and no proxy. All later times are measured from now.
func NewMeter(now time.Time) *Meter {
	return &Meter{
		began: now, objects: map[model.Key]*object{}, keys: map[string][]model.Key{},
		fleets: map[model.Fleet]map[string]*proxy{},
	}
}

// at is the time since the Meter began.
func (m *Meter) at(now time.Time) time.Duration { return max(0, now.Sub(m.began)) }

// SetObject makes an object known, or changes it. Its request rate begins anew when the window, the
// granularity, the fleet or the external key is another one. Of several objects with one ExternalKey, the
// oldest one has it; the others are told in their Reports.
func (m *Meter) SetObject(now time.Time, key model.Key, desired Object) {
	m.version++
	known := m.objects[key]
	if known == nil || !known.countsLike(desired) {
		anew := &object{name: key.String(), since: m.at(now)}
		if known != nil {
			anew.totals, anew.recent = known.totals, known.recent
			m.RemoveObject(key)
		}
		known = anew
		m.objects[key] = known
	}
	known.Object = desired
	maps.DeleteFunc(known.totals, func(service string, _ *Totals) bool {
		return !slices.Contains(desired.Services, service)
	})
	known.forget()
	m.claim(key, desired.Spec.ExternalKey)
}

// forget drops what is kept of Services that share the object's requests no more.
func (o *object) forget() {
	maps.DeleteFunc(o.recent, func(service string, _ *recent) bool { return !o.shares(service) })
}

// shares says whether a Service is one of several that the object's requests go to.
func (o *object) shares(service string) bool {
	return len(o.Services) > 1 && slices.Contains(o.Services, service)
}

// countsLike says that requests are counted for both in the same way.
func (o *object) countsLike(other Object) bool {
	return o.Fleet == other.Fleet && o.Spec.Window == other.Spec.Window &&
		o.Spec.Granularity == other.Spec.Granularity && o.Spec.ExternalKey == other.Spec.ExternalKey
}

// RemoveObject forgets an object.
func (m *Meter) RemoveObject(key model.Key) {
	m.version++
	if gone := m.objects[key]; gone != nil && gone.Spec.ExternalKey != "" {
		external := gone.Spec.ExternalKey
		m.keys[external] = slices.DeleteFunc(m.keys[external], func(each model.Key) bool { return each == key })
		if len(m.keys[external]) == 0 {
			delete(m.keys, external)
		}
	}
	delete(m.objects, key)
	for _, proxies := range m.fleets {
		for _, p := range proxies {
			delete(p.rings, key)
		}
	}
}

// claim enters an object among those that have its ExternalKey, the oldest first.
func (m *Meter) claim(key model.Key, external string) {
	if external == "" || slices.Contains(m.keys[external], key) {
		return
	}
	m.keys[external] = append(m.keys[external], key)
	slices.SortFunc(m.keys[external], func(a, b model.Key) int {
		return cmp.Or(m.objects[a].Created.Compare(m.objects[b].Created), a.Compare(b))
	})
}

// ownerOfKey is the object that has an external key.
func (m *Meter) ownerOfKey(external string) (owner model.Key, isKnown bool) {
	if claimants := m.keys[external]; len(claimants) > 0 {
		return claimants[0], true
	}
	return model.Key{}, false
}

// ExternalKeys are the objects by the external key that they have.
func (m *Meter) ExternalKeys() map[string]model.Key {
	owners := make(map[string]model.Key, len(m.keys))
	for external, claimants := range m.keys {
		owners[external] = claimants[0]
	}
	return owners
}

// HasExternalKeys says whether any object has one.
func (m *Meter) HasExternalKeys() bool { return len(m.keys) > 0 }

// SetProxies says which proxies each fleet has.
func (m *Meter) SetProxies(now time.Time, fleets map[model.Fleet][]model.Proxy) {
	for fleet, known := range m.fleets {
		if fleet == ExternalFleet {
			continue
		}
		for _, p := range known {
			p.isGone = !slices.ContainsFunc(fleets[fleet], func(each model.Proxy) bool { return each.Name == p.name })
			if p.isGone {
				p.serves = false
			}
		}
	}
	for fleet, proxies := range fleets {
		for _, each := range proxies {
			m.proxy(now, fleet, each.Name).serves = each.IsServing
		}
	}
	m.prune(now)
}

// proxy returns a proxy of a fleet, and makes it known if need be.
func (m *Meter) proxy(now time.Time, fleet model.Fleet, name string) *proxy {
	if m.fleets[fleet] == nil {
		m.fleets[fleet] = map[string]*proxy{}
	}
	p := m.fleets[fleet][name]
	if p == nil {
		p = &proxy{name: name, since: m.at(now), rings: map[model.Key]*ring{}}
		m.fleets[fleet][name] = p
	}
	p.isGone = false
	return p
}

// prune forgets proxies that are gone when no window has them any more.
func (m *Meter) prune(now time.Time) {
	for fleet, proxies := range m.fleets {
		maps.DeleteFunc(proxies, func(_ string, p *proxy) bool {
			return p.isGone && (p.stream == nil || p.stream.isEnded && m.at(now)-p.stream.last > maxWindow)
		})
		if len(proxies) == 0 {
			delete(m.fleets, fleet)
		}
	}
}

// EachBackend visits what every backend of every object was asked since this replica knows of it, nil while none of the object's was asked at all.
// The backends that no object has any more are not among them.
func (m *Meter) EachBackend(visit func(key model.Key, service string, totals *Totals)) {
	for key, o := range m.objects {
		for _, service := range o.Services {
			var totals *Totals
			if len(o.totals) > 0 {
				asked := *cmp.Or(o.totals[service], new(Totals))
				totals = &asked
			}
			visit(key, service, totals)
		}
	}
}

// count adds to what a backend was asked until an instant, if the object has it. Most proxies say of most backends that there was nothing: that is not kept.
func (o *object) count(at time.Duration, service string, more Totals) {
	if more == (Totals{}) || !slices.Contains(o.Services, service) {
		return
	}
	if o.shares(service) {
		if o.recent == nil {
			o.recent = make(map[string]*recent, len(o.Services))
		}
		if o.recent[service] == nil {
			o.recent[service] = new(recent)
		}
		o.recent[service].add(at, &more)
	}
	if o.totals == nil {
		o.totals = make(map[string]*Totals, len(o.Services))
	}
	if o.totals[service] == nil {
		o.totals[service] = new(Totals)
	}
	o.totals[service].add(&more)
}
