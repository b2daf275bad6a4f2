package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/figures"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
)

const (
	// maxRatio is the limit for SetWeight's p50 in multiples of a bare PATCH's.
	maxRatio = 1.5
	// maxWrites is the limit for the writes of unchanged SetWeights.
	maxWrites = 0
)

// report is what a run found.
type report struct {
	// Objects is the number of HTTPScaledObjects in the cluster.
	Objects int `json:"objects"`
	// Calls is the number of calls of each kind in a round.
	Calls int `json:"callsPerRound"`
	// Repeats is the number of measured rounds of each kind.
	Repeats int `json:"repeats"`
	// Lines are the results by workers and kind.
	Lines []line `json:"results"`
	// Limits are the checks of the results.
	Limits []figures.Limit `json:"limits"`
}

// line is one kind of call with one number of workers; times in microseconds, each the median over the repeats.
type line struct {
	Workers int     `json:"workers"`
	Kind    string  `json:"kind"`
	P50     float64 `json:"p50us"`
	P99     float64 `json:"p99us"`
	Rate    float64 `json:"callsPerSecond"`
	Reads   int     `json:"reads"`  // of all repeats
	Writes  int     `json:"writes"` // of all repeats

	rounds stopwatch.Series
}

// add takes the samples of one round.
func (r *report) add(callers int, samples map[string]sample) {
	for _, kind := range kinds() {
		measured, into := samples[kind], r.line(callers, kind)
		into.rounds.Add(measured.Sample)
		into.Reads += measured.reads
		into.Writes += measured.writes
	}
}

// line finds or begins a line.
func (r *report) line(callers int, kind string) *line {
	at := slices.IndexFunc(r.Lines, func(l line) bool { return l.Workers == callers && l.Kind == kind })
	if at < 0 {
		r.Lines = append(r.Lines, line{Workers: callers, Kind: kind})
		at = len(r.Lines) - 1
	}
	return &r.Lines[at]
}

// summarise works out the medians and the limits.
func (r *report) summarise() {
	for i := range r.Lines {
		l := &r.Lines[i]
		l.P50, l.P99, l.Rate = l.rounds.P50(), l.rounds.P99(), l.rounds.Rate()
	}
	for _, callers := range workers() {
		bare, changed, same := r.line(callers, barePatch), r.line(callers, setChanged), r.line(callers, setSame)
		r.Limits = append(r.Limits,
			figures.Limit{Name: fmt.Sprintf("%s / %s, p50, %d workers", setChanged, barePatch, callers), Value: changed.rounds.Ratio(&bare.rounds), Limit: maxRatio},
			figures.Limit{Name: fmt.Sprintf("writes of %d × %s, %d workers", r.Calls*r.Repeats, setSame, callers), Value: float64(same.Writes), Limit: maxWrites})
	}
}

// table prints the results for people.
func (r *report) table(w io.Writer) {
	fmt.Fprintf(w, "%d HTTPScaledObjects, %d calls a round, medians of %d rounds\n\n", r.Objects, r.Calls, r.Repeats)
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "workers\tcall\tp50 µs\tp99 µs\tcalls/s\treads/call\twrites/call\t")
	total := float64(r.Calls * r.Repeats)
	for _, l := range r.Lines {
		fmt.Fprintf(columns, "%d\t%s\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t\n", l.Workers, l.Kind, l.P50, l.P99, l.Rate, float64(l.Reads)/total, float64(l.Writes)/total)
	}
	fmt.Fprintln(columns)
	fmt.Fprintln(columns, "\tlimit\tvalue\tat most\t\t\t\t")
	figures.Print(columns, r.Limits, "\t\t")
	_ = columns.Flush() // a table that cannot be printed is noticed by its reader
}
