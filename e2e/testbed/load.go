package testbed

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/assert"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/guide"
	"github.com/kedify/argo-rollouts-plugin/e2e/provider"
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

// Load is the demo's load on each of several proxies, or on the Ingress controller.
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
	l := newLoad()
	for _, p := range proxies {
		err := l.add(ctx, p.Name, load.Config{Address: p.HTTP.String(), Dial: b.Inside.DialContext, Rate: Rate})
		if err != nil {
			return nil, err
		}
	}
	return l, nil
}

// StartIngressLoad starts to send the demo's rate of requests to the Ingress controller, which is at the cluster's
// provider.IngressAddress.
func (b *Testbed) StartIngressLoad(ctx context.Context) (*Load, error) {
	l := newLoad()
	if err := l.add(ctx, provider.IngressAddress, load.Config{
		Address: b.Cluster.Addresses[provider.IngressAddress], Rate: 2 * Rate,
	}); err != nil {
		return nil, err
	}
	return l, nil
}

// StartLoadFrom starts to send requests from a Pod to a numeric address of the cluster, such as that of a Service.
func (b *Testbed) StartLoadFrom(ctx context.Context, pod ClientPod, address string, rate float64) (*Load, error) {
	l := newLoad()
	if err := l.add(ctx, address, load.Config{Address: address, Dial: pod.DialContext, Rate: rate}); err != nil {
		return nil, err
	}
	return l, nil
}

// CallStable starts to call the Service of the stable side, at a numeric address, from a Pod.
func (b *Testbed) CallStable(t *testing.T, pod ClientPod, address string) *Caller {
	t.Helper()
	config := load.Config{
		Address: address, Dial: pod.DialContext, Host: stable, Path: "/color", Timeout: RequestTimeout(), MaxInFlight: 1,
		Colors: guide.Colors(),
	}
	return StartCaller(t, "a Pod that calls "+stable, config,
		func() string { return b.Record.Now().Rollout.Status.StableRS })
}

// newLoad returns a Load without clients.
func newLoad() *Load { return &Load{clients: map[string]*load.Client{}, stalls: stall.Start()} }

// add starts to send requests to an address. If that fails, it stops the other clients.
func (l *Load) add(ctx context.Context, name string, config load.Config) error {
	config.Host, config.Path, config.Timeout, config.Colors = host, "/color", RequestTimeout(), guide.Colors()
	// All requests of one timeout fit: otherwise the client fails first when the machine stalls.
	config.MaxInFlight = int(config.Rate * RequestTimeout().Seconds())
	client, err := load.Start(ctx, config)
	if err != nil {
		_, overload := l.Stop(nil)
		return errors.Join(fmt.Errorf("start the load on %s: %w", name, err), overload)
	}
	l.clients[name] = client
	return nil
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
