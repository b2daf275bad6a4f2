package metrics

import (
	"maps"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Report is what one replica tells others, in JSON.
type Report struct {
	// Replica is the replica's name.
	Replica string `json:"replica"`
	// Fleets are those that have a proxy or an object.
	Fleets map[model.Fleet]FleetReport `json:"fleets"`
	// Objects are the figures by <namespace>/<name>. They are of the proxies that this replica hears.
	Objects map[string]ObjectReport `json:"objects"`
	// Held are the requests that are held, by <namespace>/<name>, of objects that have any.
	Held map[string]Held `json:"held,omitempty"`
	// HeldOnly says that nothing but Held is told, and the rest is as it was in the Report before.
	HeldOnly bool `json:"heldOnly,omitempty"`
	// ChangesOnly says that Objects are those that have changed since the Report before, and Gone those of it that are no more; and
	// that Fleets, if there are none, are as they were.
	ChangesOnly bool     `json:"changesOnly,omitempty"`
	Gone        []string `json:"gone,omitempty"`
}

// FleetReport says which proxies of a fleet there are, by their names, sorted.
type FleetReport struct {
	// Serving are those that take requests, be they about to go away, whoever hears them.
	Serving []string `json:"serving,omitempty"`
	// Heard are those that this replica hears.
	Heard []string `json:"heard,omitempty"`
}

// ObjectReport is what the proxies that a replica hears say of one object.
type ObjectReport struct {
	// Fleet is the fleet that serves the object; ExternalFleet with an external key.
	Fleet model.Fleet `json:"fleet"`
	// Metric is the measure that decides, and Target its value per replica of the workload.
	Metric Metric `json:"metric"`
	Target int    `json:"target"`
	// RequestRate is requests per second over the window, Concurrency requests in flight.
	RequestRate float64 `json:"requestRate"`
	Concurrency float64 `json:"concurrency"`
	// Past are further requests per second over the window: of proxies that serve no more and that this
	// replica hears no more, by their names. Who hears such a proxy has them in its RequestRate.
	Past map[string]float64 `json:"past,omitempty"`
	// Backends are what the Services that share the object's requests were asked in the last minute, by
	// their names. They are absent where there is but one.
	Backends map[string]Totals `json:"backends,omitempty"`
	// Unpaced are the proxies that are heard, but not long enough to tell a rate, sorted.
	Unpaced []string `json:"unpaced,omitempty"`
	// Problem says why the object has no demand whatever proxies say, "" usually.
	Problem string `json:"problem,omitempty"`
}

// Report is what is known now.
func (m *Meter) Report(now time.Time, replica string) Report {
	whole := Report{Replica: replica}
	m.Changes(now, &whole)
	return whole
}

// Changes is what is known now and was not in the Report last, which is whole before and afterwards. Who asks each second has no garbage of
// what stays as it is.
func (m *Meter) Changes(now time.Time, last *Report) Report {
	at := m.at(now)
	m.prune(now)
	changes := Report{Replica: last.Replica, ChangesOnly: true}
	fleets, active := m.fleetReports(at)
	if !maps.EqualFunc(fleets, last.Fleets, FleetReport.equal) {
		last.Fleets, changes.Fleets = fleets, fleets
	}
	if last.Objects == nil {
		last.Objects = make(map[string]ObjectReport, len(m.objects))
	}
	for key, o := range m.objects {
		is := m.objectReport(at, key, o, active[key])
		if was, has := last.Objects[o.name]; has && is.equal(was) {
			continue
		}
		last.Objects[o.name] = is
		if changes.Objects == nil {
			changes.Objects = map[string]ObjectReport{}
		}
		changes.Objects[o.name] = is
	}
	if len(last.Objects) > len(m.objects) {
		changes.Gone = m.forgotten(last.Objects)
	}
	return changes
}

// forgotten takes the objects that are no more out of those of a Report, and returns them, sorted.
func (m *Meter) forgotten(from map[string]ObjectReport) (gone []string) {
	known := make(map[string]bool, len(m.objects))
	for _, o := range m.objects {
		known[o.name] = true
	}
	maps.DeleteFunc(from, func(name string, _ ObjectReport) bool {
		if !known[name] {
			gone = append(gone, name)
		}
		return !known[name]
	})
	slices.Sort(gone)
	return gone
}

// fleetReports are the reports of the fleets, and the requests in flight of those objects that have any. What is too old for any window goes.
func (m *Meter) fleetReports(at time.Duration) (reports map[model.Fleet]FleetReport, active map[model.Key]float64) {
	reports, active = make(map[model.Fleet]FleetReport, len(m.fleets)), map[model.Key]float64{}
	for fleet, proxies := range m.fleets {
		var f FleetReport
		for _, name := range slices.Sorted(maps.Keys(proxies)) {
			p := proxies[name]
			if p.serves {
				f.Serving = append(f.Serving, name)
			}
			if p.stream.isFresh(at) {
				f.Heard = append(f.Heard, name)
				p.stream.addActive(active)
				p.sweep(p.stream.last)
			} else {
				p.sweep(at)
			}
		}
		reports[fleet] = f
	}
	return reports, active
}

// equal says whether both say the same.
func (f FleetReport) equal(other FleetReport) bool {
	return slices.Equal(f.Serving, other.Serving) && slices.Equal(f.Heard, other.Heard)
}

// equal says whether both say the same.
func (o *ObjectReport) equal(other ObjectReport) bool {
	return o.Fleet == other.Fleet && o.Metric == other.Metric && o.Target == other.Target && o.RequestRate == other.RequestRate &&
		o.Concurrency == other.Concurrency && o.Problem == other.Problem && maps.Equal(o.Past, other.Past) &&
		maps.Equal(o.Backends, other.Backends) && slices.Equal(o.Unpaced, other.Unpaced)
}

// objectReport is the report of one object.
func (m *Meter) objectReport(at time.Duration, key model.Key, o *object, active float64) ObjectReport {
	out := ObjectReport{
		Fleet: o.Fleet, Metric: o.Spec.Metric, Target: o.Spec.Target, Concurrency: active, Problem: o.SpecError,
	}
	if external := o.Spec.ExternalKey; external != "" {
		out.Fleet = ExternalFleet
		if owner, _ := m.ownerOfKey(external); owner != key {
			out.Problem = "external key " + external + " is that of HTTPScaledObject " + owner.String()
		}
	}
	m.addRates(&out, at, key, o)
	if len(o.Services) > 1 {
		out.Backends = make(map[string]Totals, len(o.Services))
		for _, service := range o.Services {
			out.Backends[service] = o.recent[service].sum(at)
		}
	}
	return out
}

// addRates adds the request rate of an object by what proxies say, and which of them say too little.
//
// A proxy that is heard counts with the rate of the time that is known, for as long as it exists. One that
// neither is heard nor serves any more counts with the requests that it had, unless another replica hears it.
// One that serves and is not heard is left to others.
func (m *Meter) addRates(out *ObjectReport, at time.Duration, key model.Key, o *object) {
	from := min(max((at-o.Spec.Window).Truncate(o.Spec.bucketWidth()), o.since, 0), at)
	length := max(at-from, 1).Seconds()
	for _, p := range m.fleets[out.Fleet] {
		switch {
		case p.stream.isFresh(at):
			each, isKnown := p.rate(key, o)
			if !isKnown && p.serves {
				out.Unpaced = append(out.Unpaced, p.name)
			}
			out.RequestRate += each * (at - max(from, min(p.since, at))).Seconds() / length
		case !p.serves:
			if each, _ := p.requests(key, from); each > 0 {
				if out.Past == nil {
					out.Past = map[string]float64{}
				}
				out.Past[p.name] = each / length
			}
		}
	}
	slices.Sort(out.Unpaced)
}

// rate is the request rate of an object at a proxy, over the window before its last flush: since then nothing is
// known. It is false when nothing of the window is.
func (p *proxy) rate(key model.Key, o *object) (rate float64, isKnown bool) {
	from := max((p.stream.last - o.Spec.Window).Truncate(o.Spec.bucketWidth()), o.since, 0)
	requests, known := p.requests(key, from)
	if known == 0 {
		return 0, false
	}
	return requests / known.Seconds(), true
}

// requests is how many requests of an object a proxy has had since an instant, in so much time.
func (p *proxy) requests(key model.Key, from time.Duration) (requests float64, known time.Duration) {
	from = max(from, p.covered.horizon)
	if r := p.rings[key]; r != nil {
		requests = r.sum(from)
	}
	return requests, p.covered.since(from)
}

// sweep forgets rings in which no request is left in the windows before an instant.
func (p *proxy) sweep(at time.Duration) {
	maps.DeleteFunc(p.rings, func(_ model.Key, r *ring) bool {
		return int64(at/r.width)-r.newest > int64(len(r.counts))
	})
}
