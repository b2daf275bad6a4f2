package pace

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errNotYet = errors.New("not yet")

func TestUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		err := Until(t.Context(), time.Minute, time.Second, func() error {
			if looks++; looks < 5 {
				return errNotYet
			}
			return nil
		})
		if err != nil || looks != 5 {
			t.Errorf("%d calls, error %v", looks, err)
		}
		err = Until(t.Context(), time.Minute, time.Second, func() error { return errNotYet })
		if !errors.Is(err, ErrTimeout) || !errors.Is(err, errNotYet) {
			t.Errorf("timeout: error %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Until(ctx, time.Minute, time.Second, func() error { return errNotYet }); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: error %v", err)
		}
	})
}

func TestEvery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
		defer cancel()
		var done, highest atomic.Int64
		err := Every(ctx, time.Second, 2, func(_ context.Context, n int) error {
			done.Add(1)
			highest.Store(int64(n))
			return nil
		})
		if err != nil || done.Load() != 10 || highest.Load() != 9 {
			t.Errorf("done %d times, the last as number %d, in ten seconds; error %v", done.Load(), highest.Load(), err)
		}
		err = Every(t.Context(), time.Second, 2, func(context.Context, int) error { return errNotYet })
		if !errors.Is(err, errNotYet) {
			t.Errorf("it continues after an error: %v", err)
		}
	})
}
