package grpcserver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestBudgetIsFair has an account that uses its part. Others get theirs, and the oldest that fits comes first.
func TestBudgetIsFair(t *testing.T) {
	t.Parallel()
	b := NewBudget(100, 50)
	first := b.Request("a", 50)
	own, other, large, small := b.Request("a", 1), b.Request("b", 40), b.Request("c", 30), b.Request("d", 10)
	if own.isGranted() || !other.isGranted() || large.isGranted() || !small.isGranted() || b.Used() != 100 {
		t.Errorf("granted: own %t, other %t, large %t, small %t, used %d", own.isGranted(), other.isGranted(),
			large.isGranted(), small.isGranted(), b.Used())
	}
	first.Release()
	first.Release()
	if !own.isGranted() || !large.isGranted() || b.Used() != 81 {
		t.Errorf("after a release: own %t, large %t, used %d", own.isGranted(), large.isGranted(), b.Used())
	}
	for _, r := range []*Reservation{own, other, large, small} {
		r.Release()
	}
	if b.Used() != 0 || len(b.accounts) != 0 {
		t.Errorf("in the end %d are used, by %v", b.Used(), b.accounts)
	}
}

// TestBudgetGrantsInOrderOfArrival has requests of one account and of the same size.
func TestBudgetGrantsInOrderOfArrival(t *testing.T) {
	t.Parallel()
	b := NewBudget(100, 50)
	var all []*Reservation
	for range 4 {
		all = append(all, b.Request("a", 40))
	}
	all[2].Release() // It waits no longer.
	for i, next := range []*Reservation{all[1], all[3]} {
		if next.isGranted() {
			t.Errorf("number %d was granted too early", i)
		}
		all[i].Release()
		if !next.isGranted() {
			t.Errorf("number %d is not granted", i)
		}
	}
}

// TestReservationDelaysOthers: others wait because of the account, or because of the whole Budget.
func TestReservationDelaysOthers(t *testing.T) {
	t.Parallel()
	b := NewBudget(100, 50)
	first, other := b.Request("a", 50), b.Request("b", 30)
	if first.DelaysOthers() || other.DelaysOthers() {
		t.Error("they delay others, and there are none")
	}
	own := b.Request("a", 10)
	if !first.DelaysOthers() || other.DelaysOthers() {
		t.Errorf("one of a waits: that of a %t, that of b %t", first.DelaysOthers(), other.DelaysOthers())
	}
	own.Release()
	b.Request("c", 30)
	if !first.DelaysOthers() || !other.DelaysOthers() {
		t.Errorf("one of c waits: that of a %t, that of b %t", first.DelaysOthers(), other.DelaysOthers())
	}
	first.Release()
	if first.DelaysOthers() {
		t.Error("it delays others after its end")
	}
}

// TestBudgetGrantsWhatIsTooLarge: otherwise a large message could never be received.
func TestBudgetGrantsWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	b := NewBudget(100, 50)
	if r := b.Request("a", 1000); !r.isGranted() || b.Used() != 50 {
		t.Fatalf("granted %t, used %d", r.isGranted(), b.Used())
	}
}

// TestBudgetForgetsWhoGivesUp has a stream that ends while it waits.
func TestBudgetForgetsWhoGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(10, 10)
		first := b.Request("a", 10)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := b.reserve(ctx, "b", 10)
			failed <- err
		}()
		synctest.Wait()
		next := b.Request("c", 10)
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		first.Release()
		if !next.isGranted() {
			t.Error("the next one still waits")
		}
	})
}
