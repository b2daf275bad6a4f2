package metrics

import "slices"

// TimeBuckets is the number of buckets of Times.
const TimeBuckets = 19

// TimeBounds are the upper bounds of the buckets of Times in milliseconds: those that Envoy has by default
// (StatsConfig.histogram_bucket_settings).
func TimeBounds() [TimeBuckets]float64 {
	return [TimeBuckets]float64{
		0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000, 600000, 1800000, 3600000,
	}
}

// Times is a histogram of how long a backend took to answer.
type Times struct {
	// Count is the number of responses, and Sum their times in milliseconds.
	Count uint64  `json:"count"`
	Sum   float64 `json:"sum"`
	// Cumulative are the responses that took at most so long, by the indices of TimeBounds.
	Cumulative [TimeBuckets]uint64 `json:"cumulative"`
}

// Quantile is the time in milliseconds in which a part of the responses, from 0 to 1, came: 0.95 for the
// 95th percentile. Within a bucket they are taken to be spread evenly, as Prometheus takes them
// (histogram_quantile); beyond the last bound it is that. It is 0 without responses.
func (t *Times) Quantile(part float64) float64 {
	rank := part * float64(t.Count)
	var lower, below float64
	for i, bound := range TimeBounds() {
		upTo := float64(t.Cumulative[i])
		if upTo >= rank && upTo > below {
			return lower + (bound-lower)*(rank-below)/(upTo-below)
		}
		lower, below = bound, upTo
	}
	if t.Count == 0 {
		return 0
	}
	return lower
}

// Set sets the bucket of a bound in milliseconds. Bounds of a proxy's own are left out.
func (t *Times) Set(bound float64, cumulative uint64) {
	bounds := TimeBounds()
	if i, isOne := slices.BinarySearch(bounds[:], bound); isOne {
		t.Cumulative[i] = cumulative
	}
}

// add adds the responses of another histogram. Buckets that it lacks are as the ones below them, and
// one without a sum is left out.
func (t *Times) add(other *Times) {
	if !(other.Sum >= 0 && other.Sum <= maxValue) || other.Count > maxValue { // NaN is neither.
		return
	}
	t.Count += other.Count
	t.Sum += other.Sum
	var least uint64
	for i, cumulative := range other.Cumulative {
		least = min(max(least, cumulative), other.Count)
		t.Cumulative[i] += least
	}
}
