package metrics

import "maps"

// Queued is the number of requests of an object that wait for a ready endpoint.
type Held struct {
	// Waiting is the number of all of them.
	Waiting int `json:"waiting"`
	// Counted is the number of those that the counters of proxies include.
	Counted int `json:"counted,omitempty"`
}

// ApplyTo returns the whole Report after r: r itself, or, if r contains only changes, before with these changes. The
// result then shares its Objects with before, which must not be used any more.
func (r Report) After(before Report) Report {
	switch {
	case r.HeldOnly:
		before.Held = r.Held
	case r.ChangesOnly:
		before.Held = r.Held
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
func (r Report) News(before Report) (names []string, isAny bool) {
	for name, held := range r.Held {
		if held != before.Held[name] {
			names = append(names, name)
		}
	}
	for name := range before.Held {
		if _, is := r.Held[name]; !is {
			names = append(names, name)
		}
	}
	if r.HeldOnly {
		return names, false
	}
	if isSame := maps.EqualFunc(r.Fleets, before.Fleets, FleetReport.equal); !isSame && (r.Fleets != nil || !r.ChangesOnly) {
		return nil, true
	}
	for name, object := range r.Objects {
		if known, has := before.Objects[name]; !has || !object.equal(known) {
			names = append(names, name)
		}
	}
	if r.ChangesOnly {
		return append(names, r.Gone...), false
	}
	for name := range before.Objects {
		if _, is := r.Objects[name]; !is {
			names = append(names, name)
		}
	}
	return names, false
}

// withQueued returns the Value with the queued requests of an object at all replicas. A request is queued at one
// replica, so none is counted twice, whatever else is unknown.
func (v Value) withHeld(name string, reports []Report) Value {
	for _, report := range reports {
		held := report.Held[name]
		v.Held += held.Waiting
		v.Concurrency += float64(held.Waiting - held.Counted)
	}
	return v
}
