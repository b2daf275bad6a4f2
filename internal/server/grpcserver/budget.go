package grpcserver

import (
	"context"
	"slices"
	"sync"
)

// Budget is a number of bytes that all streams share. Each account, such as a fleet, has at most a part of it. Make
// it with NewBudget. It is safe for concurrent use.
type Budget struct {
	total, perAccount int

	mu       sync.Mutex // guards the fields below
	used     int
	accounts map[string]int // used by account
	waiting  []*Reservation // in the order of arrival
}

// Reservation is a part of a Budget that was requested. It is safe for concurrent use.
type Reservation struct {
	budget  *Budget
	account string
	size    int
	granted chan struct{} // closed when the reservation is granted
	isOver  bool          // guarded by the lock of the Budget
}

// NewBudget returns a Budget of total bytes, of which one account may use perAccount.
func NewBudget(total, perAccount int) *Budget {
	return &Budget{total: total, perAccount: perAccount, accounts: map[string]int{}}
}

// Used returns the reserved bytes.
func (b *Budget) Used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Request requests size bytes of an account. A size above the part of an account counts as that part, so it is granted
// when the account uses nothing else. The caller must call Release.
func (b *Budget) Request(account string, size int) *Reservation {
	r := &Reservation{budget: b, account: account, size: min(size, b.perAccount), granted: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, r)
	b.grant()
	return r
}

// Granted returns a channel that is closed when the bytes are reserved.
func (r *Reservation) Granted() <-chan struct{} { return r.granted }

// isGranted reports whether the bytes are reserved.
func (r *Reservation) isGranted() bool {
	select {
	case <-r.granted:
		return true
	default:
		return false
	}
}

// Release ends the reservation, or the wait for it. Further calls have no effect.
func (r *Reservation) Release() {
	b := r.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case r.isOver:
	case r.isGranted():
		b.free(r)
	default:
		b.waiting = slices.DeleteFunc(b.waiting, func(other *Reservation) bool { return other == r })
	}
	r.isOver = true
}

// DelaysOthers reports whether others may be granted when this one is released.
func (r *Reservation) DelaysOthers() bool {
	b := r.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	return !r.isOver && slices.ContainsFunc(b.waiting, func(other *Reservation) bool {
		return other.account == r.account || b.accounts[other.account]+other.size <= b.perAccount
	})
}

// tryReserve is Request without waiting. It returns nil if the reservation does not fit now.
func (b *Budget) tryReserve(account string, size int) *Reservation {
	r := b.Request(account, size)
	if r.isGranted() {
		return r
	}
	r.Release()
	return nil
}

// reserve is Request, and waits until the reservation is granted. The error is that of ctx.
func (b *Budget) reserve(ctx context.Context, account string, size int) (*Reservation, error) {
	r := b.Request(account, size)
	select {
	case <-r.Granted():
		return r, nil
	case <-ctx.Done():
		r.Release()
		return nil, ctx.Err()
	}
}

// free subtracts a reservation, and grants those that fit now. The caller holds the lock.
func (b *Budget) free(r *Reservation) {
	b.used -= r.size
	if b.accounts[r.account] -= r.size; b.accounts[r.account] == 0 {
		delete(b.accounts, r.account)
	}
	b.grant()
}

// grant grants the reservations that fit, the oldest first. Small ones do not wait for older large ones: the peers of
// large ones may send slowly. The caller holds the lock.
func (b *Budget) grant() {
	b.waiting = slices.DeleteFunc(b.waiting, func(r *Reservation) bool {
		if !b.fits(r) {
			return false
		}
		b.add(r)
		close(r.granted)
		return true
	})
}

// fits reports whether a reservation can be granted. The caller holds the lock.
func (b *Budget) fits(r *Reservation) bool {
	return b.used+r.size <= b.total && b.accounts[r.account]+r.size <= b.perAccount
}

// add adds a reservation. The caller holds the lock.
func (b *Budget) add(r *Reservation) {
	b.used += r.size
	b.accounts[r.account] += r.size
}
