package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// maxHit limits a request of an exact host. maxMiss limits a request of a wildcard or an unknown host. Both are
	// multiples of the plain table's cost.
	maxHit, maxMiss = 1.05, 1.5
	// maxNoise is the maximum distance of the control's median from 1: beyond it the run is invalid.
	maxNoise = 0.02
)

// report contains the results of a run.
type report struct {
	// Hosts is the number of exact hosts. Blocks is the number of blocks per proxy and kind. Requests is the number of
	// requests in a block.
	Hosts    int `json:"hosts"`
	Blocks   int `json:"blocks"`
	Requests int `json:"requestsPerBlock"`
	// Lines are the results by kind of request.
	Lines []line `json:"results"`
	// Limits are the checks of the results.
	Limits []benchresult.Limit `json:"limits"`
}

// line contains the results of one kind of request.
type line struct {
	Kind kind `json:"kind"`
	// Plain is the median cost of a request with a plain table, in microseconds.
	Plain float64 `json:"plainCPUus"`
	// Ratio is the ratio of kedify-proxy's cost to the plain table's. Control is the ratio of the second plain table.
	Ratio   quartiles `json:"ratio"`
	Control quartiles `json:"control"`
	// Held is the ratio of kedify-proxy to the same one without queueing.
	Held quartiles `json:"ratioOfHolding"`
	// Sticky and Session are the ratios of kedify-proxy with a sticky canary, and with session affinity, to
	// kedify-proxy with neither.
	Sticky  quartiles `json:"ratioOfStickiness"`
	Session quartiles `json:"ratioOfSessionAffinity"`

	ours, unqueued, sticky, session, plain, control []float64
}

// quartiles are the quartiles of one value over all blocks.
type quartiles struct {
	Low    float64 `json:"quartile1"`
	Median float64 `json:"median"`
	High   float64 `json:"quartile3"`
}

// quartilesOf returns the quartiles of values.
func quartilesOf(values []float64) quartiles {
	return quartiles{stats.Quantile(values, 0.25), stats.Quantile(values, 0.5), stats.Quantile(values, 0.75)}
}

// ratios returns the ratios of values to base, pair by pair.
func ratios(values, base []float64) []float64 {
	out := make([]float64, len(values))
	for i := range values {
		out[i] = values[i] / base[i]
	}
	return out
}

// summarise computes the results and the limits.
func (r *report) summarise() {
	for i := range r.Lines {
		l := &r.Lines[i]
		l.Plain = quartilesOf(l.plain).Median
		l.Ratio, l.Control = quartilesOf(ratios(l.ours, l.plain)), quartilesOf(ratios(l.control, l.plain))
		l.Held = quartilesOf(ratios(l.ours, l.unqueued))
		l.Sticky, l.Session = quartilesOf(ratios(l.sticky, l.ours)), quartilesOf(ratios(l.session, l.ours))
		r.Limits = append(r.Limits,
			benchresult.Limit{
				Name: l.Kind.String() + ", × a static table", Of: fmt.Sprintf("%.1f µs, static table %.1f µs", l.Plain*l.Ratio.Median, l.Plain),
				Value: l.Ratio.Median, Limit: l.Kind.MaxRatio,
			},
			benchresult.Limit{
				Name: l.Kind.String() + ", distance of the control from 1", Value: math.Abs(l.Control.Median - 1), Limit: maxNoise,
			})
		if l.Kind.MaxRatio == maxHit {
			r.Limits = append(r.Limits, benchresult.Limit{
				Name: l.Kind.String() + ", overhead of queueing for a request that never waits", Value: l.Held.Median,
				Limit: 1 + maxNoise,
			})
		}
	}
}

// String returns the name of a kind.
func (k kind) String() string {
	if k.Bytes < 0 {
		return fmt.Sprintf("%s, %d at a time", k.Name, k.Concurrency)
	}
	return fmt.Sprintf("%s, %d bytes, %d at a time", k.Name, k.Bytes, k.Concurrency)
}

// table prints the results for people.
func (r *report) table(w io.Writer) {
	fmt.Fprintf(w, "processor time of a request, in multiples of a plain table's; %d hosts, %d blocks of %d requests\n\n",
		r.Hosts, r.Blocks, r.Requests)
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(columns, "request\tplain, µs")
	for _, name := range []string{"median", "control", "of queueing", "of stickiness", "of session affinity"} {
		fmt.Fprintf(columns, "\t%s\tquartiles", name)
	}
	fmt.Fprintln(columns, "\t")
	for _, l := range r.Lines {
		fmt.Fprintf(columns, "%v\t%.1f", l.Kind, l.Plain)
		for _, q := range []quartiles{l.Ratio, l.Control, l.Held, l.Sticky, l.Session} {
			fmt.Fprintf(columns, "\t%.3f\t%.3f–%.3f", q.Median, q.Low, q.High)
		}
		fmt.Fprintln(columns, "\t")
	}
	fmt.Fprintln(columns)
	benchresult.Print(columns, r.Limits, "\t")
	_ = columns.Flush() // the reader notices a table that cannot be printed
}
