package load

import (
	"math"
	"time"
)

// Kind is the kind of connection of a request.
type Kind int

// The kinds of connection.
const (
	// FreshHTTP1 is a new connection for one HTTP/1.1 request.
	FreshHTTP1 Kind = iota
	// FreshHTTP2 is a new connection for one HTTP/2 request.
	FreshHTTP2
	// KeptHTTP1 is one of a pool of kept-alive HTTP/1.1 connections.
	KeptHTTP1
	// KeptHTTP2 is a stream on one of a few kept HTTP/2 connections.
	KeptHTTP2
	// PinnedHTTP1 is a single HTTP/1.1 connection that is opened before the first request and must serve until the last.
	PinnedHTTP1
	// PinnedHTTP2 is a single HTTP/2 connection of that sort.
	PinnedHTTP2
)

// Kinds returns every kind.
func Kinds() []Kind {
	return []Kind{FreshHTTP1, FreshHTTP2, KeptHTTP1, KeptHTTP2, PinnedHTTP1, PinnedHTTP2}
}

// String implements fmt.Stringer.
func (k Kind) String() string {
	switch k {
	case FreshHTTP1:
		return "fresh HTTP/1.1"
	case FreshHTTP2:
		return "fresh HTTP/2"
	case KeptHTTP1:
		return "kept HTTP/1.1"
	case KeptHTTP2:
		return "kept HTTP/2"
	case PinnedHTTP1:
		return "pinned HTTP/1.1"
	case PinnedHTTP2:
		return "pinned HTTP/2"
	default:
		return "unknown"
	}
}

// Plan is the schedule: when each request is due and its kind of connection. Requests are numbered from 0.
type Plan struct {
	// Rate is the number of requests per second.
	Rate float64
}

// At returns when request i is due, counted from the start.
func (p Plan) At(i int) time.Duration {
	return time.Duration(float64(i) / p.Rate * float64(time.Second))
}

// First returns the number of the first request that is due at or after d.
func (p Plan) First(d time.Duration) int {
	i := max(0, int(math.Floor(d.Seconds()*p.Rate)))
	for p.At(i) < d { // the product may round down by one
		i++
	}
	return i
}

// Kind returns the kind of request i. The pattern repeats every 25 requests: 6 fresh HTTP/1.1 and 3 fresh HTTP/2, 7
// kept of each, and one on each pinned connection. At 250 requests a second each pinned connection carries 10 a second.
func (p Plan) Kind(i int) Kind {
	const f1, f2, k1, k2, p1, p2 = FreshHTTP1, FreshHTTP2, KeptHTTP1, KeptHTTP2, PinnedHTTP1, PinnedHTTP2
	pattern := [...]Kind{
		f1, k1, k2, f2, k1,
		f1, k2, k1, f1, k2,
		p1, k1, f2, k2, f1,
		k1, k2, f1, p2, k1,
		k2, f2, k1, f1, k2,
	}
	return pattern[i%len(pattern)]
}
