// Package traffic makes requests to a proxy under test, and none of them twice: a request that fails is seen to fail.
package traffic

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/load"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// Path is what the requests of a Traffic ask for. An app answers it with a JSON string.
	Path = "/traffic"
	// inFlight is how many requests are under way at once.
	inFlight = 4
	// sample is how many requests a share is measured by.
	sample = 2000
	// warmUp is how many are let pass before: Envoy's workers take over one by one what its main thread says that it has.
	warmUp = 100
)

// Traffic is requests under way: HTTP/1.1 and HTTP/2 in clear text, each on connections of three kinds. Some are opened
// for one request, some are kept, and two are there from the first request to the last. A slow machine makes it slow.
type Traffic struct {
	tb     testing.TB
	client *load.Client
}

// Start begins to make requests for host to the proxy at address, at most so many a second. The answers are those that an
// app may give.
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

// Stop ends the requests. It fails the test if one of them failed, if there was none, or if one of the two connections
// that should last was closed.
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

// CheckShare fails the test unless that share of the requests from now on, from 0 to 1, gets the answer. The rule is that of
// package stats: an odd sample calls for a fresh one of twice the size.
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

// sample waits for so many requests and counts an answer among them.
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
