package ingest

import "time"

const (
	// minPause is the minimum pause between two passes.
	minPause = time.Millisecond
	// idleFactor is the ratio of idle time to pass time. In the long run passes take at most a fifth of one CPU.
	idleFactor = 4
	// maxBudget is how much time passes may take with only minimum pauses after an idle period. It is sufficient for
	// hundreds of workloads that start together, whose queued requests wait during every pause.
	maxBudget = 100 * time.Millisecond
)

// pace computes the pause after a pass. It has no clock.
type pace struct {
	maxPause time.Duration
	// budget is the pass time that is available before pauses grow. It is negative if the last pass exceeded it.
	budget time.Duration
	// lastEnd is the end of the last pass.
	lastEnd time.Time
}

// newPace returns a pace with a maximum pause and a full budget.
func newPace(maxPause time.Duration) *pace { return &pace{maxPause: maxPause, budget: maxBudget} }

// pauseAfter returns the pause after a pass. A deficit that exceeds the maximum pause is dropped.
func (p *pace) pauseAfter(started, ended time.Time) time.Duration {
	if !p.lastEnd.IsZero() {
		p.budget += started.Sub(p.lastEnd) / idleFactor
	}
	p.budget = max(min(p.budget, maxBudget)-ended.Sub(started), -p.maxPause/idleFactor)
	p.lastEnd = ended
	return min(p.maxPause, max(minPause, -p.budget*idleFactor))
}
