package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/load"
)

// errUnanswered is a request without a response. The text contains the client's reason.
var errUnanswered = errors.New("no answer")

// testClient is a Pod that sends requests to one port of the Gateway by a schedule.
type testClient struct {
	// name is the name of its Pod.
	name string
	// protocol is tcp, tls or udp.
	protocol string
	port     int
	// serverName is the server name of a TLS client (SNI).
	serverName string
	// rate is the number of connections per second, or of datagrams from a new port.
	rate float64

	mu      sync.Mutex
	begun   time.Time // when request 0 was due; zero before the first line
	results map[int]load.Result
}

// manifest returns the manifest of its Pod. address is the address of the Gateway.
func (a *testClient) manifest(address string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: ask
      image: argoproj/rollouts-demo:blue
      args: [request, --protocol=%s, "--address=%s:%d", --server-name=%s, --rate=%g]
---
`, a.name, a.protocol, address, a.port, a.serverName, a.rate)
}

// follow reads its log continuously.
func (a *testClient) follow(ctx context.Context, w environment) error {
	err := w.runner.Stream(ctx, func(log io.Reader) error {
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			if err := a.note(lines.Text()); err != nil {
				return err
			}
		}
		return lines.Err()
	}, "kubectl", "logs", "-f", a.name)
	if ctx.Err() == nil {
		return fmt.Errorf("the log of %s has ended: %w", a.name, err)
	}
	return nil // canceled
}

// note records a log line: the number of a request, its due time in milliseconds since 1970, its latency in
// microseconds, and the response.
func (a *testClient) note(line string) error {
	var number int
	var due, took int64
	fields := strings.SplitN(line, " ", 4)
	if _, err := fmt.Sscan(line, &number, &due, &took); err != nil || len(fields) < 4 {
		return fmt.Errorf("%s logged %q: %w", a.name, line, err)
	}
	result := load.Result{Due: time.UnixMilli(due), Latency: time.Duration(took) * time.Microsecond, Color: fields[3]}
	if problem, failed := strings.CutPrefix(fields[3], "error: "); failed {
		result.Color, result.Err = "", fmt.Errorf("%w: %s", errUnanswered, problem)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.results == nil {
		a.results, a.begun = map[int]load.Result{}, result.Due.Add(-load.Plan{Rate: a.rate}.At(number))
	}
	a.results[number] = result
	return nil
}

// all returns the completed requests in the order of their numbers.
func (a *testClient) all() []load.Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []load.Result
	for number := 0; len(all) < len(a.results); number++ {
		if result, ended := a.results[number]; ended {
			all = append(all, result)
		}
	}
	return all
}

// window summarizes n requests that were due after a moment.
func (a *testClient) window(from time.Time, n int) load.Window {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := load.Plan{Rate: a.rate}.First(from.Sub(a.begun))
	var ended []load.Result
	for number := first; number < first+n; number++ {
		if result, ok := a.results[number]; ok {
			ended = append(ended, result)
		}
	}
	return load.NewWindow(n, ended)
}

// sample is an assert.Sample.
func (a *testClient) sample(ctx context.Context, from time.Time, n int) (load.Window, error) {
	var window load.Window
	// The schedule takes its time even if each response is immediate.
	limit := max(0, time.Until(from)) + load.Plan{Rate: a.rate}.At(n) + await.Patience()
	err := await.Within(ctx, fmt.Sprintf("%d answers to %s", n, a.name), limit, func() bool {
		window = a.window(from, n)
		return window.Complete()
	}, func() string { return fmt.Sprintf("%d have ended", window.Done) })
	return window, err
}

// awaitAnswers waits for the first response.
func (a *testClient) awaitAnswers(t *testing.T) {
	t.Helper()
	await.Described(t, "an answer to "+a.name, func() bool { return len(a.all()) > 0 }, func() string { return "none" })
}

// summary summarizes the responses.
func (a *testClient) summary() string {
	all := a.all()
	window := load.NewWindow(len(all), all)
	return fmt.Sprintf("%s: %d questions, %d without an answer; %s", a.name, window.Done, window.Failed, latencies(window))
}

// startClients starts the Pods of the clients, which send requests until the test ends. Then it calls judge to check
// their results.
func (w environment) startClients(t *testing.T, address string, all []*testClient, check func()) {
	t.Helper()
	var manifests strings.Builder
	var pods []string
	for _, a := range all {
		manifests.WriteString(a.manifest(address))
		pods = append(pods, "pod/"+a.name)
	}
	w.applyText(t, manifests.String())
	w.awaitCondition(t, "Ready", pods...)
	ctx, cancel := context.WithCancel(t.Context())
	var logs sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		logs.Wait()
		check()
	})
	for _, a := range all {
		logs.Go(func() {
			if err := a.follow(ctx, w); err != nil {
				t.Error(err)
			}
		})
	}
	for _, a := range all {
		a.awaitAnswers(t)
	}
}
