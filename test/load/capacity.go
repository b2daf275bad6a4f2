package load

import (
	"context"
	"math"
	"time"
)

// burstInFlight is how many requests of a burst are under way at once: enough to
// keep every core of a small machine busy.
const burstInFlight = 16

// Capacity is how many requests per second are answered, over the same mix of
// connections as a Client's, if each one waits for another to end: a closed
// loop. It lasts for the given time, and until the requests that are under way
// then have ended. The totals count all of them.
func Capacity(ctx context.Context, config Config, burst time.Duration) (rate float64, totals Totals, err error) {
	config.MaxInFlight, config.Rate, config.Closed = burstInFlight, math.Inf(1), true
	end := time.Now().Add(burst)
	bounded, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	c, err := Start(bounded, config)
	if err != nil {
		return 0, Totals{}, err
	}
	<-bounded.Done()
	totals, _ = c.Stop()
	answered := 0
	for _, r := range c.Results() {
		if r.Err == nil && !r.Due.Add(r.Latency).After(end) {
			answered++
		}
	}
	return float64(answered) / burst.Seconds(), totals, ctx.Err()
}
