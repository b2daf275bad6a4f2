package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/figures"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
	"github.com/kedify/argo-rollouts-plugin/e2e/stats"
)

const (
	// maxRatio is the limit for the p99 of a PATCH with the last number of objects, in multiples of a bare push's.
	maxRatio = 3
	// maxMemory is the limit for the interceptor's memory with the last number of objects, in MB.
	maxMemory = 80
)

// report is what a run found.
type report struct {
	// Repeats is the number of measured rounds, and Samples that of weights of each kind in one.
	Repeats int `json:"repeats"`
	Samples int `json:"samplesPerRound"`
	// Lines are the times by number of HTTPScaledObjects.
	Lines []line `json:"results"`
	// Memory is what the interceptor took.
	Memory memory `json:"memory"`
	// Limits are the checks of the results.
	Limits []figures.Limit `json:"limits"`
}

// line are the times with one number of HTTPScaledObjects.
type line struct {
	Objects int `json:"objects"`
	// Push is a bare push until the first response, Answer the PATCH until the API server answers, and Patch the PATCH until the first response.
	Push   quantiles `json:"barePush"`
	Answer quantiles `json:"patchAnswered"`
	Patch  quantiles `json:"patch"`

	pushes, answers, patches []time.Duration
}

// quantiles are those of one kind over all samples, in microseconds.
type quantiles struct {
	P50 float64 `json:"p50us"`
	P90 float64 `json:"p90us"`
	P99 float64 `json:"p99us"`
}

// quantilesOf samples.
func quantilesOf(samples []time.Duration) quantiles {
	at := func(q float64) float64 { return stopwatch.Micros(stats.Quantile(samples, q)) }
	return quantiles{at(0.5), at(0.9), at(0.99)}
}

// summarise works out the quantiles and the limits.
func (r *report) summarise() {
	for i := range r.Lines {
		l := &r.Lines[i]
		l.Push, l.Answer, l.Patch = quantilesOf(l.pushes), quantilesOf(l.answers), quantilesOf(l.patches)
	}
	last := r.Lines[len(r.Lines)-1]
	r.Limits = append(r.Limits,
		figures.Limit{Name: fmt.Sprintf("PATCH / bare push, p99, %d objects", last.Objects), Value: last.Patch.P99 / last.Push.P99, Limit: maxRatio},
		figures.Limit{Name: fmt.Sprintf("interceptor after start, MB, %d objects", r.Memory.Objects), Value: r.Memory.Start, Limit: maxMemory},
	)
	if r.Memory.Seconds > 0 {
		r.Limits = append(r.Limits, figures.Limit{
			Name: fmt.Sprintf("interceptor under %.0f changes/s, MB", r.Memory.Changes), Value: r.Memory.Churn, Limit: maxMemory,
		})
	}
}

// table prints the results for people.
func (r *report) table(w io.Writer) {
	fmt.Fprintf(w, "from a change to the first response with the new split, ms, %d weights of each kind\n\n", r.Repeats*r.Samples)
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "HTTPScaledObjects\tchange\tp50\tp90\tp99\t")
	for _, l := range r.Lines {
		for _, kind := range []struct {
			name string
			took quantiles
		}{{"bare push", l.Push}, {"PATCH, until it is answered", l.Answer}, {"PATCH", l.Patch}} {
			fmt.Fprintf(columns, "%d\t%s\t%.1f\t%.1f\t%.1f\t\n", l.Objects, kind.name, kind.took.P50/1000, kind.took.P90/1000, kind.took.P99/1000)
		}
	}
	fmt.Fprintln(columns)
	fmt.Fprintln(columns, "interceptor\tMB resident\tof that anonymous\t\t\t")
	fmt.Fprintf(columns, "after its start\t%.1f\t%.1f\t\t\t\n", r.Memory.Start, r.Memory.StartAnonymous)
	fmt.Fprintf(columns, "highest in %.0f s of changes\t%.1f\t%.1f\t\t\t\n", r.Memory.Seconds, r.Memory.Churn, r.Memory.ChurnAnonymous)
	fmt.Fprintln(columns)
	figures.Print(columns, r.Limits, "")
	_ = columns.Flush() // a table that cannot be printed is noticed by its reader
}
