package load

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// Slow responses do not delay the schedule. The latency counts from when a request was due.
func TestOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
			_, _ = io.WriteString(w, `"blue"`)
		})
		client, err := Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		await.True(t, "200 requests in flight", func() bool { return client.Totals().InFlight >= 200 })
		close(release)
		totals, _ := client.Stop()
		if totals.Failed != 0 {
			t.Fatalf("failed: %v", totals.Reasons)
		}
		w, arrival := client.Window(0, 1), Plan{Rate: c.Rate}.At(199)
		if !w.Complete() || w.Latencies[0] < arrival {
			t.Errorf("the first request waited %v, want at least the %s until the last of 200 arrived", w.Latencies, arrival)
		}
	})
}

func TestSilenceFailsAfterTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		c.Timeout = time.Second
		c.Rate = 250
		totals, _ := drive(t, c, 25)
		held := totals.Reasons[ErrPinnedLost.Error()] + totals.Reasons[ErrOverload.Error()]
		if totals.Failed != totals.Sent+held || totals.Sent == 0 || totals.Reasons["no answer within 1s"] != totals.Sent {
			t.Errorf("totals: %+v", totals)
		}
	})
}

func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		c.MaxInFlight = 10
		c.Timeout = 300 * time.Millisecond
		totals, _ := drive(t, c, 100)
		held := totals.Reasons[ErrOverload.Error()] + totals.Reasons[ErrPinnedLost.Error()]
		if !totals.Overloaded || totals.Reasons[ErrOverload.Error()] == 0 || totals.Ended != totals.Sent+held ||
			totals.Failed != totals.Ended {
			t.Errorf("totals: %+v", totals)
		}
	})
}

// A request that would start after its timeout is not sent.
func TestLatenessIsOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		c, err := connect(t.Context(), serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
		if err != nil {
			t.Fatal(err)
		}
		c.begin(t.Context(), 0, time.Now().Add(-c.config.Timeout))
		close(c.ended)
		totals, _ := c.Stop()
		if !totals.Overloaded || totals.Failed != 1 || totals.Sent != 0 ||
			totals.Lag < c.config.Timeout || asked.Load() != 0 {
			t.Errorf("%d were sent, totals: %+v", asked.Load(), totals)
		}
	})
}
