package load

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A server that is slower than the rate slows a closed loop down without a failed request.
func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy concurrency
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			defer busy.begin()()
			time.Sleep(10 * time.Millisecond)
			blue(w, nil)
		})
		c.Rate, c.MaxInFlight, c.Closed = 100000, 4, true
		totals, _ := drive(t, c, 100)
		if totals.Failed != 0 || totals.Overloaded || totals.Lag != 0 || busy.max() != 4 {
			t.Errorf("%d requests at once, totals: %+v", busy.max(), totals)
		}
	})
}

// A closed loop does not exceed the rate.
func TestClosedLoopKeepsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, blue)
		c.Rate, c.Closed = 100, true
		begin := time.Now()
		totals, _ := drive(t, c, 50)
		if elapsed, least := time.Since(begin), (Plan{Rate: c.Rate}).At(49); elapsed < least {
			t.Errorf("%d requests took %v, at 100/s they take at least %v", totals.Sent, elapsed, least)
		}
	})
}
