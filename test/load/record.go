package load

import (
	"maps"
	"sync"
	"time"
)

// Result is the result of one request.
type Result struct {
	// Kind is the kind of its connection.
	Kind Kind
	// Due is when it was scheduled; it did not start earlier.
	Due time.Time
	// Lag is how much later than due it started.
	Lag time.Duration
	// Opened is when its connection was opened, before or after Due; zero if there was none.
	Opened time.Time
	// Latency is the time from Due to the end of the response or the failure.
	Latency time.Duration
	// Status is the HTTP status; 0 without a response.
	Status int
	// Color is the color in the response; empty if the request failed.
	Color string
	// Err is why the request failed; nil if it succeeded.
	Err error
}

// Window summarizes a series of requests.
type Window struct {
	// Asked is the number of requests in the series, Done the number of those that have ended.
	Asked, Done int
	// Colors counts the successful responses by color.
	Colors map[string]int
	// Failed counts the failed requests.
	Failed int
	// Latencies are those of the successful responses, in order of arrival.
	Latencies []time.Duration
}

// Complete reports whether every request of the window has ended.
func (w Window) Complete() bool { return w.Done == w.Asked }

// NewWindow summarizes the ended requests of a series of asked requests.
func NewWindow(asked int, ended []Result) Window {
	w := Window{Asked: asked, Done: len(ended), Colors: map[string]int{}}
	for _, r := range ended {
		if r.Err != nil {
			w.Failed++
			continue
		}
		w.Colors[r.Color]++
		w.Latencies = append(w.Latencies, r.Latency)
	}
	return w
}

// Merge adds up windows.
func Merge(windows ...Window) Window {
	sum := Window{Colors: map[string]int{}}
	for _, w := range windows {
		sum.Asked, sum.Done, sum.Failed = sum.Asked+w.Asked, sum.Done+w.Done, sum.Failed+w.Failed
		sum.Latencies = append(sum.Latencies, w.Latencies...)
		for color, n := range w.Colors {
			sum.Colors[color] += n
		}
	}
	return sum
}

// Totals counts all requests since the start.
type Totals struct {
	// Ended is the number of requests that have ended, sent or not.
	Ended int
	// Sent is the number of those that did not fail with ErrOverload or ErrPinnedLost.
	Sent int
	// OK is the number of responses with status 200, with any body.
	OK int
	// Answered counts the successful responses by kind.
	Answered map[Kind]int
	// Failed is the number of requests that failed or were not sent.
	Failed int
	// Reasons counts the failed requests by Reason.
	Reasons map[string]int
	// InFlight is the number of requests in progress.
	InFlight int
	// Lag is the longest time by which a request started late.
	Lag time.Duration
	// Overloaded is true if at least one request failed with ErrOverload.
	Overloaded bool
}

// recorder contains every result in the order of the plan.
type recorder struct {
	timeout time.Duration

	mu      sync.Mutex
	results []Result
	done    []bool
	totals  Totals
}

func newRecorder(timeout time.Duration) *recorder {
	return &recorder{timeout: timeout, totals: Totals{Answered: map[Kind]int{}, Reasons: map[string]int{}}}
}

// open records that the next request of the plan is due.
func (r *recorder) open(kind Kind, due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, Result{Kind: kind, Due: due})
	r.done = append(r.done, false)
	r.totals.InFlight++
}

// close records the result of request i.
func (r *recorder) close(i int, result Result, outcome outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[i], r.done[i] = result, true
	t := &r.totals
	t.InFlight--
	t.Ended++
	t.Lag = max(t.Lag, result.Lag)
	if outcome == sent {
		t.Sent++
	}
	t.Overloaded = t.Overloaded || outcome == refused
	if result.Status == 200 {
		t.OK++
	}
	if result.Err != nil {
		t.Failed++
		t.Reasons[Reason(result.Err, r.timeout)]++
		return
	}
	t.Answered[result.Kind]++
}

// outcome is whether a request was sent.
type outcome int

const (
	sent    outcome = iota // sent, or its connection failed
	refused                // not sent: ErrOverload
	lost                   // not sent: ErrPinnedLost
)

// window summarizes n requests from number first.
func (r *recorder) window(first, n int) Window { return NewWindow(n, r.ended(first, n)) }

// ended returns those of n requests from number first that have ended, in the order of the plan.
func (r *recorder) ended(first, n int) []Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ended []Result
	for i := max(0, first); i < min(first+n, len(r.results)); i++ {
		if r.done[i] {
			ended = append(ended, r.results[i])
		}
	}
	return ended
}

// next returns the number of the next request.
func (r *recorder) next() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.results)
}

// snapshot returns the current totals.
func (r *recorder) snapshot() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.totals
	t.Answered, t.Reasons = maps.Clone(t.Answered), maps.Clone(t.Reasons)
	return t
}
