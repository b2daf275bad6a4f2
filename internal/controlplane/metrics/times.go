package metrics

import "slices"

// TimeBuckets is the number of buckets of Times.
const TimeBuckets = 19

// TimeBounds returns the upper bounds of the buckets of Times in milliseconds: Envoy's defaults
// (StatsConfig.histogram_bucket_settings).
func TimeBounds() [TimeBuckets]float64 {
	return [TimeBuckets]float64{
		0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000, 600000, 1800000, 3600000,
	}
}

// Times is a histogram of the response times of a backend.
type Times struct {
	// Count is the number of responses, and Sum the sum of their times in milliseconds.
	Count uint64  `json:"count"`
	Sum   float64 `json:"sum"`
	// Cumulative is the number of responses up to each bound of TimeBounds.
	Cumulative [TimeBuckets]uint64 `json:"cumulative"`
}

// Quantile returns the quantile q, from 0 to 1, in milliseconds: 0.95 for the 95th percentile. It interpolates linearly
// within a bucket, like Prometheus (histogram_quantile). Above the last bound it returns that bound, and 0 without
// responses.
func (t *Times) Quantile(q float64) float64 {
	rank := q * float64(t.Count)
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

// Set sets the bucket of a bound in milliseconds. It ignores bounds that are not in TimeBounds.
func (t *Times) Set(bound float64, cumulative uint64) {
	bounds := TimeBounds()
	if i, isBound := slices.BinarySearch(bounds[:], bound); isBound {
		t.Cumulative[i] = cumulative
	}
}

// add adds the responses of another histogram. A missing bucket counts as equal to the one below it. It ignores a
// histogram with an invalid sum.
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
