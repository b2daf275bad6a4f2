package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

// Live is the content of the live frame.
type Live struct {
	// Elapsed is the time since the start of the demo.
	Elapsed time.Duration
	// Activity is the current action or wait.
	Activity string
	// Annotation, Acked and Envoy are the current weights: see Row.
	Annotation, Acked, Envoy string
	// Rate is the number of responses in the last second; Colors counts them by color.
	Rate   int
	Colors map[string]int
	// Ended, Failed and InFlight are numbers of requests since the start of the client. Ended includes Failed.
	Ended, Failed, InFlight int
	// Rows are the steps so far, the present one last.
	Rows []Row
}

// Frame draws the live frame, clipped to the given number of columns.
func (s Style) Frame(l Live, columns int) []string {
	failed := s.Good("0 failed")
	if l.Failed > 0 {
		failed = s.Bad(Count(l.Failed) + " failed")
	}
	lines := []string{
		s.Faint(strings.Repeat("─", columns)),
		fmt.Sprintf("%s  %s  %d answers/s  %s requests  %s  %d in flight",
			s.Heading("canary demo"), clock(l.Elapsed), l.Rate, Count(l.Ended), failed, l.InFlight),
		"now        " + s.strip(l.Colors, liveBar(columns)),
		fmt.Sprintf("weights    annotation %s, ACKed %s, Envoy %s", orDash(l.Annotation), orDash(l.Acked), orDash(l.Envoy)),
	}
	last := ""
	for _, r := range l.Rows {
		if r.Canary != last {
			last = r.Canary
			lines = append(lines, s.Heading(r.Canary))
		}
		lines = append(lines, s.liveRow(r, liveBar(columns)))
	}
	lines = append(lines, s.Faint("▸ "+l.Activity))
	for i := range lines {
		lines[i] = clip(lines[i], columns)
	}
	return lines
}

// orDash returns a dash for an unknown value.
func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// liveBar returns the number of columns of a bar. It is smaller on a narrow terminal, so that the numbers next to it
// stay visible.
func liveBar(columns int) int { return min(max(columns-45, 10), barWidth) }

// liveRow draws a step in one line, with a bar of the given number of columns.
func (s Style) liveRow(r Row, columns int) string {
	name := pad(r.Step, 8, false)
	split := r.Split()
	if split.Total == 0 {
		return fmt.Sprintf("  %s %s weights not yet acknowledged", name, s.Faint(strings.Repeat("·", columns)))
	}
	interval := split.Wilson(stats.Z95)
	line := fmt.Sprintf("  %s %s %s ±%.1f", name, s.paint(sgr(r.Color), bar(interval, r.Desired, columns)),
		pad(percent(split.Share(), 1), 7, true), (interval.High-interval.Low)*50)
	if r.State == Measuring {
		return line + s.Faint(fmt.Sprintf("  %s of %s", Count(r.Done), Count(r.Planned)))
	}
	return fmt.Sprintf("%s  %s  p99 %s", line, s.mark(r.State == Passed), Latency(r.P99))
}

// clock draws a duration as minutes and seconds.
func clock(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}
