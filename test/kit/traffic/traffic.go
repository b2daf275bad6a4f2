// Package traffic sends requests through a proxy under test. It never retries a request, so every failure is visible.
package traffic

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// Path is the path of the requests of a Traffic. A backend answers it with a JSON string.
	Path = "/traffic"
	// inFlight is the number of concurrent requests.
	inFlight = 4
	// sample is the number of requests of one measurement of a split.
	sample = 2000
	// warmUp is the number of requests before a measurement: Envoy's workers apply a configuration one by one, after
	// its main thread has reported it.
	warmUp = 100
)

// Traffic sends requests over HTTP/1.1 and HTTP/2 in clear text, each on connections of three kinds: one per request,
// reused ones, and two pinned connections that last from the first request to the last. A slow machine lowers the rate.
type Traffic struct {
	tb     testing.TB
	client *load.Client
}

// Start begins to send requests for host to the proxy at address, at most rate per second. answers are the bodies that
// a backend may return.
func Start(tb testing.TB, address, host string, rate int, answers ...string) *Traffic {
	tb.Helper()
	client, err := load.Start(tb.Context(), load.Config{
		Address: address, Host: host, Path: Path, Rate: float64(rate), MaxInFlight: inFlight, Closed: true,
		Timeout: await.Patience(), Colors: answers,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Stop() })
	return &Traffic{tb: tb, client: client}
}

// Stop ends the requests. It fails the test if a request failed, if no request succeeded, or if a pinned connection was
// closed.
func (t *Traffic) Stop() {
	t.tb.Helper()
	totals, pinned := t.client.Stop()
	if totals.Failed > 0 || totals.OK == 0 {
		t.tb.Errorf("%d of %d requests failed: %v", totals.Failed, totals.Ended, totals.Reasons)
	}
	for _, connection := range pinned {
		if connection.Lost != nil {
			t.tb.Errorf("%s, lost after %d answers: %v", connection.Kind, connection.Answered, connection.Lost)
		}
	}
	t.tb.Logf("%d requests", totals.Ended)
}

// CheckShare fails the test unless a backend answers the share want, from 0 to 1, of the requests from now on. Package
// stats defines the rule: an unusual sample requires a second one of twice the size.
func (t *Traffic) CheckShare(answer string, want float64) {
	t.tb.Helper()
	rule, got := stats.DefaultRule(), t.sample(answer, sample)
	verdict := rule.Evaluate(got, want)
	if verdict == stats.Unsure {
		got = t.sample(answer, 2*sample)
		verdict = rule.EvaluateSecond(got, want)
	}
	if verdict != stats.Agrees {
		t.tb.Errorf("%d of %d requests were answered by %s, want %.0f %%: off by %.1f standard deviations",
			got.Hits, got.Total, answer, 100*want, got.Sigmas(want))
	}
}

// sample waits for the given number of requests and counts those with an answer.
func (t *Traffic) sample(answer string, requests int) stats.Split {
	t.tb.Helper()
	first := t.client.Begun() + warmUp
	var window load.Window
	await.True(t.tb, "a sample of the requests is complete", func() bool {
		window = t.client.Window(first, requests)
		return window.Complete()
	})
	return stats.Split{Hits: window.Colors[answer], Total: requests}
}
