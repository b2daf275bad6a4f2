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

// Check names something that must hold of a canary under load.
type Check string

// The checks. Each sees what no other one does.
const (
	// CheckStuck finds what was waited for and didn't come about.
	CheckStuck Check = "stuck"
	// CheckSplit measures how many requests answer in the canary's colour.
	CheckSplit Check = invariant.Split
	// CheckFailedRequests counts the requests that got no good answer.
	CheckFailedRequests Check = invariant.FailedRequests
	// CheckUnexpectedWeights finds weights on the way that nobody asked for.
	CheckUnexpectedWeights Check = invariant.StrangeWeights
	// CheckEarlyACK finds weights that every proxy was said to have acknowledged before an
	// Envoy ran them.
	CheckEarlyACK Check = invariant.EarlyACK
	// CheckEnd finds requests and weights that are not where the canary's end has to
	// leave them.
	CheckEnd Check = invariant.End
	// CheckOverload says that this machine couldn't keep the load up, so that nothing
	// was measured.
	CheckOverload Check = "overload"
)

// Finding is what a check has found wrong.
type Finding struct {
	Check Check
	Text  string
}

// String implements fmt.Stringer.
func (f Finding) String() string { return string(f.Check) + ": " + f.Text }

// Report marks a test as failed. What was not reached or not measured is an error, everything else a broken invariant.
func (f Finding) Report(tb testing.TB) {
	tb.Helper()
	if f.Check == CheckStuck || f.Check == CheckOverload {
		tb.Error(f)
		return
	}
	invariant.Broken(tb, string(f.Check), "%s", f.Text)
}

// Verdict is what all checks have found of one canary.
type Verdict struct {
	Findings []Finding
	// Timeline tells what was seen, wrong or not.
	Timeline []string
}

// Failed are the checks that have found something, in the order of their names.
func (v *Verdict) Failed() []Check {
	var failed []Check
	for _, f := range v.Findings {
		failed = append(failed, f.Check)
	}
	slices.Sort(failed)
	return slices.Compact(failed)
}

// Print writes the course of the canary.
func (v *Verdict) Print(out io.Writer) {
	fmt.Fprintln(out, strings.Join(v.Timeline, "\n  "))
}

// add adds a finding.
func (v *Verdict) add(check Check, texts ...string) {
	for _, text := range texts {
		v.Findings = append(v.Findings, Finding{check, text})
	}
}

// evaluate adds what the record and the load tell of a canary that began then and
// that had these weights one after the other. One that has ended is judged by what
// it left, too.
func (v *Verdict) evaluate(record *Record, began time.Time, asked []int, tally trace.Tally, ended bool) {
	v.Timeline = append([]string{fmt.Sprintf("%d requests, %d failed; weights asked for %v", tally.Sent, tally.Failed,
		asked)}, record.Timeline(began)...)
	if tally.Failed > 0 || tally.Sent == 0 {
		v.add(CheckFailedRequests, fmt.Sprintf("%d of %d requests failed: %v\n%s", tally.Failed, tally.Sent, tally.Reasons,
			strings.Join(tally.Describe(began, RequestTimeout()), "\n")))
	}
	v.add(CheckEarlyACK, record.EarlyACKs(began, asked...)...)
	if !ended {
		v.add(CheckUnexpectedWeights, record.UnexpectedWeights(began, asked...)...)
		return
	}
	v.add(CheckUnexpectedWeights, record.UnexpectedTransientWeights(began, asked...)...)
	v.add(CheckEnd, record.WrongFinalWeights(began, asked[len(asked)-1])...)
}
