package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// warmTurns is the number of measured turns of each path for a kind of request. A turn is warmRequests requests, at
	// least two for each app.
	warmTurns, warmRequests = 20, 2000
	// smallAnswer and largeAnswer are sizes of responses, in bytes.
	smallAnswer, largeAnswer = 20, 1024
)

// warmKind is a kind of requests for awake apps.
type warmKind struct {
	// Apps is the number of apps that requests go to in turn, and Concurrency that of requests at a time.
	Apps        int `json:"apps"`
	Concurrency int `json:"concurrency"`
	// Bytes is the size of the response. IsHTTP2 means HTTP/2 in clear text between client and proxy.
	Bytes   int  `json:"bytes"`
	IsHTTP2 bool `json:"http2"`
}

// warmKinds returns all kinds.
func warmKinds() (kinds []warmKind) {
	for _, apps := range []int{1, mostApps} {
		for _, concurrency := range []int{1, 16, 64} {
			kinds = append(kinds, warmKind{Apps: apps, Concurrency: concurrency, Bytes: smallAnswer})
		}
		kinds = append(kinds,
			warmKind{Apps: apps, Concurrency: 16, Bytes: largeAnswer},
			warmKind{Apps: apps, Concurrency: 16, Bytes: smallAnswer, IsHTTP2: true},
			warmKind{Apps: apps, Concurrency: 64, Bytes: smallAnswer, IsHTTP2: true})
	}
	return kinds
}

// String returns the name of a kind.
func (k warmKind) String() string {
	protocol := "HTTP/1.1"
	if k.IsHTTP2 {
		protocol = "HTTP/2"
	}
	return fmt.Sprintf("%d bytes, %s, %d apps, %d at a time", k.Bytes, protocol, k.Apps, k.Concurrency)
}

// warm are the results of one kind of request.
type warm struct {
	Kind warmKind `json:"kind"`
	// Paths are the results by path.
	Paths []warmResult `json:"paths"`

	paths []warmPath
}

// warmResult is the result of one path.
type warmResult struct {
	Name string `json:"name"`
	// First is the processor time of a request in the first turn, in which the connections of client and proxy are
	// opened. Steady is the median of the turns after that, whose requests use these connections.
	First  load `json:"firstTurn"`
	Steady load `json:"steady"`
	// Latency is from the request to the end of the response, in the turns after the first.
	Latency quantiles `json:"latency"`
	Failed  int       `json:"failed"`
}

// warmPath are the measured values of one path.
type warmPath struct {
	name      string
	first     spent
	costs     []spent
	latencies []time.Duration
	failed    int
}

// measureWarm measures requests for awake apps, on each path. The paths alternate, and each has its own connections,
// which stay open.
func (s *environment) measureWarm(ctx context.Context, results *report) (err error) {
	for app := range mostApps {
		if err := s.SetReady(ctx, app, true); err != nil {
			return err
		}
	}
	for _, by := range s.paths {
		if err := awaitAllAwake(ctx, by); err != nil {
			return fmt.Errorf("%s: %w", by.name, err)
		}
	}
	for _, kind := range warmKinds() {
		found, err := s.measureKind(ctx, kind)
		if err != nil {
			return fmt.Errorf("%v: %w", kind, err)
		}
		results.Warm = append(results.Warm, found)
	}
	return s.scaleAllToZero(ctx, mostApps)
}

// measureKind measures one kind of request.
func (s *environment) measureKind(ctx context.Context, kind warmKind) (warm, error) {
	found := warm{Kind: kind}
	clients := make([]*warmClient, len(s.paths))
	for i, by := range s.paths {
		clients[i] = newWarmClient(kind, by.proxy)
		defer clients[i].close()
		found.paths = append(found.paths, warmPath{name: by.name})
	}
	for turn := range 1 + warmTurns {
		for i := range s.paths {
			if turn%2 == 1 {
				i = len(s.paths) - 1 - i
			}
			if err := warmTurn(ctx, s.paths[i], clients[i], turn == 0, &found.paths[i]); err != nil {
				return warm{}, fmt.Errorf("%s: %w", s.paths[i].name, err)
			}
		}
	}
	return found, ctx.Err()
}

// warmTurn is a turn of one path.
func warmTurn(ctx context.Context, by path, client *warmClient, isFirst bool, found *warmPath) error {
	before, err := by.spent()
	if err != nil {
		return err
	}
	latencies, failed := client.send(ctx, warmRequests)
	after, err := by.spent()
	if err != nil {
		return err
	}
	found.failed += failed
	if isFirst {
		found.first = after.per(before, warmRequests)
		return nil
	}
	found.costs = append(found.costs, after.per(before, warmRequests))
	found.latencies = append(found.latencies, latencies...)
	return nil
}

// awaitAllAwake waits until a path has the endpoints of all apps: each responds without being queued.
func awaitAllAwake(ctx context.Context, by path) error {
	client := newWarmClient(warmKind{Apps: mostApps, Concurrency: 1, Bytes: smallAnswer}, by.proxy)
	defer client.close()
	if _, failed := client.send(ctx, mostApps); failed > 0 {
		return fmt.Errorf("%w: %d of %d apps have not responded", errTimeout, failed, mostApps)
	}
	return ctx.Err()
}

// summariseWarm computes the results of warm requests, and their limits.
func (r *report) summariseWarm() {
	for i := range r.Warm {
		w := &r.Warm[i]
		for _, by := range w.paths {
			w.Paths = append(w.Paths, warmResult{
				Name: by.name, First: load{by.first.all, by.first.proxy}, Steady: loadOf(by.costs),
				Latency: quantilesOf(by.latencies), Failed: by.failed,
			})
		}
		r.limit(w.Kind.String()+": failed requests", float64(w.Paths[0].Failed), 0)
		if len(w.Paths) == 1 || w.Kind.Concurrency == 1 {
			continue
		}
		ratios := make([]float64, len(w.paths[0].costs))
		for turn := range ratios {
			ratios[turn] = w.paths[0].costs[turn].all / w.paths[1].costs[turn].all
		}
		ours, peer := w.Paths[0], w.Paths[1]
		r.Limits = append(r.Limits,
			benchresult.Limit{
				Name: w.Kind.String() + ": processor time, × the peer's", Value: stats.Quantile(ratios, 0.5), Limit: maxWarmCost,
				Of: fmt.Sprintf("%.0f µs, peer %.0f µs", ours.Steady.All, peer.Steady.All),
			},
			benchresult.Limit{
				Name: w.Kind.String() + ": p99, × the peer's", Value: ours.Latency.P99 / peer.Latency.P99, Limit: maxWarmLatency,
				Of: fmt.Sprintf("%.1f ms, peer %.1f ms", ours.Latency.P99, peer.Latency.P99),
			})
	}
}

// warmTable prints the results of warm requests.
func (r *report) warmTable(columns *tabwriter.Writer) {
	if len(r.Warm) == 0 {
		return
	}
	const empty = "\t\t\t\t"
	fmt.Fprintln(columns, "\nrequest of an awake app\tpath\tfirst turn, µs\tsteady, µs\tof the proxy\tp50, ms\tp99\t"+empty)
	for _, row := range r.Warm {
		for _, by := range row.Paths {
			fmt.Fprintf(io.Writer(columns), "%v\t%s\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t%s\n", row.Kind, by.Name, by.First.All,
				by.Steady.All, by.Steady.Proxy, by.Latency.P50, by.Latency.P99, empty)
		}
	}
}
