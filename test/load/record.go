package load

import (
	"maps"
	"sync"
	"time"
)

// Result is how one request went.
type Result struct {
	// Kind says over which connection it went.
	Kind Kind
	// Due is when it was scheduled; it didn't start before.
	Due time.Time
	// Lag is how much later than due it started.
	Lag time.Duration
	// Opened is when the connection was made that it went over, before or
	// after Due; zero if there was none.
	Opened time.Time
	// Latency is the time from Due to the end of the answer or the failure.
	Latency time.Duration
	// Status is the HTTP status, 0 without an answer.
	Status int
	// Color is what the answer named; empty if the request failed.
	Color string
	// Err says why the request failed, nil if it didn't.
	Err error
}

// Window is what is known of a run of requests.
type Window struct {
	// Asked is how many requests the window is for, Done how many have ended.
	Asked, Done int
	// Colors counts the good answers.
	Colors map[string]int
	// Failed counts the failed requests.
	Failed int
	// Latencies are those of the good answers, in order of arrival.
	Latencies []time.Duration
}

// Complete says whether every request of the window has ended.
func (w Window) Complete() bool { return w.Done == w.Asked }

// NewWindow looks at a run of so many requests, of which these have ended.
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

// Merge adds windows up.
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

// Totals count all requests since the start.
type Totals struct {
	// Ended counts the requests that have ended, sent or not.
	Ended int
	// Sent counts those of them that were not held back by ErrOverload or
	// ErrPinnedLost.
	Sent int
	// OK counts the answers with status 200, whatever their body.
	OK int
	// Answered counts the good answers, by kind.
	Answered map[Kind]int
	// Failed counts the requests that have failed or were held back.
	Failed int
	// Reasons counts the failed requests by Reason.
	Reasons map[string]int
	// InFlight is how many have started and not ended.
	InFlight int
	// Lag is the longest time by which a request started late.
	Lag time.Duration
	// Overloaded says that at least one request met ErrOverload.
	Overloaded bool
}

// recorder keeps every result, in the order of the plan.
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

// open notes that the next request of the plan is due.
func (r *recorder) open(kind Kind, due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, Result{Kind: kind, Due: due})
	r.done = append(r.done, false)
	r.totals.InFlight++
}

// close notes how request i ended.
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

// outcome says whether a request left this client.
type outcome int

const (
	sent    outcome = iota // it was sent, or its connection failed
	refused                // held back by ErrOverload
	lost                   // held back by ErrPinnedLost
)

// window looks at n requests from number first on.
func (r *recorder) window(first, n int) Window { return NewWindow(n, r.ended(first, n)) }

// ended returns those of n requests from number first on that have ended, in the
// order of the plan.
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

// next is the number of the request that is due next.
func (r *recorder) next() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.results)
}

// snapshot returns the totals as of now.
func (r *recorder) snapshot() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.totals
	t.Answered, t.Reasons = maps.Clone(t.Answered), maps.Clone(t.Reasons)
	return t
}
