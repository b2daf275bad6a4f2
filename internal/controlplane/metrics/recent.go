package metrics

import "time"

// Recent totals are kept in time slices. The newest slice is being filled.
const (
	recentSlice  = 10 * time.Second
	recentSlices = 7
)

// recent contains the totals of a backend of about the last minute, at a resolution of one slice. An analysis must
// reflect current traffic.
type recent struct {
	newest int64 // number of the newest slice, which begins at newest × recentSlice
	slices [recentSlices]Totals
}

// add adds totals at a time.
func (r *recent) add(now time.Duration, more *Totals) {
	r.advance(now)
	r.slices[r.newest%recentSlices].add(more)
}

// sum returns the totals up to a time. It is zero for a nil receiver.
func (r *recent) sum(now time.Duration) (sum Totals) {
	if r == nil {
		return sum
	}
	r.advance(now)
	for i := range r.slices {
		sum.add(&r.slices[i])
	}
	return sum
}

// advance clears the slices that are too old at a time.
func (r *recent) advance(now time.Duration) {
	current := int64(now / recentSlice)
	for next := max(r.newest+1, current-recentSlices+1); next <= current; next++ {
		r.slices[next%recentSlices] = Totals{}
	}
	r.newest = max(r.newest, current)
}
