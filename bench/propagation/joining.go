package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/bareserver"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/pace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyproc"
)

const (
	// joinRequests is the minimum number of requests while a proxy joins. joinAfter is how long requests continue after
	// that.
	joinRequests, joinAfter = 500, 3 * time.Second
	// reconnectSamples is the number of weights while all clients reconnect.
	reconnectSamples = 100
)

// joining contains the results of a proxy that joined under load, and of many clients that reconnected at once.
type joining struct {
	// Ready is the time until the joining proxy was ready, in milliseconds.
	Ready float64 `json:"readyMs"`
	// Requests is the number of requests to known hosts meanwhile, a connection each, to both proxies. NotFound is the
	// number of 404 answers.
	Requests int `json:"requests"`
	NotFound int `json:"notFound"`
	// Clients is the number of discovery clients that reconnected at once, in addition to that proxy. Again is the time
	// until all were served, in milliseconds.
	Clients int     `json:"clients"`
	Again   float64 `json:"servedAgainMs"`
	// Slowest is the slowest of the weights meanwhile, in milliseconds. Weights is their number.
	Slowest float64 `json:"slowestWeightMs"`
	Weights int     `json:"weights"`
	// First is the interceptor's maximum memory while the clients received all resources for the first time. Peak is
	// the maximum while they reconnected. Both are in MB.
	First float64 `json:"interceptorFirstMB"`
	Peak  float64 `json:"interceptorPeakMB"`
}

// join has a second proxy join under load. Then --crowd clients and that proxy reconnect at once, while weights change.
func (s *environment) join(ctx context.Context, ours poller) (found joining, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	between, err := startRelay(ctx, s.xdsAt)
	if err != nil {
		return joining{}, err
	}
	defer between.stop()
	proxy, err := s.joinUnderLoad(ctx, between, &found)
	if err != nil {
		return joining{}, err
	}
	defer func() { err = errors.Join(err, proxy.Kill()) }()
	clients := startClients(ctx, s.crowd, between.at)
	defer clients.group.Wait()
	defer end()
	found.Clients = s.crowd
	found.First, err = s.maxMemory(ctx, func(ctx context.Context) error {
		_, err := clients.await(ctx, 1)
		return err
	})
	if err != nil {
		return joining{}, fmt.Errorf("the clients connect: %w", err)
	}
	found.Peak, err = s.maxMemory(ctx, func(ctx context.Context) error {
		return s.reconnect(ctx, between, clients, ours, &found)
	})
	return found, err
}

// joinUnderLoad starts another proxy on the same port under load.
func (s *environment) joinUnderLoad(ctx context.Context, between *relay, found *joining) (*envoyproc.Envoy, error) {
	loading, end := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { found.Requests, found.NotFound = s.ask(loading) })
	began := time.Now()
	proxy, err := bareserver.Proxy{
		Binary: s.Envoy, Repository: s.Repository, Folder: s.folder, Discovery: between.at,
	}.Start(ctx)
	found.Ready = milliseconds(time.Since(began))
	if err == nil {
		err = pace.Wait(ctx, joinAfter)
	}
	end()
	group.Wait()
	if err == nil && found.Requests < joinRequests {
		err = fmt.Errorf("%w: only %d requests while a proxy joined", errNotReady, found.Requests)
	}
	return proxy, err
}

// ask sends requests to known hosts, a connection each, until ctx ends.
func (s *environment) ask(ctx context.Context) (requests, notFound int) {
	client := &http.Client{Timeout: arrivalLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	url := fmt.Sprintf("http://%s/", measuredProxy())
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return requests, notFound
		}
		// Of the first fleet, and of the half whose pods have not moved.
		request.Host = hostOf(s.Fleets * rand.N((s.Objects+2*s.Fleets-1)/(2*s.Fleets))) //nolint:gosec // not security-relevant
		response, err := client.Do(request)
		if err != nil {
			continue // The end of ctx cancelled it.
		}
		_ = response.Body.Close()
		requests++
		if response.StatusCode == http.StatusNotFound {
			notFound++
		}
	}
	return requests, notFound
}

// reconnect cuts the connections of the clients and of the joined proxy. It measures weights until all are served
// again, and some more.
func (s *environment) reconnect(
	ctx context.Context, between *relay, clients *clients, ours poller, found *joining,
) error {
	var group sync.WaitGroup
	defer group.Wait()
	var again time.Duration
	var failed error
	between.closeAll()
	group.Go(func() { again, failed = clients.await(ctx, 2) })
	for range reconnectSamples {
		s.side = 1 - s.side
		arrived, err := arrival(ctx, ours, sides()[s.side], func() error {
			return setWeight(ctx, s.client, fleetName(0), 0, weights()[s.side])
		})
		if err != nil {
			return err
		}
		found.Slowest, found.Weights = max(found.Slowest, milliseconds(arrived.whole)), found.Weights+1
	}
	group.Wait()
	found.Again = milliseconds(again)
	return failed
}

// maxMemory returns the interceptor's maximum memory during an action, in MB.
func (s *environment) maxMemory(ctx context.Context, do func(context.Context) error) (float64, error) {
	watching, end := context.WithCancel(ctx)
	var group sync.WaitGroup
	var peak float64
	var failed error
	group.Go(func() {
		for {
			now, err := s.interceptorAt.Memory()
			failed, peak = errors.Join(failed, err), max(peak, now.Resident)
			if pace.Wait(watching, 20*time.Millisecond) != nil {
				return
			}
		}
	})
	err := do(ctx)
	end()
	group.Wait()
	return peak, errors.Join(err, failed)
}

// milliseconds returns a duration in milliseconds.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
