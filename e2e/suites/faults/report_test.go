package faults

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/demo/report"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

// The limits are twice the maxima of the control rounds, in which nothing is killed,
// on two cores with 13 processes waiting for them: recovered
// within 0.32 s, converged within 0.55 s. On a quiet machine both stay below 0.15 s.
// They are reported next to the measured times, and fail nothing.
const (
	// recoveredLimit is the limit of the time that the router takes to verify a weight after a fault.
	recoveredLimit = time.Second
	// convergedLimit is the limit of the time until a weight is active on all proxies.
	convergedLimit = time.Second
)

// line summarizes the rounds of one component.
type line struct {
	component                        string
	limit                            time.Duration // limit of down
	rounds                           int
	sent, failed, lost               int
	unexpected, wrong                int
	down, idle, recovered, converged []time.Duration
	slowest, stalled                 time.Duration
}

// summarize summarizes the rounds of each component, in the order of the components.
func summarize(outcomes []outcome) []line {
	var lines []line
	for _, p := range components() {
		l := line{component: p.name, limit: p.down}
		for _, o := range outcomes {
			if o.component.name != p.name {
				continue
			}
			l.rounds++
			l.sent += o.tally.Sent
			l.failed += o.tally.Failed
			l.lost += o.tally.Lost
			l.slowest, l.stalled = max(l.slowest, o.tally.Slowest), max(l.stalled, o.stalled)
			l.unexpected += len(o.unexpected)
			if o.splitErr != nil {
				l.wrong++
			}
			l.down, l.idle = append(l.down, o.down), append(l.idle, o.idle)
			l.recovered, l.converged = append(l.recovered, o.recovered), append(l.converged, o.converged)
		}
		if l.rounds > 0 {
			lines = append(lines, l)
		}
	}
	return lines
}

// problem is a broken invariant of a round.
type problem struct{ kind, text string }

// problems returns the invariants that a round has broken.
func (o outcome) problems() []problem {
	var problems []problem
	if n := o.tally.Failed; n > 0 {
		text := fmt.Sprintf("%d requests failed that a living proxy could have served: %v", n, o.tally.Reasons)
		problems = append(problems, problem{invariant.FailedRequests, text})
	}
	for _, stray := range o.unexpected {
		problems = append(problems, problem{invariant.UnexpectedWeights, "a weight that was not requested: " + stray})
	}
	if o.splitErr != nil {
		problems = append(problems, problem{invariant.Split, o.splitErr.Error()})
	}
	return problems
}

// String implements fmt.Stringer.
func (o outcome) String() string {
	return fmt.Sprintf("kill %+.3f s  down %.1f s  idle %.2f s  recovered %.2f s  converged %.2f s  "+
		"requests %d, failed %d, lost %d, slowest %.2f s, machine stalled for %.0f ms",
		o.drawn.offset.Seconds(), o.down.Seconds(), o.idle.Seconds(), o.recovered.Seconds(), o.converged.Seconds(),
		o.tally.Sent, o.tally.Failed, o.tally.Lost, o.tally.Slowest.Seconds(), o.stalled.Seconds()*1000)
}

// table formats the lines. The limits next to the times fail nothing.
func table(out io.Writer, lines []line) error {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "killed\trounds\trequests\tfailed\tlost with it\tslowest\tunexpected weights\twrong "+
		"splits\tmachine stalled\t"+
		"down p50\tp90\tmax\tlimit\tidle p50\tp90\tmax\trecovered p50\tp90\tmax\tlimit\tconverged p50\tp90\tmax\tlimit\t")
	for _, l := range lines {
		fmt.Fprintf(columns, "%s\t%d\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", l.component, l.rounds,
			report.Count(l.sent), report.Count(l.failed), report.Count(l.lost), seconds(l.slowest), l.unexpected,
			l.wrong, seconds(l.stalled),
			span(l.down), seconds(l.limit), span(l.idle), span(l.recovered), seconds(recoveredLimit),
			span(l.converged), seconds(convergedLimit))
	}
	return columns.Flush()
}

// span formats the median, the 90th percentile and the maximum as three columns.
func span(times []time.Duration) string {
	return seconds(stats.Quantile(times, 0.5)) + "\t" + seconds(stats.Quantile(times, 0.9)) + "\t" +
		seconds(stats.Quantile(times, 1))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
