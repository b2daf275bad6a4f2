package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
)

// good are results that keep every limit.
func good() report {
	times := func(ms int) []time.Duration { return []time.Duration{time.Duration(ms) * time.Millisecond} }
	return report{
		Wakes: []wake{
			{Apps: 1, endpoint: times(9), write: times(12), direct: times(3), peer: times(9)},
			{Apps: 25, endpoint: times(14), write: times(20), direct: times(10), peer: times(9)},
		},
		notified: times(19),
		Costs: []cost{
			{Name: "ours", held: [2][]spent{{{300, 200}}, {{500, 200}}}, awake: []spent{{90, 80}}},
			{Name: "peer", held: [2][]spent{{{300, 300}}, {{300, 300}}}, awake: []spent{{90, 90}}, Lost: 7},
		},
		Warm: []warm{
			{Kind: warmKind{Apps: 100, Concurrency: 16, Bytes: 20}, paths: []warmPath{
				{name: "ours", costs: []spent{{95, 90}}, latencies: times(8)}, {name: "peer", costs: []spent{{100, 100}}, latencies: times(10)},
			}},
			{Kind: warmKind{Apps: 100, Concurrency: 1, Bytes: 20}, paths: []warmPath{
				{name: "ours", costs: []spent{{195, 90}}, latencies: times(8)}, {name: "peer", costs: []spent{{100, 100}}, latencies: times(1)},
			}},
		},
		Held: held{
			Requests: 1000, Answered: 1000, RefusedAfterMS: 1, CanceledAfterMS: 400,
			Envoy: part{KilobytesEach: 55, DescriptorsBefore: 30, DescriptorsHeld: 1030}, Interceptor: part{KilobytesEach: 14},
		},
	}
}

func TestVerdictNamesValueAndLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*report)
		want   string
	}{
		"good": {func(*report) {}, ""},
		"a slow wake": {
			func(r *report) { r.Wakes[0].endpoint[0] = 31 * time.Millisecond }, "1 apps: endpoint to first byte, p99, ms is " +
				"31.00",
		},
		"slow together": {
			func(r *report) { r.Wakes[1].endpoint[0] = 16 * time.Millisecond }, "25 apps: endpoint to first byte, p50, × a " +
				"direct push is 1.60",
		},
		"KEDA notified late": {
			func(r *report) { r.notified[0] = 21 * time.Millisecond }, "request to KEDA notified, p99, ms is 21.00, at most " +
				"20.00",
		},
		"one lost": {func(r *report) { r.Held.Answered-- }, "queued requests that are answered is 999.00, at least 1000.00"},
		"dear to hold": {
			func(r *report) { r.Costs[0].held[0][0].all = 311 }, "processor time of a queued request, × the peer's is 1.04, " +
				"at most 1.00",
		},
		"dear": {
			func(r *report) { r.Warm[0].paths[0].costs[0].all = 96 }, "20 bytes, HTTP/1.1, 100 apps, 16 at a time: processor time, × the " +
				"peer's is 0.96, at most 0.95",
		},
		"slow": {
			func(r *report) { r.Warm[0].paths[0].latencies[0] = 9 * time.Millisecond }, "16 at a time: p99, × the peer's is 0.90, at most 0.80",
		},
		"a failed request": {func(r *report) { r.Warm[1].paths[0].failed++ }, "1 at a time: failed requests is 1.00, at most 0.00"},
		"lost":             {func(r *report) { r.Costs[0].Lost++ }, "lost requests is 1.00, at most 0.00"},
		"nothing":          {func(r *report) { *r = report{} }, ""},
		"descriptors": {
			func(r *report) { r.Held.Envoy.DescriptorsHeld = 2030 }, "descriptors of Envoy for a queued request is 2.00",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := good()
			c.change(&results)
			results.summarise()
			results.table(io.Discard)
			err := benchresult.Verdict(results.Limits)
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("verdict %v, want %q", err, c.want)
			}
		})
	}
}
