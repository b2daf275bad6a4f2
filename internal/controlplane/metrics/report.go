package metrics

import (
	"maps"
	"slices"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Report is what one replica reports, in JSON.
type Report struct {
	// Replica is the name of the replica.
	Replica string `json:"replica"`
	// Fleets are those with a proxy or an object.
	Fleets map[model.Fleet]FleetReport `json:"fleets"`
	// Objects are the counts by <namespace>/<name>, from the proxies that report to this replica.
	Objects map[string]ObjectReport `json:"objects"`
	// Connections are the numbers of connections with clients, by fleet, of the proxies that report to this replica. A
	// fleet without any is missing.
	Connections map[model.Fleet]float64 `json:"connections,omitempty"`
	// Queued are the queued requests of objects that have any, by <namespace>/<name>.
	Queued map[string]Queued `json:"held,omitempty"`
	// QueuedOnly means that the Report contains only Queued. The rest is unchanged since the Report before.
	QueuedOnly bool `json:"heldOnly,omitempty"`
	// ChangesOnly means that Objects contains only the objects that have changed since the Report before, and Gone
	// those that were removed. Fleets is nil if it is unchanged. Connections is always whole.
	ChangesOnly bool     `json:"changesOnly,omitempty"`
	Gone        []string `json:"gone,omitempty"`
}

// FleetReport lists proxies of a fleet by their names, sorted.
type FleetReport struct {
	// Serving are those that accept requests, including draining ones, whichever replica they report to.
	Serving []string `json:"serving,omitempty"`
	// Reporting are those that report to this replica.
	Reporting []string `json:"heard,omitempty"`
}

// ObjectReport contains the counts of one object, from the proxies that report to this replica.
type ObjectReport struct {
	// Fleet is the fleet that serves the object; that of the external proxies of its namespace if it has an external
	// key.
	Fleet model.Fleet `json:"fleet"`
	// Metric is the metric that the object scales by, and Target its value per replica of the workload.
	Metric Metric `json:"metric"`
	Target int    `json:"target"`
	// RateTarget is as in Spec.
	RateTarget int `json:"rateTarget,omitempty"`
	// RequestRate is requests per second over the window, and Concurrency the number of active requests.
	RequestRate float64 `json:"requestRate"`
	Concurrency float64 `json:"concurrency"`
	// Past are further requests per second over the window, by proxy: of those that neither serve nor report to this
	// replica any more. If such a proxy reports to another replica, they are in the RequestRate there.
	Past map[string]float64 `json:"past,omitempty"`
	// Backends are the totals of the last minute, by the names of the Services that the object's requests are split
	// between. It is empty if there is only one.
	Backends map[string]Totals `json:"backends,omitempty"`
	// Warming are the proxies that have not reported for long enough to have a rate, sorted.
	Warming []string `json:"unpaced,omitempty"`
	// Problem is a reason why the demand is unknown that does not depend on proxies, usually "".
	Problem string `json:"problem,omitempty"`
}

// Report returns the current Report.
func (m *Meter) Report(now time.Time, replica string) Report {
	whole := Report{Replica: replica}
	m.Changes(now, &whole)
	return whole
}

// Changes returns what has changed since the whole Report last, and updates last. It allocates only for what has
// changed, so that a call each second creates little garbage.
func (m *Meter) Changes(now time.Time, last *Report) Report {
	at := m.at(now)
	m.prune(now)
	fleets, active := m.fleetReports(at)
	last.Connections = m.connections(at)
	changes := Report{Replica: last.Replica, ChangesOnly: true, Connections: last.Connections}
	if !maps.EqualFunc(fleets, last.Fleets, FleetReport.equal) {
		last.Fleets, changes.Fleets = fleets, fleets
	}
	if last.Objects == nil {
		last.Objects = make(map[string]ObjectReport, len(m.objects))
	}
	for key, o := range m.objects {
		report := m.objectReport(at, key, o, active[key])
		if before, ok := last.Objects[o.name]; ok && report.equal(before) {
			continue
		}
		last.Objects[o.name] = report
		if changes.Objects == nil {
			changes.Objects = map[string]ObjectReport{}
		}
		changes.Objects[o.name] = report
	}
	if len(last.Objects) > len(m.objects) {
		changes.Gone = m.removeDeleted(last.Objects)
	}
	return changes
}

// removeDeleted removes deleted objects from those of a Report, and returns their names, sorted.
func (m *Meter) removeDeleted(from map[string]ObjectReport) (deleted []string) {
	exists := make(map[string]bool, len(m.objects))
	for _, o := range m.objects {
		exists[o.name] = true
	}
	maps.DeleteFunc(from, func(name string, _ ObjectReport) bool {
		if !exists[name] {
			deleted = append(deleted, name)
		}
		return !exists[name]
	})
	slices.Sort(deleted)
	return deleted
}

// fleetReports returns the reports of the fleets, and the active requests of objects that have any. It drops rings that
// are outside of every window.
func (m *Meter) fleetReports(at time.Duration) (reports map[model.Fleet]FleetReport, active map[model.Key]float64) {
	reports, active = make(map[model.Fleet]FleetReport, len(m.fleets)), map[model.Key]float64{}
	for fleet, proxies := range m.fleets {
		if fleet == ExternalFleet {
			m.addExternalReports(at, reports, active)
			continue
		}
		var f FleetReport
		for _, name := range slices.Sorted(maps.Keys(proxies)) {
			p := proxies[name]
			if p.isServing {
				f.Serving = append(f.Serving, name)
			}
			if p.stream.isFresh(at) {
				f.Reporting = append(f.Reporting, name)
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

// connections returns the numbers of connections with clients, by fleet.
func (m *Meter) connections(at time.Duration) map[model.Fleet]float64 {
	var connections map[model.Fleet]float64
	for fleet, proxies := range m.fleets {
		sum := 0.0
		for _, p := range proxies {
			if p.stream.isFresh(at) {
				sum += p.stream.activeConnections()
			}
		}
		if sum > 0 && fleet != ExternalFleet {
			if connections == nil {
				connections = make(map[model.Fleet]float64, len(m.fleets))
			}
			connections[fleet] = sum
		}
	}
	return connections
}

// addExternalReports adds the reports of the external proxies, by namespace, and their active requests.
func (m *Meter) addExternalReports(
	at time.Duration, reports map[model.Fleet]FleetReport, active map[model.Key]float64,
) {
	proxies := m.fleets[ExternalFleet]
	for _, name := range slices.Sorted(maps.Keys(proxies)) {
		p, sweepAt := proxies[name], at
		isFresh := p.stream.isFresh(at)
		if isFresh {
			p.stream.addActive(active)
			sweepAt = p.stream.last
		}
		p.sweep(sweepAt)
		for namespace := range p.namespaces {
			f := reports[externalFleet(namespace)]
			f.Serving = append(f.Serving, name)
			if isFresh {
				f.Reporting = append(f.Reporting, name)
			}
			reports[externalFleet(namespace)] = f
		}
	}
}

// equal reports whether both are equal.
func (f FleetReport) equal(other FleetReport) bool {
	return slices.Equal(f.Serving, other.Serving) && slices.Equal(f.Reporting, other.Reporting)
}

// equal reports whether both are equal.
func (o *ObjectReport) equal(other ObjectReport) bool {
	return o.Fleet == other.Fleet && o.Metric == other.Metric && o.Target == other.Target &&
		o.RateTarget == other.RateTarget &&
		o.RequestRate == other.RequestRate &&
		o.Concurrency == other.Concurrency && o.Problem == other.Problem && maps.Equal(o.Past, other.Past) &&
		maps.Equal(o.Backends, other.Backends) && slices.Equal(o.Warming, other.Warming)
}

// objectReport returns the report of one object.
func (m *Meter) objectReport(at time.Duration, key model.Key, o *object, active float64) ObjectReport {
	out := ObjectReport{
		Fleet: o.Fleet, Metric: o.Spec.Metric, Target: o.Spec.Target, RateTarget: o.Spec.RateTarget, Concurrency: active,
		Problem: o.SpecError,
	}
	if external := o.Spec.ExternalKey; external != "" {
		out.Fleet = externalFleet(key.Namespace)
		if owner, _ := m.ownerOfKey(key.Namespace, external); owner != key && o.SpecError == "" {
			out.Problem = "external key " + external + " belongs to " + owner.String()
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

// addRates adds the request rate of an object over all proxies, and the proxies without a rate.
//
// A proxy that reports counts with the rate of its covered time, for the time since it was added. A proxy that neither
// reports nor serves any more counts with its requests in the window, unless it reports to another replica. A proxy
// that serves without reporting is left to other replicas.
func (m *Meter) addRates(out *ObjectReport, at time.Duration, key model.Key, o *object) {
	from := min(max((at-o.Spec.Window).Truncate(o.Spec.bucketWidth()), o.since, 0), at)
	length := max(at-from, 1).Seconds()
	fleet := out.Fleet
	if o.Spec.ExternalKey != "" {
		fleet = ExternalFleet
	}
	for _, p := range m.fleets[fleet] {
		isServing := p.serves(key, o)
		switch {
		case p.stream.isFresh(at):
			rate, isKnown := p.rate(key, o)
			if !isKnown && isServing {
				out.Warming = append(out.Warming, p.name)
			}
			out.RequestRate += rate * (at - max(from, min(p.since, at))).Seconds() / length
		case !isServing:
			if requests, _ := p.requests(key, from); requests > 0 {
				if out.Past == nil {
					out.Past = map[string]float64{}
				}
				out.Past[p.name] = requests / length
			}
		}
	}
	slices.Sort(out.Warming)
}

// rate returns the request rate of an object at a proxy, over the window before its last flush: later requests are not
// yet reported. isKnown is false if none of the window is covered.
func (p *proxy) rate(key model.Key, o *object) (rate float64, isKnown bool) {
	from := max((p.stream.last - o.Spec.Window).Truncate(o.Spec.bucketWidth()), o.since, 0)
	requests, covered := p.requests(key, from)
	if covered == 0 {
		return 0, false
	}
	return requests / covered.Seconds(), true
}

// requests returns the number of requests of an object at a proxy since from, and the covered time.
func (p *proxy) requests(key model.Key, from time.Duration) (requests float64, covered time.Duration) {
	from = max(from, p.covered.horizon)
	if r := p.rings[key]; r != nil {
		requests = r.sum(from)
	}
	return requests, p.covered.since(from)
}

// sweep drops rings without requests in the window before a time.
func (p *proxy) sweep(at time.Duration) {
	maps.DeleteFunc(p.rings, func(_ model.Key, r *ring) bool {
		return int64(at/r.width)-r.newest > int64(len(r.counts))
	})
}
