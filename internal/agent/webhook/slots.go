package webhook

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
)

// errWaiting is the error of a request of an address that has too many waiting ones.
var errWaiting = errors.New("too many requests of this address wait")

// slots limit the requests that are processed at a time, in total and of one address. A free slot goes to the address
// with the fewest, so that an address with many requests delays those of others by one request at most. Make it with
// newSlots. It is safe for concurrent use.
type slots struct {
	total, perAddress, maxWaiting int

	mu        sync.Mutex // guards the fields below
	used      int
	byAddress map[netip.Addr]int // used ones
	waiting   []*waiter          // in the order of their arrival
}

// waiter is a request that waits for a slot.
type waiter struct {
	address netip.Addr
	granted chan struct{} // closed when the request has a slot
}

// newSlots returns free slots. maxWaiting limits the waiting requests of one address.
func newSlots(total, perAddress, maxWaiting int) *slots {
	return &slots{total: total, perAddress: perAddress, maxWaiting: maxWaiting, byAddress: map[netip.Addr]int{}}
}

// acquire waits for a slot until ctx ends. The caller must call release when its request has been processed.
func (s *slots) acquire(ctx context.Context, address netip.Addr) (release func(), err error) {
	w := &waiter{address: address, granted: make(chan struct{})}
	if !s.enqueue(w) {
		return nil, errWaiting
	}
	select {
	case <-w.granted:
		return func() { s.release(address) }, nil
	case <-ctx.Done():
		if s.cancel(w) {
			s.release(address) // It was granted at this moment.
		}
		return nil, ctx.Err()
	}
}

// enqueue adds a waiter, unless its address has too many.
func (s *slots) enqueue(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := 0
	for _, other := range s.waiting {
		if other.address == w.address {
			own++
		}
	}
	if own >= s.maxWaiting {
		return false
	}
	s.waiting = append(s.waiting, w)
	s.grant()
	return true
}

// cancel removes a waiter. It returns true if the waiter has a slot.
func (s *slots) cancel(w *waiter) (isGranted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.waiting, w)
	if at < 0 {
		return true
	}
	s.waiting = slices.Delete(s.waiting, at, at+1)
	return false
}

// release frees a slot of an address.
func (s *slots) release(address netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	if s.byAddress[address]--; s.byAddress[address] == 0 {
		delete(s.byAddress, address)
	}
	s.grant()
}

// grant gives free slots to waiters. The caller holds the lock.
func (s *slots) grant() {
	for s.used < s.total {
		next := -1
		for i, w := range s.waiting {
			own := s.byAddress[w.address]
			if own < s.perAddress && (next < 0 || own < s.byAddress[s.waiting[next].address]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := s.waiting[next]
		s.waiting = slices.Delete(s.waiting, next, next+1)
		s.used++
		s.byAddress[w.address]++
		close(w.granted)
	}
}
