package holding

import "time"

const (
	// burst is how many requests of a proxy a full Pacer releases at once, and refill how many more after each
	// RefillInterval.
	burst, refill = 100, 20
	// RefillInterval is the time after which Refill is due.
	RefillInterval = 20 * time.Millisecond
)

// Pacer limits the rate at which the requests of one proxy are released, whatever their workloads. Queued requests must
// not reach one new Pod all at once. Nor may they open all connections of the proxy to many Pods at once: together with
// the connections of clients they would exceed its file descriptors, and the proxy answers the rest with 503. The zero
// value is full.
type Pacer struct {
	used int // released requests that Refill has not made available again
}

// Available returns how many requests may be released now.
func (p *Pacer) Available() int { return burst - p.used }

// Take records released requests, at most Available.
func (p *Pacer) Take(requests int) { p.used += requests }

// Refill makes further requests available. It is due after each RefillInterval while IsFull is false.
func (p *Pacer) Refill() { p.used = max(0, p.used-refill) }

// IsFull reports whether a whole burst is available, so that Refill has no effect.
func (p *Pacer) IsFull() bool { return p.used == 0 }
