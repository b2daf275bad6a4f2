package faults

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/bed"
	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/stats"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
)

// The limits are twice what the control rounds, in which nothing is killed, have
// shown at their worst, on two cores with 13 processes waiting for them: recovered
// within 0.32 s, converged within 0.55 s. On a quiet machine both stay below 0.15 s.
const (
	// recoveredLimit bounds the time that the router takes to verify a weight after
	// a fault.
	recoveredLimit = time.Second
	// convergedLimit bounds the time that a weight takes to be in force everywhere.
	convergedLimit = time.Second
)

// line is the sum of the rounds of one part.
type line struct {
	part                             string
	rounds, void                     int
	sent, failed, lost               int
	strays, wrong                    int
	down, idle, recovered, converged []time.Duration
	slowest                          time.Duration
}

// sumUp adds up the rounds of each part, in the order of the parts. Of void ones
// only the number counts.
func sumUp(outcomes []outcome) []line {
	var lines []line
	for _, p := range parts() {
		l := line{part: p.name}
		for _, o := range outcomes {
			if o.part.name != p.name {
				continue
			}
			if o.void() {
				l.void++
				continue
			}
			l.rounds++
			l.sent += o.tally.Sent
			l.failed += o.tally.Failed
			l.lost += o.tally.Lost
			l.slowest = max(l.slowest, o.tally.Slowest)
			l.strays += len(o.strays)
			if o.wrong != nil {
				l.wrong++
			}
			l.down, l.idle = append(l.down, o.down), append(l.idle, o.idle)
			l.recovered, l.converged = append(l.recovered, o.recovered), append(l.converged, o.converged)
		}
		if l.rounds+l.void > 0 {
			lines = append(lines, l)
		}
	}
	return lines
}

// problem is something that a round has shown to be wrong.
type problem struct {
	text string
	// took are the times that were too long, where nothing but that is wrong.
	took []trace.Span
}

// problems are what a round has shown to be wrong.
func (o outcome) problems() []problem {
	var found []problem
	if answered := o.tally.Failed - len(o.tally.Unanswered); answered > 0 {
		text := fmt.Sprintf("%d requests failed that a living proxy could have served: %v", answered, o.tally.Reasons)
		found = append(found, problem{text: text})
	}
	if n := len(o.tally.Unanswered); n > 0 {
		text := fmt.Sprintf("%d requests had no answer from a living proxy: %v", n, o.tally.Reasons)
		found = append(found, problem{text, o.tally.Unanswered})
	}
	for _, stray := range o.strays {
		found = append(found, problem{text: "a weight that nobody asked for: " + stray})
	}
	if o.wrong != nil {
		found = append(found, problem{text: o.wrong.Error()})
	}
	return append(found, o.delays()...)
}

// delays are the times of a round that were too long.
func (o outcome) delays() []problem {
	var found []problem
	for _, d := range []struct {
		took, limit time.Duration
		text        string
		span        trace.Span
	}{
		{o.down, o.part.down, "away for %s", trace.Span{From: o.recovery.From.Add(-o.down), To: o.recovery.From}},
		{o.recovered, recoveredLimit, "the router took %s to verify a weight after the fault", o.recovery},
		{o.converged, convergedLimit, "in force only %s after the fault had ended and it was asked for", o.convergence},
	} {
		if d.took > d.limit {
			found = append(found, problem{fmt.Sprintf(d.text, seconds(d.took)), []trace.Span{d.span}})
		}
	}
	return found
}

// busy is by how much the load client may be late while something is measured
// that is to show anything. On a quiet machine it is late by less than 0.1 s, in
// the rounds that the limits come from by up to 0.22 s.
const busy = 500 * time.Millisecond

// void says that a round with problems shows nothing, because each of them is a
// time in which this machine didn't even let the load client run. That explains no
// status, no refused or reset connection, no split and no strange weight.
func (o outcome) void() bool {
	problems := o.problems()
	for _, p := range problems {
		if len(p.took) == 0 || slices.ContainsFunc(p.took, func(s trace.Span) bool { return !s.Within(o.late) }) {
			return false
		}
	}
	return len(problems) > 0
}

// describe is what was wrong in a round, line by line; empty if nothing was.
func (o outcome) describe() string {
	var lines []string
	for _, p := range o.problems() {
		lines = append(lines, p.text)
	}
	return strings.Join(lines, "\n")
}

// String implements fmt.Stringer.
func (o outcome) String() string {
	return fmt.Sprintf("kill %+.3f s  down %.1f s  idle %.2f s  recovered %.2f s  converged %.2f s  "+
		"requests %d, failed %d, lost %d, slowest %.2f s, at most %.0f ms late",
		o.drawn.offset.Seconds(), o.down.Seconds(), o.idle.Seconds(), o.recovered.Seconds(), o.converged.Seconds(),
		o.tally.Sent, o.tally.Failed, o.tally.Lost, o.tally.Slowest.Seconds(), o.lag.Seconds()*1000)
}

// table draws the lines with their limits.
func table(out io.Writer, lines []line) error {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "killed\trounds\tvoid\trequests\tfailed\tlost with it\tslowest\tstrange weights\twrong splits\t"+
		"down p50\tmax\tidle p50\tmax\trecovered p50\tmax\tconverged p50\tmax\t")
	for _, l := range lines {
		fmt.Fprintf(columns, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t\n", l.part, l.rounds, l.void,
			report.Count(l.sent), report.Count(l.failed), report.Count(l.lost), seconds(l.slowest), l.strays, l.wrong,
			span(l.down), span(l.idle), span(l.recovered), span(l.converged))
	}
	fmt.Fprintf(columns, "limit\t\t\t\t0\t\t%s\t0\t0\t\t\t\t\t\t%s\t\t%s\t\n",
		seconds(bed.RequestTimeout), seconds(recoveredLimit), seconds(convergedLimit))
	return columns.Flush()
}

// span draws the median and the largest of some times as two columns.
func span(times []time.Duration) string {
	return seconds(stats.Quantile(times, 0.5)) + "\t" + seconds(stats.Quantile(times, 1))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
