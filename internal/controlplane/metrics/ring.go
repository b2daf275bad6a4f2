package metrics

import "time"

// maxBuckets limits the buckets of a window: a finer granularity is made coarser.
const maxBuckets = 60

// bucketWidth returns the length of the buckets in which the requests of a Spec are counted.
func (s *Spec) bucketWidth() time.Duration {
	return max(s.Granularity, (s.Window+maxBuckets-1)/maxBuckets)
}

// ring counts requests in time buckets. Times are relative to the start of the Meter, and never negative. Its length is
// fixed; counts older than the window are overwritten.
type ring struct {
	width  time.Duration
	newest int64 // number of the newest bucket, which begins at newest × width
	counts []float64
}

// newRing returns an empty ring for a Spec. It covers the window, the bucket being filled and the bucket in which the
// window begins.
func newRing(spec Spec) *ring {
	width := spec.bucketWidth()
	return &ring{width: width, counts: make([]float64, (spec.Window+width-1)/width+1)}
}

// add spreads requests evenly over the time between from and to.
func (r *ring) add(from, to time.Duration, requests float64) {
	first, last := int64(from/r.width), int64(to/r.width)
	r.advance(last)
	if to <= from {
		r.put(last, requests)
		return
	}
	for bucket := max(first, last-int64(len(r.counts))+1); bucket <= last; bucket++ {
		begin, end := time.Duration(bucket)*r.width, time.Duration(bucket+1)*r.width
		overlap := min(end, to) - max(begin, from)
		r.put(bucket, requests*float64(overlap)/float64(to-from))
	}
}

// put adds to one bucket, if it is still in the ring.
func (r *ring) put(bucket int64, requests float64) {
	if bucket > r.newest-int64(len(r.counts)) && bucket >= 0 {
		r.counts[bucket%int64(len(r.counts))] += requests
	}
}

// advance makes a bucket the newest one, and clears those that it replaces.
func (r *ring) advance(bucket int64) {
	for cleared := 0; r.newest < bucket; r.newest++ {
		if cleared++; cleared > len(r.counts) {
			r.newest = bucket
			return
		}
		r.counts[(r.newest+1)%int64(len(r.counts))] = 0
	}
}

// sum returns the requests since the bucket that contains from.
func (r *ring) sum(from time.Duration) float64 {
	var requests float64
	first := max(int64(from/r.width), r.newest-int64(len(r.counts))+1, 0)
	for bucket := first; bucket <= r.newest; bucket++ {
		requests += r.counts[bucket%int64(len(r.counts))]
	}
	return requests
}

// span is a time interval.
type span struct{ from, to time.Duration }

// maxSpans limits the spans of a coverage, and so the gaps between them.
const maxSpans = 64

// coverage is the time in which the requests of a proxy are known.
type coverage struct {
	spans   []span        // oldest first
	horizon time.Duration // nothing before it is known any more
}

// add covers an interval, which is later than all others. It drops spans that end before oldest.
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

// retract removes the time after from.
func (c *coverage) retract(from time.Duration) {
	for i := range c.spans {
		c.spans[i].to = max(c.spans[i].from, min(c.spans[i].to, from))
	}
}

// since returns how much of the time after from is covered.
func (c *coverage) since(from time.Duration) time.Duration {
	var known time.Duration
	for _, s := range c.spans {
		known += max(0, s.to-max(s.from, from))
	}
	return known
}
