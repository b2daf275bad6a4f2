package testbed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/assert"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/stall"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

// The load on each proxy.
const (
	// Rate is the number of requests per second to each proxy. Two proxies together get the demo's rate.
	Rate = 125
)

// RequestTimeout is the time limit of one request.
func RequestTimeout() time.Duration { return await.Patience() }

// ErrSplit is assert.ErrSplit.
var ErrSplit = assert.ErrSplit

// ErrOverload means that this machine could not generate the load, so the measurement is invalid.
var ErrOverload = errors.New("the load client is overloaded: this machine is too slow, or busy with other things")

// Load is the demo's load on each of several proxies.
type Load struct {
	clients map[string]*load.Client
	stalls  *stall.Detector
	lag     time.Duration
}

// Lag returns the longest delay of the start of a request. It is available after Stop and shows how busy this machine
// was.
func (l *Load) Lag() time.Duration { return l.lag }

// StartLoad starts to send requests to these proxies.
func (b *Testbed) StartLoad(ctx context.Context, proxies ...Proxy) (*Load, error) {
	l := &Load{clients: map[string]*load.Client{}, stalls: stall.Start()}
	for _, p := range proxies {
		client, err := load.Start(ctx, load.Config{
			Address: p.HTTP.String(), Dial: b.Inside.DialContext, Host: host, Path: "/color",
			Rate: Rate, Timeout: RequestTimeout(),
			// All requests of one timeout fit: otherwise the client fails first when the machine stalls.
			MaxInFlight: Rate * int(RequestTimeout().Seconds()), Colors: guide.Colors(),
		})
		if err != nil {
			_, overload := l.Stop(nil)
			return nil, errors.Join(fmt.Errorf("start the load on %s: %w", p.Name, err), overload)
		}
		l.clients[p.Name] = client
	}
	return l, nil
}

// Stop ends the load and returns the results of its requests. The keys of outages are names of proxies.
func (l *Load) Stop(outages map[string]trace.Outage) (trace.Tally, error) {
	l.stalls.Stop()
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
		sum.Add(trace.Summarize(client.Results(), outage, RequestTimeout()))
	}
	return sum, errors.Join(problems...)
}

// workerUpdateDelay is the time from when Envoy's main thread shows a traffic split until its workers have applied it.
// The workers apply it one after the other. Requests in this time do not count.
const workerUpdateDelay = 200 * time.Millisecond

// Split measures how many of the next n requests to each proxy return a color, and checks that by the demo's rule. If
// the first sample is unsure, a second one of twice the size decides. The error wraps assert.ErrSplit if the split is
// wrong.
func (l *Load) Split(ctx context.Context, color string, weight, n int) error {
	_, err := assert.Expectation{
		Color: color, Share: float64(weight) / 100, From: time.Now().Add(workerUpdateDelay), First: n,
		Second: 2 * n, Rule: stats.DefaultRule(),
		Stalls: l.stalls,
	}.Check(ctx, l.sample)
	return err
}

// sample is an assert.Sample of n requests to each proxy.
func (l *Load) sample(ctx context.Context, from time.Time, n int) (load.Window, error) {
	var windows []load.Window
	for name, client := range l.clients {
		window, err := client.Sample(ctx, from, n)
		if err != nil {
			return load.Window{}, fmt.Errorf("requests to %s: %w", name, err)
		}
		windows = append(windows, window)
	}
	return load.Merge(windows...), nil
}
