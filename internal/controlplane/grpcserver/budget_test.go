package grpcserver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// granted reports whether a reservation was granted.
func granted(done <-chan *reservation) bool {
	synctest.Wait()
	return len(done) > 0
}

// request requests a reservation.
func request(t *testing.T, b *Budget, account string, size int) <-chan *reservation {
	t.Helper()
	done := make(chan *reservation, 1)
	go func() {
		if r, err := b.reserve(t.Context(), account, size); err == nil {
			done <- r
		}
	}()
	synctest.Wait()
	return done
}

// TestBudgetIsFair has an account that uses its part. Others get theirs, and the oldest that fits comes first.
func TestBudgetIsFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100, 50)
		first := <-request(t, b, "a", 50)
		own, other, large, small := request(t, b, "a", 1), request(t, b, "b", 40), request(t, b, "c", 30),
			request(t, b, "d", 10)
		if granted(own) || !granted(other) || granted(large) || !granted(small) || b.Used() != 100 {
			t.Errorf("granted: own %t, other %t, large %t, small %t, used %d", granted(own), granted(other), granted(large),
				granted(small), b.Used())
		}
		b.release(first)
		if !granted(own) || !granted(large) || b.Used() != 81 {
			t.Errorf("after a release: own %t, large %t, used %d", granted(own), granted(large), b.Used())
		}
		for _, done := range []<-chan *reservation{own, other, large, small} {
			b.release(<-done)
		}
		if b.Used() != 0 || len(b.accounts) != 0 {
			t.Errorf("in the end %d are used, by %v", b.Used(), b.accounts)
		}
	})
}

// TestBudgetGrantsWhatIsTooLarge: otherwise a large message could never be received.
func TestBudgetGrantsWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	b := NewBudget(100, 50)
	r, err := b.reserve(t.Context(), "a", 1000)
	if err != nil || b.Used() != 50 {
		t.Fatalf("used %d, %v", b.Used(), err)
	}
	b.release(r)
}

// TestBudgetForgetsWhoGivesUp has a stream that ends while it waits.
func TestBudgetForgetsWhoGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(10, 10)
		first := <-request(t, b, "a", 10)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := b.reserve(ctx, "b", 10)
			failed <- err
		}()
		synctest.Wait()
		next := request(t, b, "c", 10)
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		b.release(first)
		if !granted(next) {
			t.Error("the next one still waits")
		}
		b.release(<-next)
	})
}
