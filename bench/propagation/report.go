package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/plot"
	"github.com/kedify/argo-rollouts-plugin/bench/internal/stopwatch"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// maxRatio50 and maxRatio99 limit the time of a PATCH until the first response, in multiples of the sum of a bare
	// push until the first response and of a PATCH until its answer.
	maxRatio50, maxRatio99 = 1.5, 2
	// maxReported limits the p99 of a PATCH in milliseconds, while proxies send metrics.
	maxReported = 25
	// smallMemory limits the interceptor's memory with up to smallObjects HTTPScaledObjects, largeMemory with up to
	// largeObjects. Both are in MB.
	smallObjects, smallMemory = 1000, 60
	largeObjects, largeMemory = 10000, 150
)

// report contains the results of a run.
type report struct {
	// Samples is the number of weights of each kind, without and with other changes.
	Samples int `json:"samples"`
	// Sink reports whether the measured proxy sent its metrics to the interceptor.
	Sink bool `json:"sink"`
	// TLS reports whether the measured proxy connected by TLS.
	TLS bool `json:"tls"`
	// Reporters is the number of more proxies that sent metrics.
	Reporters int `json:"reporters,omitempty"`
	// Results are the results of each shape.
	Results []result `json:"results"`
	// Limits are the checks of the results.
	Limits []benchresult.Limit `json:"limits"`
	// Lines is the diagram of a soak.
	Lines *plot.Diagram `json:"lines,omitempty"`
}

// result contains the results of one shape.
type result struct {
	Shape shape `json:"shape"`
	// Quiet are the times without other changes, Busy those with other changes.
	Quiet cell `json:"quiet"`
	Busy  cell `json:"busy"`
	// Cost is the usage per weight without other changes, including the status writes.
	Cost usage `json:"costOfAWeight"`
	// Memory is the interceptor's memory.
	Memory memory `json:"interceptorMemory"`
	// Joining are the results of the last shape.
	Joining joining `json:"joining,omitzero"`
	// MetricsPerSecond is the number of metrics of --reporters.
	MetricsPerSecond float64 `json:"metricsPerSecond,omitempty"`
	// NominalMetrics is that number if no proxy is late.
	NominalMetrics float64 `json:"nominalMetricsPerSecond,omitempty"`
	// Soak are the results of a soak.
	Soak soak `json:"soak,omitzero"`
	// Accuracy are the results with --accuracy.
	Accuracy *accuracy `json:"accuracy,omitempty"`
	// Comparison are the results with --envoy-gateway.
	Comparison *comparison `json:"comparison,omitempty"`
}

// cell contains the times of one kind.
type cell struct {
	// Push is a bare push until the first response. Answer is the PATCH until the API server's answer. Patch is the
	// PATCH until the first response.
	Push   quantiles `json:"barePush"`
	Answer quantiles `json:"patchAnswered"`
	Patch  quantiles `json:"patch"`

	pushes, answers, patches []time.Duration
}

// quantiles are the quantiles of one kind over all samples, in microseconds.
type quantiles struct {
	P50 float64 `json:"p50us"`
	P90 float64 `json:"p90us"`
	P99 float64 `json:"p99us"`
}

// memory is the interceptor's memory, in MB of a million bytes: resident, and its part without backing files.
type memory struct {
	Idle          float64 `json:"idleMB"`
	IdleAnonymous float64 `json:"idleAnonymousMB"`
	// Read is the memory right after a read of the metrics of an idle interceptor. Page is the size of the metrics.
	Read float64 `json:"readMB"`
	Page float64 `json:"pageMB"`
	// Busy is the maximum of one reading per second during other changes.
	Busy             float64 `json:"busyMB"`
	BusyAnonymous    float64 `json:"busyAnonymousMB"`
	ChangesPerSecond float64 `json:"changesPerSecond"`
}

// quantilesOf returns the quantiles of samples.
func quantilesOf(samples []time.Duration) quantiles {
	at := func(q float64) float64 { return stopwatch.Micros(stats.Quantile(samples, q)) }
	return quantiles{at(0.5), at(0.9), at(0.99)}
}

// summarise computes the quantiles.
func (c *cell) summarise() {
	c.Push, c.Answer, c.Patch = quantilesOf(c.pushes), quantilesOf(c.answers), quantilesOf(c.patches)
}

// summarise computes the quantiles and the limits.
func (r *report) summarise() {
	for i := range r.Results {
		entry := &r.Results[i]
		if entry.Accuracy != nil {
			r.Limits = append(r.Limits, entry.Accuracy.limits()...)
			continue
		}
		if entry.Comparison != nil {
			r.Limits = append(r.Limits, entry.Comparison.limits(entry.Shape.Objects)...)
			continue
		}
		if len(entry.Soak.Readings) > 0 {
			r.Limits = append(r.Limits, entry.Soak.limits(entry.Shape)...)
			r.Lines = &plot.Diagram{Axis: fmt.Sprintf("%.0f minutes", entry.Soak.minutes()), Series: entry.Soak.series()}
			continue
		}
		entry.Quiet.summarise()
		entry.Busy.summarise()
		r.Limits = append(r.Limits, entry.Quiet.limits(entry.Shape.String()+", quiet")...)
		r.Limits = append(r.Limits, entry.Busy.limits(entry.Shape.String()+", busy")...)
		if r.Reporters > 0 {
			r.Limits = append(r.Limits, entry.reportedLimits(r.Reporters)...)
			continue
		}
		r.Limits = append(r.Limits, entry.memoryLimits()...)
		if entry.Joining.Requests > 0 {
			r.Limits = append(r.Limits, benchresult.Limit{
				Name: "404 for known hosts while a proxy joins, " + entry.Shape.String(), Value: float64(entry.Joining.NotFound),
			})
		}
	}
}

// limits returns the limits of the times.
func (c *cell) limits(label string) []benchresult.Limit {
	const name = "PATCH / (bare push + PATCH answered), "
	of := func(patch, push, answer float64) string {
		return fmt.Sprintf("%.1f ms, push %.1f ms + PATCH %.1f ms", patch/1000, push/1000, answer/1000) //nolint:mnd // milliseconds
	}
	return []benchresult.Limit{
		{
			Name: name + "p50, " + label, Of: of(c.Patch.P50, c.Push.P50, c.Answer.P50),
			Value: c.Patch.P50 / (c.Push.P50 + c.Answer.P50), Limit: maxRatio50,
		},
		{
			Name: name + "p99, " + label, Of: of(c.Patch.P99, c.Push.P99, c.Answer.P99),
			Value: c.Patch.P99 / (c.Push.P99 + c.Answer.P99), Limit: maxRatio99,
		},
	}
}

// reportedLimits returns the limit of the time of a PATCH while proxies send metrics, and that of the metrics they sent.
func (r *result) reportedLimits(reporters int) []benchresult.Limit {
	const minShare = 0.9
	return []benchresult.Limit{{
		Name:  fmt.Sprintf("metrics sent by %d proxies / with a message each second", reporters),
		Value: r.MetricsPerSecond / r.NominalMetrics, Limit: minShare, AtLeast: true,
	}, {
		Name:  fmt.Sprintf("PATCH to first response, p99, ms, %v, %d proxies report", r.Shape, reporters),
		Of:    fmt.Sprintf("%.0f metrics/s", r.MetricsPerSecond),
		Value: r.Quiet.Patch.P99 / 1000, Limit: maxReported, //nolint:mnd // milliseconds
	}}
}

// memoryLimits returns the limits of the memory, for a shape that has some.
func (r *result) memoryLimits() []benchresult.Limit {
	var limit float64
	switch {
	case r.Shape.Objects <= smallObjects:
		limit = smallMemory
	case r.Shape.Objects <= largeObjects:
		limit = largeMemory
	default:
		return nil
	}
	return []benchresult.Limit{
		{Name: fmt.Sprintf("interceptor, MB, %v, idle", r.Shape), Value: r.Memory.Idle, Limit: limit},
		{
			Name:  fmt.Sprintf("interceptor, MB, %v, %.0f changes/s", r.Shape, r.Memory.ChangesPerSecond),
			Value: r.Memory.Busy, Limit: limit,
		},
	}
}

// table prints the results for people.
func (r *report) table(w io.Writer) {
	if r.special(w) {
		columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		benchresult.Print(columns, r.Limits, "\t")
		_ = columns.Flush() // the reader notices a table that cannot be printed
		return
	}
	metrics := map[bool]string{true: ", metrics sent to the interceptor"}[r.Sink] + map[bool]string{true: ", TLS"}[r.TLS]
	fmt.Fprintf(w, "from a change to the first response with the new split, ms, %d weights of each kind%s\n\n", r.Samples,
		metrics)
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "fleets × objects\t\tchange\tp50\tp90\tp99\t")
	for i := range r.Results {
		r.Results[i].Quiet.rows(columns, r.Results[i].Shape.String(), "quiet")
		r.Results[i].Busy.rows(columns, r.Results[i].Shape.String(), "busy")
	}
	fmt.Fprintln(columns)
	fmt.Fprintln(columns,
		"a weight costs\tinterceptor µs\tEnvoy's main thread µs\tof a bare push\tbytes\tof a bare push\t")
	for _, entry := range r.Results {
		fmt.Fprintf(columns, "%v\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t\n", entry.Shape,
			entry.Cost.Interceptor, entry.Cost.Proxy, entry.Cost.BareProxy, entry.Cost.Bytes, entry.Cost.BareBytes)
	}
	fmt.Fprintln(columns)
	fmt.Fprintln(columns, "interceptor\tidle MB\tof that anonymous\tmetrics read MB\ttheir page MB\tbusy MB\tof that "+
		"anonymous\t")
	for _, entry := range r.Results {
		fmt.Fprintf(columns, "%v\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", entry.Shape,
			entry.Memory.Idle, entry.Memory.IdleAnonymous, entry.Memory.Read, entry.Memory.Page, entry.Memory.Busy, entry.Memory.BusyAnonymous)
	}
	fmt.Fprintln(columns)
	_ = columns.Flush() // See below.
	for _, entry := range r.Results {
		if r.Reporters > 0 {
			fmt.Fprintf(w, "%v: %d proxies sent %.0f metrics a second\n\n", entry.Shape, r.Reporters, entry.MetricsPerSecond)
		}
		if joined := entry.Joining; joined.Requests > 0 {
			fmt.Fprintf(w, "%v: a proxy joined and was ready after %.0f ms; %d requests meanwhile, %d answered with 404\n",
				entry.Shape, joined.Ready, joined.Requests, joined.NotFound)
			fmt.Fprintf(w, "%v: %d clients and that proxy reconnected at once, all served after %.0f ms; "+
				"%d weights meanwhile, the slowest %.0f ms; interceptor at most %.0f MB, %.0f MB when they first connected\n\n",
				entry.Shape, joined.Clients, joined.Again, joined.Weights, joined.Slowest, joined.Peak, joined.First)
		}
	}
	benchresult.Print(columns, r.Limits, "\t")
	_ = columns.Flush() // the reader notices a table that cannot be printed
}

// special prints the results of --soak, --accuracy or --envoy-gateway. It returns false for a report of none of them.
func (r *report) special(w io.Writer) bool {
	switch first := r.Results[0]; {
	case first.Comparison != nil:
		compareTable(w, r.Results)
	case r.Lines != nil:
		first.Soak.table(w)
	case first.Accuracy != nil:
		first.Accuracy.table(w)
	default:
		return false
	}
	return true
}

// rows prints the times of one cell.
func (c *cell) rows(w io.Writer, of, load string) {
	for _, kind := range []struct {
		name string
		took quantiles
	}{{"bare push", c.Push}, {"PATCH until its answer", c.Answer}, {"PATCH", c.Patch}} {
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\t%.1f\t%.1f\t\n", of, load, kind.name,
			kind.took.P50/1000, kind.took.P90/1000, kind.took.P99/1000)
	}
}
