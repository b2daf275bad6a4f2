package metrics

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/sources"
)

// ExternalFleet is the Fleet of the streams of external proxies, which report the clusters that external keys name. It
// is not a valid namespace name.
const ExternalFleet model.Fleet = "(external)"

// externalFleet returns the Fleet in Reports of the external proxies that report to the objects of a namespace.
func externalFleet(namespace string) model.Fleet { return ExternalFleet + " " + model.Fleet(namespace) }

// Object is the configuration of an HTTPScaledObject for a Meter.
type Object struct {
	// Fleet is the fleet that serves it.
	Fleet model.Fleet
	// Spec is its Spec, and SpecError its validation error, "" for none.
	Spec      Spec
	SpecError string
	// Services are the names of its backends, each in the object's namespace.
	Services []string
	// Created is the creation time of the object.
	Created time.Time
}

// object is an Object with its counts.
type object struct {
	Object

	name   string             // <namespace>/<name>
	since  time.Duration      // requests before it are not counted
	totals map[string]*Totals // by Service; nil without any
	recent map[string]*recent // by Service; nil unless requests are split between several
}

// Totals are the counts of one backend of an object.
type Totals struct {
	// Requests is the number of requests sent to the backend, and Errors the number of responses with status 500 to
	// 599.
	Requests float64 `json:"requests"`
	Errors   float64 `json:"errors"`
	// Times are the response times.
	Times Times `json:"times"`
}

// add adds other counts.
func (t *Totals) add(more *Totals) {
	t.Requests += more.Requests
	t.Errors += more.Errors
	t.Times.add(&more.Times)
}

// proxy is a proxy with its requests, over all its streams.
type proxy struct {
	name      string
	isServing bool // accepts requests, possibly while draining; false for an external proxy
	isRemoved bool // is no longer a proxy of the fleet
	// namespaces are those with an object whose external key the external proxy has reported since its stream started.
	namespaces map[string]struct{}
	since      time.Duration // when it was added to the fleet
	stream     *Stream       // the latest one; nil before the first
	times      []int64       // of the last flushes, from the proxy's clock
	covered    coverage
	rings      map[model.Key]*ring
}

// Meter contains the counts of one replica. It is not safe for concurrent use. Make it with NewMeter.
type Meter struct {
	began   time.Time
	objects map[model.Key]*object
	keys    map[string]map[string][]model.Key // objects by their ExternalKey and namespace, oldest first
	fleets  map[model.Fleet]map[string]*proxy
	// version changes with all that the attribution of a cluster to an object depends on: the objects, their fleets, and
	// their external keys and sources.
	version int
}

// NewMeter returns a Meter without objects and proxies. now is the start of all its times.
func NewMeter(now time.Time) *Meter {
	return &Meter{
		began: now, objects: map[model.Key]*object{}, keys: map[string]map[string][]model.Key{},
		fleets: map[model.Fleet]map[string]*proxy{},
	}
}

// at returns the time since the start of the Meter.
func (m *Meter) at(now time.Time) time.Duration { return max(0, now.Sub(m.began)) }

// SetObject adds or changes an object. A change of the window, the granularity, the fleet or the external key resets
// its request rate. Of several objects of a namespace with the same ExternalKey, the oldest one owns it; the Reports of
// the others contain a Problem. Objects of different namespaces count independently of each other.
func (m *Meter) SetObject(now time.Time, key model.Key, desired Object) {
	current := m.objects[key]
	isSame := current != nil && current.hasSameCounting(desired)
	if !isSame || !slices.Equal(current.Spec.ExternalSources, desired.Spec.ExternalSources) {
		m.version++
	}
	if !isSame {
		fresh := &object{name: key.String(), since: m.at(now)}
		if current != nil {
			fresh.totals, fresh.recent = current.totals, current.recent
			m.RemoveObject(key)
		}
		current = fresh
		m.objects[key] = current
	}
	current.Object = desired
	maps.DeleteFunc(current.totals, func(service string, _ *Totals) bool {
		return !slices.Contains(desired.Services, service)
	})
	current.pruneRecent()
	m.claimKey(key, desired.Spec.ExternalKey)
}

// pruneRecent removes the recent totals of Services that are no backends of a split any more.
func (o *object) pruneRecent() {
	maps.DeleteFunc(o.recent, func(service string, _ *recent) bool { return !o.isSplit(service) })
}

// isSplit reports whether a Service is one of several backends of the object.
func (o *object) isSplit(service string) bool {
	return len(o.Services) > 1 && slices.Contains(o.Services, service)
}

// hasSameCounting reports whether the object and other count requests alike.
func (o *object) hasSameCounting(other Object) bool {
	return o.Fleet == other.Fleet && o.Spec.Window == other.Spec.Window &&
		o.Spec.Granularity == other.Spec.Granularity && o.Spec.ExternalKey == other.Spec.ExternalKey
}

// RemoveObject removes an object and its counts.
func (m *Meter) RemoveObject(key model.Key) {
	m.version++
	if removed := m.objects[key]; removed != nil && removed.Spec.ExternalKey != "" {
		namespaces := m.keys[removed.Spec.ExternalKey]
		namespaces[key.Namespace] = slices.DeleteFunc(namespaces[key.Namespace],
			func(other model.Key) bool { return other == key })
		if len(namespaces[key.Namespace]) == 0 {
			delete(namespaces, key.Namespace)
		}
		if len(namespaces) == 0 {
			delete(m.keys, removed.Spec.ExternalKey)
		}
	}
	delete(m.objects, key)
	for _, proxies := range m.fleets {
		for _, p := range proxies {
			delete(p.rings, key)
		}
	}
}

// claimKey adds an object to those of its namespace with its ExternalKey, sorted by age.
func (m *Meter) claimKey(key model.Key, external string) {
	if external == "" || slices.Contains(m.keys[external][key.Namespace], key) {
		return
	}
	if m.keys[external] == nil {
		m.keys[external] = map[string][]model.Key{}
	}
	claimants := m.keys[external][key.Namespace]
	claimants = append(claimants, key)
	slices.SortFunc(claimants, func(a, b model.Key) int {
		return cmp.Or(m.objects[a].Created.Compare(m.objects[b].Created), a.Compare(b))
	})
	m.keys[external][key.Namespace] = claimants
}

// ownerOfKey returns the object of a namespace that owns an external key.
func (m *Meter) ownerOfKey(namespace, external string) (owner model.Key, isKnown bool) {
	if claimants := m.keys[external][namespace]; len(claimants) > 0 {
		return claimants[0], true
	}
	return model.Key{}, false
}

// ExternalKeys returns the owners of each external key, one for each namespace, sorted.
func (m *Meter) ExternalKeys() map[string][]model.Key {
	owners := make(map[string][]model.Key, len(m.keys))
	for external, namespaces := range m.keys {
		for _, claimants := range namespaces {
			owners[external] = append(owners[external], claimants[0])
		}
		slices.SortFunc(owners[external], model.Key.Compare)
	}
	return owners
}

// ExternalNamespaces returns the namespaces, sorted, with an object that counts the reports of an external proxy with
// this address.
func (m *Meter) ExternalNamespaces(address netip.Addr) []string {
	admitted := map[string]struct{}{}
	for _, namespaces := range m.keys {
		for namespace, claimants := range namespaces {
			if sources.Contain(m.objects[claimants[0]].Spec.ExternalSources, address) {
				admitted[namespace] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(admitted))
}

// SetProxies sets the proxies of all fleets.
func (m *Meter) SetProxies(now time.Time, fleets map[model.Fleet][]model.Proxy) {
	for fleet, tracked := range m.fleets {
		if fleet == ExternalFleet {
			continue
		}
		for _, p := range tracked {
			p.isRemoved = !slices.ContainsFunc(fleets[fleet], func(proxy model.Proxy) bool { return proxy.Name == p.name })
			if p.isRemoved {
				p.isServing = false
			}
		}
	}
	for fleet, proxies := range fleets {
		for _, proxy := range proxies {
			m.proxy(now, fleet, proxy.Name).isServing = proxy.IsServing
		}
	}
	m.prune(now)
}

// proxy returns a proxy of a fleet, and adds it if necessary.
func (m *Meter) proxy(now time.Time, fleet model.Fleet, name string) *proxy {
	if m.fleets[fleet] == nil {
		m.fleets[fleet] = map[string]*proxy{}
	}
	p := m.fleets[fleet][name]
	if p == nil {
		p = &proxy{name: name, since: m.at(now), rings: map[model.Key]*ring{}}
		m.fleets[fleet][name] = p
	}
	p.isRemoved = false
	return p
}

// serves reports whether a proxy serves requests of an object: one of its fleet, or an external proxy that reports to
// the object's namespace.
func (p *proxy) serves(key model.Key, o *object) bool {
	if o.Spec.ExternalKey == "" {
		return p.isServing
	}
	_, isReporting := p.namespaces[key.Namespace]
	return isReporting
}

// prune deletes removed proxies that are outside of every window.
func (m *Meter) prune(now time.Time) {
	for fleet, proxies := range m.fleets {
		maps.DeleteFunc(proxies, func(_ string, p *proxy) bool {
			return p.isRemoved && (p.stream == nil || p.stream.isEnded && m.at(now)-p.stream.last > maxWindow)
		})
		if len(proxies) == 0 {
			delete(m.fleets, fleet)
		}
	}
}

// VisitBackends calls visit for each backend of each object, with its totals since this replica has had the object.
// totals is nil until any backend of the object has counts.
func (m *Meter) VisitBackends(visit func(key model.Key, service string, totals *Totals)) {
	for key, o := range m.objects {
		for _, service := range o.Services {
			var totals *Totals
			if len(o.totals) > 0 {
				sum := *cmp.Or(o.totals[service], new(Totals))
				totals = &sum
			}
			visit(key, service, totals)
		}
	}
}

// count adds totals to a backend at a time, if it is a backend of the object. It ignores zero totals, which most
// proxies report for most backends.
func (o *object) count(at time.Duration, service string, more Totals) {
	if more == (Totals{}) || !slices.Contains(o.Services, service) {
		return
	}
	if o.isSplit(service) {
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
