package grpcserver

import (
	"context"
	"slices"
	"sync"
)

// Budget is a number of bytes that all streams share. Each account, which is a fleet, has at most a part of it. Make it
// with NewBudget. It is safe for concurrent use.
type Budget struct {
	total, perAccount int

	mu       sync.Mutex // guards the fields below
	used     int
	accounts map[string]int // used by account
	waiting  []*reservation // in the order of arrival
}

// reservation is a part of a Budget.
type reservation struct {
	account string
	size    int
	granted chan struct{} // closed when the reservation is granted
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

// tryReserve is reserve without waiting. It returns nil if the reservation does not fit now.
func (b *Budget) tryReserve(account string, size int) *reservation {
	r := &reservation{account: account, size: min(size, b.perAccount)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fits(r) {
		return nil
	}
	b.add(r)
	return r
}

// reserve waits until an account may use size bytes. A size above the part of an account counts as that part, so it is
// granted when the account uses nothing else. The caller must release the result once. The error is that of ctx.
func (b *Budget) reserve(ctx context.Context, account string, size int) (*reservation, error) {
	r := &reservation{account: account, size: min(size, b.perAccount), granted: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, r)
	b.grant()
	b.mu.Unlock()
	select {
	case <-r.granted:
		return r, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-r.granted: // It was granted in the meantime.
		b.free(r)
	default:
		b.waiting = slices.DeleteFunc(b.waiting, func(other *reservation) bool { return other == r })
	}
	return nil, ctx.Err()
}

// release ends a reservation.
func (b *Budget) release(r *reservation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free(r)
}

// free subtracts a reservation, and grants those that fit now. The caller holds the lock.
func (b *Budget) free(r *reservation) {
	b.used -= r.size
	if b.accounts[r.account] -= r.size; b.accounts[r.account] == 0 {
		delete(b.accounts, r.account)
	}
	b.grant()
}

// grant grants the reservations that fit, the oldest first. Small ones do not wait for older large ones: the peers of
// large ones may send slowly. The caller holds the lock.
func (b *Budget) grant() {
	b.waiting = slices.DeleteFunc(b.waiting, func(r *reservation) bool {
		if !b.fits(r) {
			return false
		}
		b.add(r)
		close(r.granted)
		return true
	})
}

// fits reports whether a reservation can be granted. The caller holds the lock.
func (b *Budget) fits(r *reservation) bool {
	return b.used+r.size <= b.total && b.accounts[r.account]+r.size <= b.perAccount
}

// add adds a reservation. The caller holds the lock.
func (b *Budget) add(r *reservation) {
	b.used += r.size
	b.accounts[r.account] += r.size
}
