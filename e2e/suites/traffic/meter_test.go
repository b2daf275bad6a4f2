package traffic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
)

// state is a state of the Ingresses and Rollouts.
type state int

// The states, in the order of the test. A state begins with the change that leads to it.
const (
	// before means that the Ingresses point at the applications.
	before state = iota
	// wired means that they point at the proxies.
	wired
	// canary means that each Rollout has a canary at 20 %.
	canary
	// aborted means that the canaries have ended.
	aborted
	// unwired means that the Ingresses point at the applications again.
	unwired
	// after is everything that follows.
	after
)

// states returns all states.
func states() []state { return []state{before, wired, canary, aborted, unwired, after} }

// String implements fmt.Stringer.
func (s state) String() string {
	return []string{"before", "wired", "canary", "aborted", "unwired", "after"}[s]
}

// meter counts the requests of every kind of client in every state.
type meter struct {
	mu    sync.Mutex
	began []time.Time // by state
	rows  []*row
}

// row contains the results of one kind of client.
type row struct {
	name string

	mu      sync.Mutex
	results []result
}

// result is the result of a request that began at a time.
type result struct {
	at  time.Time
	err error
}

// enter begins the next state.
func (m *meter) enter(t *testing.T, next state) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if int(next) != len(m.began) {
		t.Fatalf("state %s follows %d others", next, len(m.began))
	}
	m.began = append(m.began, time.Now())
}

// stateAt returns the state at a time.
func (m *meter) stateAt(at time.Time) state {
	m.mu.Lock()
	defer m.mu.Unlock()
	index, isExact := slices.BinarySearchFunc(m.began, at, time.Time.Compare)
	if isExact {
		return state(index)
	}
	return state(max(0, index-1))
}

// row returns a new row.
func (m *meter) row(name string) *row {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &row{name: name}
	m.rows = append(m.rows, r)
	return r
}

// add records the result of a request.
func (r *row) add(at time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, result{at, err})
}

// repeat calls send regularly, without waiting for earlier calls, and records the results. stop ends that and waits for
// the last result.
func (r *row) repeat(ctx context.Context, every time.Duration, send func(context.Context) error) (stop func()) {
	end := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			running.Go(func() { r.once(ctx, send) })
			select {
			case <-end:
				return
			case <-ticks.C:
			}
		}
	})
	return func() {
		close(end)
		running.Wait()
	}
}

// once calls send and records the result.
func (r *row) once(ctx context.Context, send func(context.Context) error) {
	at := time.Now()
	r.add(at, send(ctx))
}

// firstFailure returns the failed request that was recorded first. has is false if none has failed.
func (r *row) firstFailure() (first result, has bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	index := slices.IndexFunc(r.results, func(one result) bool { return one.err != nil })
	if index < 0 {
		return result{}, false
	}
	return r.results[index], true
}

// count is the number of requests in a state.
type count struct {
	sent, failed int
	errs         []error
}

// counts returns the numbers by state.
func (m *meter) counts(r *row) map[state]count {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[state]count{}
	for _, result := range r.results {
		at := m.stateAt(result.at)
		c := counts[at]
		c.sent++
		if result.err != nil {
			c.failed++
			c.errs = append(c.errs, result.err)
		}
		counts[at] = c
	}
	return counts
}

// mostErrors is the maximum number of different errors in a report.
const mostErrors = 4

// describe returns the different errors.
func (c count) describe() string {
	numbers := map[string]int{}
	for _, err := range c.errs {
		numbers[err.Error()]++
	}
	var texts []string
	for text, number := range numbers {
		texts = append(texts, fmt.Sprintf("%d × %s", number, text))
	}
	slices.Sort(texts)
	return strings.Join(texts[:min(len(texts), mostErrors)], "; ")
}

// failures returns the different errors of each row, with the time of the first one.
func (m *meter) failures() string {
	var text strings.Builder
	for _, r := range m.all() {
		for at, c := range m.counts(r) {
			if c.failed == 0 {
				continue
			}
			fmt.Fprintf(&text, "%s, %s: %s\n", r.name, at, c.describe())
		}
		if first, has := r.firstFailure(); has {
			fmt.Fprintf(&text, "  first at %s: %v\n", first.at.Format(time.TimeOnly), first.err)
		}
	}
	return text.String()
}

// table returns the failed and all requests of each row in each state.
func (m *meter) table() string {
	var table strings.Builder
	fmt.Fprintf(&table, "%-58s", "failed of all requests")
	for _, s := range states() {
		fmt.Fprintf(&table, "%12s", s)
	}
	for _, r := range m.all() {
		counts := m.counts(r)
		fmt.Fprintf(&table, "\n%-58s", r.name)
		for _, s := range states() {
			if counts[s].sent == 0 {
				fmt.Fprintf(&table, "%12s", "–")
				continue
			}
			fmt.Fprintf(&table, "%12s", fmt.Sprintf("%d of %d", counts[s].failed, counts[s].sent))
		}
	}
	return table.String()
}

// all returns all rows.
func (m *meter) all() []*row {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.rows)
}

// check fails the test if a request failed.
func (m *meter) check(t *testing.T) {
	t.Helper()
	for _, r := range m.all() {
		for s, c := range m.counts(r) {
			if c.failed > 0 {
				invariant.Broken(t, invariant.FailedRequests, "%s, %s: %d of %d: %s", r.name, s, c.failed, c.sent, c.describe())
			}
		}
	}
}

// checkSent fails the test if a row has no request in one of these states: it would prove nothing.
func (m *meter) checkSent(t *testing.T, r *row, in ...state) {
	t.Helper()
	counts := m.counts(r)
	for _, s := range in {
		if counts[s].sent == 0 {
			t.Errorf("%s: no request in state %s", r.name, s)
		}
	}
}

// TestMeter: a request belongs to the state in which it began.
func TestMeter(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	m := &meter{began: []time.Time{at(0), at(10), at(20)}}
	r := m.row("requests")
	for _, second := range []int{0, 9, 10, 11, 12, 30} {
		r.add(at(second), nil)
	}
	r.add(at(19), errors.New("late"))
	r.add(at(19), errors.New("late"))
	counts := m.counts(r)
	for s, want := range map[state][2]int{before: {2, 0}, wired: {5, 2}, canary: {1, 0}, aborted: {}} {
		if got := [2]int{counts[s].sent, counts[s].failed}; got != want {
			t.Errorf("%s: %d sent and failed, want %d", s, got, want)
		}
	}
	if got := counts[wired].describe(); got != "2 × late" {
		t.Errorf("errors %q", got)
	}
}
