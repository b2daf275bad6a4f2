package load

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// A server that is slower than the rate makes a closed loop slow, and fails no
// request.
func TestClosedLoop(t *testing.T) {
	var under, most atomic.Int64
	_, address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer under.Add(-1)
		most.Store(max(most.Load(), under.Add(1)))
		select {
		case <-time.After(10 * time.Millisecond):
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, `"blue"`)
	})
	c := config(address)
	c.Rate, c.MaxInFlight, c.Closed = 100000, 4, true
	totals, _ := drive(t, c, 100)
	if totals.Failed != 0 || totals.Overloaded || totals.Lag > time.Second || most.Load() != 4 {
		t.Errorf("%d requests at once, totals: %+v", most.Load(), totals)
	}
}

// The rate is the most that a closed loop makes.
func TestClosedLoopKeepsTheRate(t *testing.T) {
	_, address := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `"blue"`) })
	c := config(address)
	c.Rate, c.Closed = 100, true
	begin := time.Now()
	totals, _ := drive(t, c, 50)
	if least := 490 * time.Millisecond; time.Since(begin) < least {
		t.Errorf("%d requests took %v, at 100/s they take at least %v", totals.Sent, time.Since(begin), least)
	}
}
