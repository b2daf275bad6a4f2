package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/figures"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
)

// maxRatio is the limit for SetWeight's p50 in multiples of a bare GET and PUT of the same routes.
const maxRatio = 1.5

// report is what a run found.
type report struct {
	// Rollouts is the number of Rollouts of each size, and of calls of each kind in a round.
	Rollouts int `json:"rollouts"`
	// Repeats is the number of measured rounds of each kind.
	Repeats int `json:"repeats"`
	// Lines are the results by number of routes and kind of call.
	Lines []line `json:"results"`
	// Limits are the checks of the results.
	Limits []figures.Limit `json:"limits"`
}

// line is one kind of call with one number of routes; times in microseconds, each the median over the repeats.
type line struct {
	Routes int     `json:"routes"`
	Kind   string  `json:"kind"`
	P50    float64 `json:"p50us"`
	P99    float64 `json:"p99us"`
	Rate   float64 `json:"callsPerSecond"`
	Reads  float64 `json:"readsPerCall"`
	Writes float64 `json:"writesPerCall"`

	rounds        stopwatch.Series
	reads, writes int // of all repeats
}

// add takes the samples of one round.
func (r *report) add(routes int, samples map[string]sample) {
	for _, kind := range kinds() {
		measured, into := samples[kind], r.line(routes, kind)
		into.rounds.Add(measured.Sample)
		into.reads += measured.reads
		into.writes += measured.writes
	}
}

// line finds or begins a line.
func (r *report) line(routes int, kind string) *line {
	at := slices.IndexFunc(r.Lines, func(l line) bool { return l.Routes == routes && l.Kind == kind })
	if at < 0 {
		r.Lines = append(r.Lines, line{Routes: routes, Kind: kind})
		at = len(r.Lines) - 1
	}
	return &r.Lines[at]
}

// summarise works out the medians and the limits.
func (r *report) summarise() {
	total := float64(r.Rollouts * r.Repeats)
	for i := range r.Lines {
		l := &r.Lines[i]
		l.P50, l.P99, l.Rate = l.rounds.P50(), l.rounds.P99(), l.rounds.Rate()
		l.Reads, l.Writes = float64(l.reads)/total, float64(l.writes)/total
	}
	for _, routes := range sizes() {
		bare, changed := r.line(routes, bareGetPut), r.line(routes, setChanged)
		same, verified := r.line(routes, setSame), r.line(routes, verify)
		r.Limits = append(r.Limits,
			figures.Limit{Name: fmt.Sprintf("%s / %s, p50, %d routes", setChanged, bareGetPut, routes), Value: changed.rounds.Ratio(&bare.rounds), Limit: maxRatio},
			figures.Limit{Name: fmt.Sprintf("writes of a %s, %d routes", setChanged, routes), Value: changed.Writes, Limit: float64(routes)},
			figures.Limit{Name: fmt.Sprintf("requests of %s and %s, %d routes", setSame, verify, routes), Value: float64(same.reads + same.writes + verified.reads + verified.writes), Limit: 0})
	}
}

// table prints the results for people.
func (r *report) table(w io.Writer) {
	fmt.Fprintf(w, "%d Rollouts each with 1, 5 and 20 HTTPRoutes, one call a Rollout in a round, medians of %d rounds\n\n", r.Rollouts, r.Repeats)
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "routes\tcall\tp50 µs\tp99 µs\tcalls/s\treads/call\twrites/call\t")
	for _, l := range r.Lines {
		fmt.Fprintf(columns, "%d\t%s\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t\n", l.Routes, l.Kind, l.P50, l.P99, l.Rate, l.Reads, l.Writes)
	}
	fmt.Fprintln(columns)
	fmt.Fprintln(columns, "\tlimit\tvalue\tat most\t\t\t\t")
	figures.Print(columns, r.Limits, "\t\t")
	_ = columns.Flush() // a table that cannot be printed is noticed by its reader
}
