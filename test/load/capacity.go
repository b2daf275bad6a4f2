package load

import (
	"context"
	"math"
	"time"
)

// burstInFlight is the number of concurrent requests of a burst: enough to use every core of a small machine.
const burstInFlight = 16

// Capacity measures how many requests per second are answered in a closed loop, over the same mix of connections as a
// Client. It lasts for burst, and then until all requests have ended. The totals count all of them.
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
