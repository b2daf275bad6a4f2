package metrics

import "time"

// maxBuckets bounds a ring: a granularity finer than this part of the window is made coarser.
const maxBuckets = 60

// bucketWidth is the length of the buckets in which the requests of a Spec are counted.
func (s Spec) bucketWidth() time.Duration {
	return max(s.Granularity, (s.Window+maxBuckets-1)/maxBuckets)
}

// ring counts requests in buckets of time. Times are since the beginning of the Meter, and never negative.
// Its length is fixed; what is older than the window is overwritten.
type ring struct {
	width  time.Duration
	newest int64 // number of the newest bucket, whose time begins at newest × width
	counts []float64
}

// newRing returns an empty ring for a Spec. It holds the window, the bucket that is being filled and
// the one that the window begins in.
func newRing(spec Spec) *ring {
	width := spec.bucketWidth()
	return &ring{width: width, counts: make([]float64, (spec.Window+width-1)/width+1)}
}

// add spreads requests evenly over the time from one instant to another.
func (r *ring) add(from, to time.Duration, requests float64) {
	first, last := int64(from/r.width), int64(to/r.width)
	r.advance(last)
	if to <= from {
		r.put(last, requests)
		return
	}
	for bucket := max(first, last-int64(len(r.counts))+1); bucket <= last; bucket++ {
		begin, end := time.Duration(bucket)*r.width, time.Duration(bucket+1)*r.width
		part := min(end, to) - max(begin, from)
		r.put(bucket, requests*float64(part)/float64(to-from))
	}
}

// put adds to one bucket, if the ring still has it.
func (r *ring) put(bucket int64, requests float64) {
	if bucket > r.newest-int64(len(r.counts)) && bucket >= 0 {
		r.counts[bucket%int64(len(r.counts))] += requests
	}
}

// advance makes room for a bucket, and forgets those that it replaces.
func (r *ring) advance(bucket int64) {
	for cleared := 0; r.newest < bucket; r.newest++ {
		if cleared++; cleared > len(r.counts) {
			r.newest = bucket
			return
		}
		r.counts[(r.newest+1)%int64(len(r.counts))] = 0
	}
}

// sum counts the requests of the buckets from the one that an instant is in.
func (r *ring) sum(from time.Duration) float64 {
	var requests float64
	first := max(int64(from/r.width), r.newest-int64(len(r.counts))+1, 0)
	for bucket := first; bucket <= r.newest; bucket++ {
		requests += r.counts[bucket%int64(len(r.counts))]
	}
	return requests
}

// span is a stretch of time.
type span struct{ from, to time.Duration }

// maxSpans bounds how many gaps a coverage remembers.
const maxSpans = 64

// coverage is the time of which a proxy's requests are known.
type coverage struct {
	spans   []span        // oldest first
	horizon time.Duration // before it nothing is known any more
}

// add makes a stretch known, which is later than all that is. What ended before oldest is forgotten.
func (c *coverage) add(from, to, oldest time.Duration) {
	if last := len(c.spans) - 1; last >= 0 && c.spans[last].to == from {
		c.spans[last].to = to
		return
	}
	for len(c.spans) > 0 && (c.spans[0].to < oldest || len(c.spans) == maxSpans) {
		c.horizon, c.spans = c.spans[0].to, c.spans[1:]
	}
	c.spans = append(c.spans, span{from, to})
}

// retract makes the time after an instant unknown again.
func (c *coverage) retract(from time.Duration) {
	for i := range c.spans {
		c.spans[i].to = max(c.spans[i].from, min(c.spans[i].to, from))
	}
}

// since is how much is known of the time after an instant.
func (c *coverage) since(from time.Duration) time.Duration {
	var known time.Duration
	for _, each := range c.spans {
		known += max(0, each.to-max(each.from, from))
	}
	return known
}
