package metrics

import "maps"

// Queued is the number of requests of an object that wait for a ready endpoint.
type Queued struct {
	// Waiting is the number of all of them.
	Waiting int `json:"waiting"`
	// Counted is the number of those that the counters of proxies include.
	Counted int `json:"counted,omitempty"`
}

// ApplyTo returns the whole Report after r: r itself, or, if r contains only changes, before with these changes. The
// result then shares its Objects with before, which must not be used any more.
func (r Report) ApplyTo(before Report) Report {
	switch {
	case r.QueuedOnly:
		before.Queued = r.Queued
	case r.ChangesOnly:
		before.Queued, before.Connections = r.Queued, r.Connections
		if r.Fleets != nil {
			before.Fleets = r.Fleets
		}
		if before.Objects == nil {
			before.Objects = make(map[string]ObjectReport, len(r.Objects))
		}
		maps.Copy(before.Objects, r.Objects)
		for _, name := range r.Gone {
			delete(before.Objects, name)
		}
	default:
		return r
	}
	return before
}

// Diff returns the names, as <namespace>/<name>, of the objects for which r differs from the whole Report before, in no
// order and possibly repeated. isAny is true if any object may be affected, because a proxy was added, removed or lost.
func (r Report) Diff(before Report) (names []string, isAny bool) {
	for name, queued := range r.Queued {
		if queued != before.Queued[name] {
			names = append(names, name)
		}
	}
	for name := range before.Queued {
		if _, ok := r.Queued[name]; !ok {
			names = append(names, name)
		}
	}
	if r.QueuedOnly {
		return names, false
	}
	if isUnchanged := maps.EqualFunc(
		r.Fleets, before.Fleets, FleetReport.equal,
	); !isUnchanged && (r.Fleets != nil || !r.ChangesOnly) {
		return nil, true
	}
	for name, object := range r.Objects {
		if last, ok := before.Objects[name]; !ok || !object.equal(last) {
			names = append(names, name)
		}
	}
	if r.ChangesOnly {
		return append(names, r.Gone...), false
	}
	for name := range before.Objects {
		if _, ok := r.Objects[name]; !ok {
			names = append(names, name)
		}
	}
	return names, false
}

// withQueued returns the Value with the queued requests of an object at all replicas. A request is queued at one
// replica, so none is counted twice, whatever else is unknown.
func (v Value) withQueued(name string, reports []Report) Value {
	for _, report := range reports {
		queued := report.Queued[name]
		v.Queued += queued.Waiting
		v.Concurrency += float64(queued.Waiting - queued.Counted)
	}
	return v
}
