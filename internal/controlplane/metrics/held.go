package metrics

import "maps"

// Held is how many requests of an object proxies hold for lack of an endpoint.
type Held struct {
	// Waiting are all that are held.
	Waiting int `json:"waiting"`
	// Counted are those of them that the proxies' counters have already.
	Counted int `json:"counted,omitempty"`
}

// After is the whole Report that r makes of the one before: r itself, unless it tells Held or changes alone. Then what was before is used up:
// its Objects are those of the result.
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

// News are the objects of which r says something else than the whole Report before, in no order and maybe more than once, by
// <namespace>/<name>. isOfAll says that it may be any object: a proxy comes, goes, or is heard no more.
func (r Report) News(before Report) (names []string, isOfAll bool) {
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

// withHeld is the Value with what all replicas hold of an object. A request is held at one replica, so
// whatever else is not known, none is counted twice.
func (v Value) withHeld(name string, reports []Report) Value {
	for _, report := range reports {
		held := report.Held[name]
		v.Held += held.Waiting
		v.Concurrency += float64(held.Waiting - held.Counted)
	}
	return v
}
