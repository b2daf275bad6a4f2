// Package stall detects times in which this process did not run, because the machine was busy or stood still. A verdict
// that depends on time is void for a window with a gap above Limit.
package stall

import (
	"sync"
	"testing"
	"time"
)

// Limit is the largest gap between two ticks within which a verdict that depends on time is valid.
const Limit = 100 * time.Millisecond

const (
	// interval is the time between two ticks.
	interval = 10 * time.Millisecond
	// recorded is the smallest gap that a Detector keeps. Shorter ones are normal on a busy machine.
	recorded = 20 * time.Millisecond
)

// Detector records gaps between ticks that should be 10 ms apart.
type Detector struct {
	end, ended chan struct{}
	stop       func()

	mu   sync.Mutex
	last time.Time
	gaps []gap
}

// gap is a time without a tick.
type gap struct{ from, until time.Time }

// Watch starts a Detector that stops when the test ends.
func Watch(tb testing.TB) *Detector {
	tb.Helper()
	d := Start()
	tb.Cleanup(d.Stop)
	return d
}

// Start starts a Detector for programs that are not tests. Stop ends it.
func Start() *Detector {
	d := &Detector{end: make(chan struct{}), ended: make(chan struct{}), last: time.Now()}
	d.stop = sync.OnceFunc(func() {
		close(d.end)
		<-d.ended
	})
	go d.run()
	return d
}

// Stop ends the Detector. Its gaps can still be read.
func (d *Detector) Stop() { d.stop() }

// run ticks until Stop.
func (d *Detector) run() {
	defer close(d.ended)
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-d.end:
			d.tick(time.Now())
			return
		case <-ticks.C:
			d.tick(time.Now())
		}
	}
}

// tick records the gap since the last tick.
func (d *Detector) tick(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.last) > recorded {
		d.gaps = append(d.gaps, gap{from: d.last, until: now})
	}
	d.last = now
}

// Largest returns the length of the largest gap that overlaps a window, or 0 when no gap was above 20 ms. A gap counts
// with its whole length. A gap that has not ended counts as well.
func (d *Detector) Largest(from, until time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	largest := time.Duration(0)
	count := func(g gap) {
		if g.from.Before(until) && g.until.After(from) {
			largest = max(largest, g.until.Sub(g.from))
		}
	}
	for _, g := range d.gaps {
		count(g)
	}
	select {
	case <-d.ended:
	default:
		if present := (gap{from: d.last, until: time.Now()}); present.until.Sub(present.from) > recorded {
			count(present)
		}
	}
	return largest
}
