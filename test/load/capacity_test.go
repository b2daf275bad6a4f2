package load

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A burst limits the requests in flight. The capacity counts the successful responses in time.
func TestCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var busy concurrency
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			defer busy.begin()()
			time.Sleep(10 * time.Millisecond)
			if asked.Add(1)%10 == 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			blue(w, nil)
		})
		const burst = 300 * time.Millisecond
		rate, totals, err := Capacity(t.Context(), c, burst)
		if err != nil {
			t.Fatal(err)
		}
		good := totals.Sent - totals.Failed
		if n := int(rate*burst.Seconds() + 0.5); n > good || n < good-burstInFlight || n == 0 {
			t.Errorf("%.1f requests/s are %d in %s, of %d that were answered", rate, n, burst, good)
		}
		if int64(totals.Sent) != asked.Load() || totals.Failed != totals.Sent/10 || busy.max() != burstInFlight {
			t.Errorf("asked %d, %d at once, totals: %+v", asked.Load(), busy.max(), totals)
		}
	})
}

func TestCapacityEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			cancel()
			blue(w, nil)
		})
		if _, _, err := Capacity(ctx, c, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v", err)
		}
	})
}

// concurrency counts the concurrent requests of a server.
type concurrency struct {
	mu           sync.Mutex
	now, highest int
}

// begin counts one request until the returned function is called.
func (b *concurrency) begin() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now++
	b.highest = max(b.highest, b.now)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.now--
	}
}

// max returns the maximum number of concurrent requests.
func (b *concurrency) max() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.highest
}
