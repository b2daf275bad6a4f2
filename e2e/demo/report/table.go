package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

// State is the state of a row.
type State int

// The states of a row.
const (
	// Waiting: the weight is not active yet.
	Waiting State = iota
	// Measuring: requests are being counted.
	Measuring
	// Passed: the measured split is the expected one.
	Passed
	// Failed: the measured split is not the expected one.
	Failed
)

// Row is a state of a canary: the expected weight, the annotation, the ACKed weight, Envoy's weight and the measured
// requests.
type Row struct {
	// Canary names the rollout, such as "blue → yellow".
	Canary string
	// Step names the state, such as "20 %" or "aborted".
	Step string
	// Color is the measured color, Desired its expected share from 0 to 1.
	Color   string
	Desired float64
	// Annotation and Envoy are the weights at these places. Acked are the weights that every proxy has ACKed, or "n of m".
	Annotation, Acked, Envoy string
	// Colors counts the responses of the sample by color.
	Colors map[string]int
	// Planned and Done are the numbers of planned and completed requests of the sample.
	Planned, Done int
	// Errors is the number of failed requests since the previous row.
	Errors int
	// P50 and P99 are quantiles of the latency.
	P50, P99 time.Duration
	// Sigmas is the deviation of the sample from the expected share, in standard deviations.
	Sigmas float64
	State  State
}

// Split returns the measured share of the row's color.
func (r Row) Split() stats.Split {
	s := stats.Split{Hits: r.Colors[r.Color]}
	for _, n := range r.Colors {
		s.Total += n
	}
	return s
}

// Verdict draws the comparison of the sample with the expected share.
func (s Style) Verdict(r Row) string {
	text := fmt.Sprintf("%s of %s, desired %s: ", percent(r.Split().Share(), 2), r.Color, Percent(r.Desired))
	switch {
	case r.Desired <= 0 || r.Desired >= 1:
		if r.State == Passed {
			text += "exact"
		} else {
			text += "not exact"
		}
	default:
		text += fmt.Sprintf("%.1f σ off", r.Sigmas)
	}
	return s.mark(r.State == Passed) + " " + text
}

// measured returns the row's cell for the split.
func (s Style) measured(r Row) string {
	split := r.Split()
	if split.Total == 0 {
		return "–"
	}
	interval := split.Wilson(stats.Z95)
	text := fmt.Sprintf("%s [%.1f, %.1f]", pad(percent(split.Share(), 2), 8, true), interval.Low*100, interval.High*100)
	switch r.State {
	case Passed, Failed:
		return text + " " + s.mark(r.State == Passed)
	default:
		return text
	}
}

// Table draws the rows of all canaries.
func (s Style) Table(rows []Row) []string {
	cells := [][]string{{
		"canary", "step", "desired", "annotation", "ACKed", "Envoy", "measured [95 %]",
		"requests", "errors", "p50", "p99",
	}}
	right := []bool{false, false, true, true, true, true, false, true, true, true, true}
	last := ""
	for _, r := range rows {
		canary := r.Canary
		if canary == last {
			canary = ""
		}
		last = r.Canary
		cells = append(cells, []string{
			canary, r.Step, fmt.Sprintf("%s %s", Percent(r.Desired), r.Color), r.Annotation, r.Acked, r.Envoy,
			s.measured(r), Count(r.Done), Count(r.Errors), Latency(r.P50), Latency(r.P99),
		})
	}
	return s.columns(cells, right)
}

// columns aligns cells; the first line is the header.
func (s Style) columns(cells [][]string, right []bool) []string {
	widths := make([]int, len(right))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], width(cell))
		}
	}
	var lines []string
	for n, line := range cells {
		padded := make([]string, len(line))
		for i, cell := range line {
			padded[i] = pad(cell, widths[i], right[i])
		}
		text := strings.TrimRight(strings.Join(padded, "  "), " ")
		if n == 0 {
			text = s.Heading(text)
		}
		lines = append(lines, text)
	}
	return lines
}

// Check is a condition that must hold at the end.
type Check struct {
	// Name is the condition, Detail the observed result.
	Name, Detail string
	// OK reports whether it holds.
	OK bool
	// Invariant is the kind of the product's invariant that a failed check breaks; empty for other checks.
	Invariant string
}

// Checks draws the checks.
func (s Style) Checks(checks []Check) []string {
	var lines []string
	for _, c := range checks {
		lines = append(lines, fmt.Sprintf("%s %s: %s", s.mark(c.OK), c.Name, c.Detail))
	}
	return lines
}
