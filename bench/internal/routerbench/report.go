package routerbench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
)

// The limits of a SetWeight that changes something, in multiples of the bare write of the same rounds.
const (
	maxP50  = 1.15
	maxP99  = 1.5
	minRate = 0.85
	// maxRecovery limits the time from the plugin's death until all weights are set, in multiples of the sum of the no-op
	// plugin's time and of the slowest bare write (p99).
	maxRecovery = 2
)

// report contains the results of a run.
type report struct {
	// Plugin is the router's name in Rollouts.
	Plugin string `json:"plugin"`
	// Workload describes the objects.
	Workload string `json:"workload"`
	// Repeats is the number of measured rounds.
	Repeats int `json:"repeats"`
	// Lines are the results by case and kind of call.
	Lines []line `json:"results"`
	// Footprint is what the plugin takes.
	Footprint footprint `json:"footprint"`
	// Limits are the checks of the results.
	Limits []benchresult.Limit `json:"limits"`
}

// line is one kind of call in one case. Times are in microseconds, each the median over the rounds.
type line struct {
	Case   string  `json:"case"`
	Kind   string  `json:"kind"`
	P50    float64 `json:"p50us"`
	P99    float64 `json:"p99us"`
	Rate   float64 `json:"callsPerSecond"`
	Reads  float64 `json:"readsPerCall"`
	Writes float64 `json:"writesPerCall"`

	rounds               stopwatch.Series
	calls, reads, writes int // of all rounds
}

// add adds the samples of one round.
func (r *report) add(testCase Case, samples map[string]sample) {
	for _, kind := range kinds() {
		measured, ok := samples[kind]
		if !ok {
			continue
		}
		into := r.line(testCase, kind)
		into.rounds.Add(measured.Sample)
		into.calls += len(measured.Took)
		into.reads += measured.reads
		into.writes += measured.writes
	}
}

// line returns the line of a case and kind, and creates it if needed.
func (r *report) line(testCase Case, kind string) *line {
	at := slices.IndexFunc(r.Lines, func(l line) bool { return l.Case == testCase.Name && l.Kind == kind })
	if at < 0 {
		r.Lines = append(r.Lines, line{Case: testCase.Name, Kind: kind})
		at = len(r.Lines) - 1
	}
	return &r.Lines[at]
}

// summarise computes the medians and the limits.
func (r *report) summarise(cases []Case) {
	for i := range r.Lines {
		l := &r.Lines[i]
		l.P50, l.P99, l.Rate = l.rounds.P50(), l.rounds.P99(), l.rounds.Rate()
		l.Reads, l.Writes = float64(l.reads)/float64(l.calls), float64(l.writes)/float64(l.calls)
	}
	for _, testCase := range cases {
		r.limit(testCase)
	}
}

// limit adds the limits of a case.
func (r *report) limit(testCase Case) {
	changed, bare := r.line(testCase, setWeight), r.line(testCase, bareWrite)
	idle, nothing := r.line(testCase, resync), r.line(testCase, noResync)
	limit := func(name string, value, limit float64, atLeast bool, what ...string) {
		r.Limits = append(r.Limits, benchresult.Limit{
			Name: testCase.Name + ": " + name, Value: value, Limit: limit, AtLeast: atLeast, Of: strings.Join(what, ""),
		})
	}
	times := func(ours, base float64, what string) string {
		return fmt.Sprintf("%.2f ms, %s %.2f ms", ours/1000, what, base/1000)
	}
	rates := func(ours, base *line, what string) string {
		return fmt.Sprintf("%.0f/s, %s %.0f/s", ours.Rate, what, base.Rate)
	}
	limit("SetWeight / bare write, p50", changed.rounds.P50Ratio(&bare.rounds), maxP50, false,
		times(changed.P50, bare.P50, bareWrite))
	limit("SetWeight / bare write, p99", changed.rounds.P99Ratio(&bare.rounds), maxP99, false,
		times(changed.P99, bare.P99, bareWrite))
	limit("SetWeight / bare write, rate", changed.rounds.RateRatio(&bare.rounds), minRate, true,
		rates(changed, bare, bareWrite))
	limit("writes of a SetWeight", changed.Writes, float64(testCase.Objects), false)
	limit("reads of a SetWeight", changed.Reads, 0, false)
	limit("writes of an idle resync", idle.Writes, 0, false)
	limit("reads of an idle resync", idle.Reads, 0, false)
	if testCase.MinResync > 0 {
		limit("idle resync / no-op plugin, rate", idle.rounds.RateRatio(&nothing.rounds), testCase.MinResync, true,
			rates(idle, nothing, "no-op plugin"))
	}
	if testCase.Kill {
		healed, alone := r.line(testCase, killed), r.line(testCase, noKilled)
		limit("kill -9 until recovery / no-op plugin and bare write", healed.P50/(alone.P50+bare.P99), maxRecovery, false,
			times(healed.P50, alone.P50, "no-op plugin"), fmt.Sprintf(", bare write p99 %.2f ms", bare.P99/1000))
	}
}

// table prints the results for people.
func (r *report) table(w io.Writer) {
	fmt.Fprintf(w, "%s; medians of %d rounds\n\n", r.Workload, r.Repeats)
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "case\tcall\tp50 µs\tp99 µs\tcalls/s\treads/call\twrites/call\t")
	for _, l := range r.Lines {
		fmt.Fprintf(columns, "%s\t%s\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t\n",
			l.Case, l.Kind, l.P50, l.P99, l.Rate, l.Reads, l.Writes)
	}
	fmt.Fprintln(columns)
	benchresult.Print(columns, r.Limits, "\t\t")
	_ = columns.Flush() // the reader notices a table that cannot be printed
}
