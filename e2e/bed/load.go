package bed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/scenario"
	"github.com/kedify/argo-rollouts-plugin/e2e/load"
	"github.com/kedify/argo-rollouts-plugin/e2e/stats"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
)

// The load on each proxy: two get what the demo has one get.
const (
	// Rate is the number of requests per second.
	Rate = 125
	// RequestTimeout bounds one request.
	RequestTimeout = 5 * time.Second
	maxInFlight    = 500
)

// ErrSplit says that requests were not split as asked.
var ErrSplit = errors.New("the split is off")

// ErrOverload says that this machine couldn't keep the load up, so nothing was
// measured.
var ErrOverload = errors.New("the load client is overloaded: this machine is too slow, or busy with other things")

// Load is the demo's load on each of some proxies by itself.
type Load struct {
	clients map[string]*load.Client
	lag     time.Duration
}

// Lag is the longest time by which a request started late, known once the load
// has ended: how busy this machine was.
func (l *Load) Lag() time.Duration { return l.lag }

// Late are the times in which a request started later than that, known once the
// load has ended: this machine was too busy then to tell how long anything takes.
func (l *Load) Late(by time.Duration) []trace.Span {
	var late []trace.Span
	for _, client := range l.clients {
		late = append(late, trace.Late(client.Results(), by)...)
	}
	return late
}

// StartLoad begins to send requests to these proxies.
func (b *Bed) StartLoad(ctx context.Context, proxies ...Proxy) (*Load, error) {
	l := &Load{clients: map[string]*load.Client{}}
	for _, p := range proxies {
		client, err := load.Start(ctx, load.Config{
			Address: p.HTTP.String(), Dial: b.Inside.DialContext, Host: Host, Path: "/color", Rate: Rate, Timeout: RequestTimeout,
			MaxInFlight: maxInFlight, Colors: scenario.Colors(),
		})
		if err != nil {
			_, overload := l.Stop(nil)
			return nil, errors.Join(fmt.Errorf("start the load on %s: %w", p.Name, err), overload)
		}
		l.clients[p.Name] = client
	}
	return l, nil
}

// Stop ends the load and says what became of its requests. Outages are those of
// the proxies, by their names.
func (l *Load) Stop(outages map[string]trace.Outage) (trace.Tally, error) {
	var sum trace.Tally
	var problems []error
	for name, client := range l.clients {
		totals, _ := client.Stop()
		l.lag = max(l.lag, totals.Lag)
		if totals.Overloaded {
			problems = append(problems, fmt.Errorf("%s: %w", name, ErrOverload))
		}
		var outage *trace.Outage
		if o, ok := outages[name]; ok {
			outage = &o
		}
		sum.Add(trace.Judge(client.Results(), outage, RequestTimeout))
	}
	return sum, errors.Join(problems...)
}

// settle is the time between Envoy's main thread showing a split and the first
// request that counts: its workers take it over one by one.
const settle = 200 * time.Millisecond

// Split measures how many of the next n requests to each proxy answer in a
// colour, and judges that by the demo's rule: an odd sample calls for a fresh
// one of twice the size.
func (l *Load) Split(ctx context.Context, color string, weight, n int) error {
	share := float64(weight) / 100
	rule := stats.DefaultRule()
	measured, err := l.sample(ctx, color, n)
	if err != nil {
		return err
	}
	verdict := rule.Judge(measured, share)
	if verdict == stats.Unsure {
		if measured, err = l.sample(ctx, color, 2*n); err != nil {
			return err
		}
		verdict = rule.JudgeFresh(measured, share)
	}
	if verdict != stats.Agrees {
		return fmt.Errorf("%w: %d of %d answered %s, asked %d %% (%.1f σ)", ErrSplit, measured.Hits, measured.Total, color, weight, measured.Sigmas(share))
	}
	return nil
}

func (l *Load) sample(ctx context.Context, color string, n int) (stats.Split, error) {
	var sum stats.Split
	from := time.Now().Add(settle)
	for name, client := range l.clients {
		window, err := await(ctx, client, client.Next(from), n)
		if err != nil {
			return sum, fmt.Errorf("sample %d requests to %s: %w", n, name, err)
		}
		for answered, hits := range window.Colors {
			sum.Total += hits
			if answered == color {
				sum.Hits += hits
			}
		}
	}
	return sum, nil
}

// await waits for n requests from number first on.
func await(ctx context.Context, client *load.Client, first, n int) (load.Window, error) {
	within := time.Duration(float64(n)/Rate*float64(time.Second)) + settle + 2*RequestTimeout
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ticks := time.NewTicker(awaitPause)
	defer ticks.Stop()
	for {
		if window := client.Window(first, n); window.Complete() {
			return window, nil
		}
		select {
		case <-ctx.Done():
			return load.Window{}, fmt.Errorf("%w (%s)", ErrNotReached, within)
		case <-ticks.C:
		}
	}
}
