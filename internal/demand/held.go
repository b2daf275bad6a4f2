package demand

import "github.com/kedify/argo-rollouts-plugin/internal/ir"

// Held is how many requests of an object proxies hold for lack of an endpoint.
type Held struct {
	// Waiting are all that are held.
	Waiting int `json:"waiting"`
	// Counted are those of them that the proxies' counters have already.
	Counted int `json:"counted,omitempty"`
}

// After is the Report that r, which tells Held alone, makes of the one before; r itself when it tells all.
func (r Report) After(before Report) Report {
	if !r.HeldOnly {
		return r
	}
	before.Held = r.Held
	return before
}

// withHeld is the Value with what all replicas hold of an object. A request is held at one replica, so
// whatever else is not known, none is counted twice.
func (v Value) withHeld(key ir.Key, reports []Report) Value {
	for _, report := range reports {
		held := report.Held[key.String()]
		v.Held += held.Waiting
		v.Concurrency += float64(held.Waiting - held.Counted)
	}
	return v
}
