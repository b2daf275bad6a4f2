package metrics

import "time"

// What a backend was asked lately is kept in slices of time. The last one is being filled.
const (
	recentSlice  = 10 * time.Second
	recentSlices = 7
)

// recent is what a backend was asked in the last minute, to a slice: what is judged of a version is what it
// does now, not what it did an hour ago.
type recent struct {
	newest int64 // number of the newest slice, which begins at newest × recentSlice
	slices [recentSlices]Totals
}

// add counts at an instant.
func (r *recent) add(at time.Duration, more *Totals) {
	r.advance(at)
	r.slices[r.newest%recentSlices].add(more)
}

// sum is what was counted until an instant; nothing for nil.
func (r *recent) sum(at time.Duration) (sum Totals) {
	if r == nil {
		return sum
	}
	r.advance(at)
	for i := range r.slices {
		sum.add(&r.slices[i])
	}
	return sum
}

// advance forgets what is older than the slices before an instant.
func (r *recent) advance(at time.Duration) {
	now := int64(at / recentSlice)
	for next := max(r.newest+1, now-recentSlices+1); next <= now; next++ {
		r.slices[next%recentSlices] = Totals{}
	}
	r.newest = max(r.newest, now)
}
