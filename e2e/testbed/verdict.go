package testbed

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/invariant"
)

// Check names an invariant of a canary under load.
type Check string

// The checks. Each of them detects something that no other check detects.
const (
	// CheckStuck reports an awaited state that was not reached.
	CheckStuck Check = "stuck"
	// CheckSplit measures how many requests return the canary's color.
	CheckSplit Check = invariant.Split
	// CheckFailedRequests counts the failed requests.
	CheckFailedRequests Check = invariant.FailedRequests
	// CheckUnexpectedWeights reports observed weights that were not requested.
	CheckUnexpectedWeights Check = invariant.UnexpectedWeights
	// CheckEarlyACK reports weights that the status reported as ACKed by every proxy before an Envoy ran them.
	CheckEarlyACK Check = invariant.EarlyACK
	// CheckEnd reports weights and traffic splits that are wrong after the end of the canary.
	CheckEnd Check = invariant.End
	// CheckOverload reports that this machine could not generate the load, so the measurement is invalid.
	CheckOverload Check = "overload"
)

// Finding is a failed check.
type Finding struct {
	Check Check
	Text  string
}

// String implements fmt.Stringer.
func (f Finding) String() string { return string(f.Check) + ": " + f.Text }

// Report marks a test as failed. A state that was not reached or a failed measurement is an error, everything else a
// broken invariant.
func (f Finding) Report(tb testing.TB) {
	tb.Helper()
	if f.Check == CheckStuck || f.Check == CheckOverload {
		tb.Error(f)
		return
	}
	invariant.Broken(tb, string(f.Check), "%s", f.Text)
}

// Verdict contains the result of all checks of one canary.
type Verdict struct {
	Findings []Finding
	// Timeline describes what was observed, expected or not.
	Timeline []string
}

// Failed returns the checks with findings, sorted by name.
func (v *Verdict) Failed() []Check {
	var failed []Check
	for _, f := range v.Findings {
		failed = append(failed, f.Check)
	}
	slices.Sort(failed)
	return slices.Compact(failed)
}

// Print writes the timeline of the canary.
func (v *Verdict) Print(out io.Writer) {
	fmt.Fprintln(out, strings.Join(v.Timeline, "\n  "))
}

// add adds a finding.
func (v *Verdict) add(check Check, texts ...string) {
	for _, text := range texts {
		v.Findings = append(v.Findings, Finding{check, text})
	}
}

// evaluate checks the record since began, and the load. The canary requested these weights one after the other. The
// final state is checked only if the canary has ended.
func (v *Verdict) evaluate(record *Record, began time.Time, requested []int, tally trace.Tally, ended bool) {
	v.Timeline = append([]string{fmt.Sprintf("%d requests, %d failed; requested weights %v", tally.Sent, tally.Failed,
		requested)}, record.Timeline(began)...)
	if tally.Failed > 0 || tally.Sent == 0 {
		v.add(CheckFailedRequests, fmt.Sprintf("%d of %d requests failed: %v\n%s", tally.Failed, tally.Sent, tally.Reasons,
			strings.Join(tally.Describe(began, RequestTimeout()), "\n")))
	}
	v.add(CheckEarlyACK, record.EarlyACKs(began, requested...)...)
	if !ended {
		v.add(CheckUnexpectedWeights, record.UnexpectedWeights(began, requested...)...)
		return
	}
	v.add(CheckUnexpectedWeights, record.UnexpectedTransientWeights(began, requested...)...)
	v.add(CheckEnd, record.WrongFinalWeights(began, requested[len(requested)-1])...)
}
