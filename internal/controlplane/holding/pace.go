package holding

import "time"

const (
	// atOnce is how many requests of a proxy go on together after a rest, and perPause how many more after each PacePause.
	atOnce, perPause = 100, 20
	// PacePause is the time after which Recover is due.
	PacePause = 20 * time.Millisecond
)

// Pace is how fast the requests of one proxy go on, whichever apps they are for. What waited must not fall upon one fresh
// Pod at once. Nor must it open all of the proxy's connections to many Pods at once: with as many connections from clients
// they are more than its descriptors, and whatever is above is answered with 503. The zero value is that of a proxy that has rested.
type Pace struct{ taken int }

// Room is how many requests may go on now.
func (p *Pace) Room() int { return atOnce - p.taken }

// Take notes that so many go on, which is Room at most.
func (p *Pace) Take(requests int) { p.taken += requests }

// Recover is due each PacePause for as long as HasRested is false.
func (p *Pace) Recover() { p.taken = max(0, p.taken-perPause) }

// HasRested says that nothing is known of requests that went on.
func (p *Pace) HasRested() bool { return p.taken == 0 }
