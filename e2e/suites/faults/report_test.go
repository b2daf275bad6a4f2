package faults

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/e2e/stats"
)

// limit is the time within which a weight has to be in force once a fault has
// ended.
const limit = 2 * time.Second

// line is the sum of the rounds of one part.
type line struct {
	part                           string
	rounds, void                   int
	sent, failed, lost             int
	strays, wrong                  int
	downP50, downMax               time.Duration
	idleP50, idleMax               time.Duration
	convergedP50, convergedSlowest time.Duration
}

// sumUp adds up the rounds of each part, in the order of the parts. Of void ones
// only the number counts.
func sumUp(outcomes []outcome) []line {
	var lines []line
	for _, p := range parts() {
		l := line{part: p.name}
		var down, idle, converged []time.Duration
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
			l.strays += len(o.strays)
			if o.wrong != nil {
				l.wrong++
			}
			down, idle, converged = append(down, o.down), append(idle, o.idle), append(converged, o.converged)
		}
		if l.rounds == 0 {
			continue
		}
		l.downP50, l.downMax = stats.Quantile(down, 0.5), slices.Max(down)
		l.idleP50, l.idleMax = stats.Quantile(idle, 0.5), slices.Max(idle)
		l.convergedP50, l.convergedSlowest = stats.Quantile(converged, 0.5), slices.Max(converged)
		lines = append(lines, l)
	}
	return lines
}

// problems are what the rounds of a part have shown to be wrong.
func (o outcome) problems() []string {
	var found []string
	if o.tally.Failed > 0 {
		found = append(found, fmt.Sprintf("%d requests failed that a living proxy could have served: %v", o.tally.Failed, o.tally.Reasons))
	}
	for _, stray := range o.strays {
		found = append(found, "a weight that nobody asked for: "+stray)
	}
	if o.converged > limit {
		found = append(found, fmt.Sprintf("in force only %s after the fault had ended and it was asked for", report.Seconds(o.converged)))
	}
	if o.wrong != nil {
		found = append(found, o.wrong.Error())
	}
	if o.overload != nil {
		found = append(found, o.overload.Error())
	}
	return found
}

// busy is by how much the load client may be late in a round that is to show
// anything: on a quiet machine it is below 0.1 s.
const busy = 500 * time.Millisecond

// void says that a round with problems shows nothing, because this machine
// didn't even let the load client run. A strange weight is one however slow the
// machine is.
func (o outcome) void() bool {
	return (o.lag > busy || o.overload != nil) && len(o.strays) == 0 && len(o.problems()) > 0
}

// String implements fmt.Stringer.
func (o outcome) String() string {
	return fmt.Sprintf("kill %+.3f s  down %.1f s  idle %.1f s  converged %.2f s  requests %d, failed %d, lost %d, at most %.0f ms late",
		o.drawn.offset.Seconds(), o.down.Seconds(), o.idle.Seconds(), o.converged.Seconds(), o.tally.Sent, o.tally.Failed, o.tally.Lost, o.lag.Seconds()*1000)
}

// table draws the lines with their limits.
func table(out io.Writer, lines []line) error {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "killed\trounds\tvoid\trequests\tfailed\tlost with it\tstrange weights\twrong splits\tdown p50\tmax\tidle p50\tmax\tconverged p50\tmax\t")
	for _, l := range lines {
		fmt.Fprintf(columns, "%s\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", l.part, l.rounds, l.void, report.Count(l.sent), report.Count(l.failed), report.Count(l.lost),
			l.strays, l.wrong, report.Seconds(l.downP50), report.Seconds(l.downMax),
			report.Seconds(l.idleP50), report.Seconds(l.idleMax), report.Seconds(l.convergedP50), report.Seconds(l.convergedSlowest))
	}
	fmt.Fprintf(columns, "limit\t\t\t\t0\t\t0\t0\t\t\t\t\t\t%s\t\n", report.Seconds(limit))
	return columns.Flush()
}
