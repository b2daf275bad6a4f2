package ingest

import "time"

const (
	// shortestPause is between any two passes.
	shortestPause = time.Millisecond
	// idleShare is how many times as long as passes take nothing is done, so that in the long run they take a fifth of one processor at most.
	idleShare = 4
	// mostSaved is how much time passes may take at once, only the shortest pauses between them, after nothing has happened for a while: enough for
	// hundreds of apps that wake up together, for whom every pause is one more in which their requests wait.
	mostSaved = 100 * time.Millisecond
)

// pace says how long the pause after a pass is. It has no clock.
type pace struct {
	longest time.Duration
	// saved is how much time passes may take until pauses are as long as their share. It is below zero when the last one has overdrawn it.
	saved time.Duration
	// rested is when the last pass ended.
	rested time.Time
}

// newPace returns a pace with pauses of so much at most, with all that can be saved.
func newPace(longest time.Duration) *pace { return &pace{longest: longest, saved: mostSaved} }

// after is the pause after a pass. A debt is forgiven beyond what the longest pause pays off.
func (p *pace) after(began, ended time.Time) time.Duration {
	if !p.rested.IsZero() {
		p.saved += began.Sub(p.rested) / idleShare
	}
	p.saved = max(min(p.saved, mostSaved)-ended.Sub(began), -p.longest/idleShare)
	p.rested = ended
	return min(p.longest, max(shortestPause, -p.saved*idleShare))
}
