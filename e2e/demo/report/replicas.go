package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Replicas is a request rate and the Pods at that rate.
type Replicas struct {
	// Step names the state, such as "25 requests/s".
	Step string
	// Rate is the number of requests per second.
	Rate float64
	// Expected is the number of replicas for the rate, Desired the number in the spec of the Rollout.
	Expected, Desired int
	// Stable and Canary are the numbers of Pods of the two sides.
	Stable, Canary int
	// After is how long the replicas took to reach the number.
	After time.Duration
	// State is Waiting, Passed or Failed.
	State State
}

// LiveReplicas is the content of the live frame while replicas follow a rate.
type LiveReplicas struct {
	// Elapsed is the time since the start of the demo.
	Elapsed time.Duration
	// Activity is the current action or wait.
	Activity string
	// Ended and Failed count the requests.
	Ended, Failed int
	// Rows are the rates so far, the present one last.
	Rows []Replicas
}

// ReplicasFrame draws the live frame, clipped to the given number of columns.
func (s Style) ReplicasFrame(l LiveReplicas, columns int) []string {
	failed := s.Good("0 failed")
	if l.Failed > 0 {
		failed = s.Bad(Count(l.Failed) + " failed")
	}
	lines := []string{
		s.Faint(strings.Repeat("─", columns)),
		fmt.Sprintf("%s  %s  %s requests  %s", s.Heading("replicas follow"), clock(l.Elapsed), Count(l.Ended), failed),
	}
	for _, r := range l.Rows {
		pods := s.paint(sgr("blue"), strings.Repeat("█", r.Stable)) + s.paint(sgr("yellow"), strings.Repeat("█", r.Canary))
		mark := " "
		if r.State != Waiting {
			mark = s.mark(r.State == Passed)
		}
		lines = append(lines, fmt.Sprintf("  %s %s %s %d stable, %d canary; %d expected",
			pad(r.Step, 30, false), pad(pods, 14, false), mark, r.Stable, r.Canary, r.Expected))
	}
	lines = append(lines, s.Faint("▸ "+l.Activity))
	for i := range lines {
		lines[i] = clip(lines[i], columns)
	}
	return lines
}

// ReplicasTable draws the rates and the Pods at each rate.
func (s Style) ReplicasTable(rows []Replicas) []string {
	cells := [][]string{{"step", "requests/s", "expected", "desired", "stable pods", "canary pods", "after", ""}}
	for _, r := range rows {
		after, verdict := "–", ""
		if r.State != Waiting {
			after, verdict = Seconds(r.After), s.mark(r.State == Passed)
		}
		cells = append(cells, []string{
			r.Step, strconv.FormatFloat(r.Rate, 'g', 4, 64), strconv.Itoa(r.Expected), strconv.Itoa(r.Desired),
			strconv.Itoa(r.Stable), strconv.Itoa(r.Canary), after, verdict,
		})
	}
	return s.columns(cells, []bool{false, true, true, true, true, true, true, false})
}
