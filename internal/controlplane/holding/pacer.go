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
type Pacer struct{ taken int }

// Available returns how many requests may be released now.
func (p *Pacer) Available() int { return burst - p.taken }

// Take records released requests, at most Available.
func (p *Pacer) Take(requests int) { p.taken += requests }

// Refill is due after each RefillInterval while IsFull is false.
func (p *Pacer) Refill() { p.taken = max(0, p.taken-refill) }

// IsFull reports whether the Pacer has forgotten all released requests.
func (p *Pacer) IsFull() bool { return p.taken == 0 }
