package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// summary is the last line of a run's output.
type summary struct {
	Tier    string `json:"tier"`
	Passed  bool   `json:"passed"`
	Seconds int    `json:"seconds"`
	// Stages are the seconds of each stage that ran.
	Stages map[string]int `json:"stages"`
	// Cached are the stages that did not run because they passed with the same inputs before.
	Cached []string `json:"cached"`
	// Flaky are the stages that passed at the second attempt.
	Flaky []flaky `json:"flaky"`
	// Invariant are the broken invariants of the product, even of a stage that passed at the second attempt.
	Invariant []broken `json:"invariant"`
	Failed    []string `json:"failed"`
	// Skipped are the stages that did not run or end because one that they need failed, or the run was interrupted.
	Skipped []string `json:"skipped"`
}

// flaky is a stage whose second attempt passed.
type flaky struct {
	Stage string `json:"stage"`
	// Tests are the tests that failed at first, if the stage's output names them.
	Tests []string `json:"tests,omitempty"`
	// Log is the output of the first attempt.
	Log string `json:"log"`
}

// broken is a broken invariant.
type broken struct {
	Stage string `json:"stage"`
	Text  string `json:"text"`
}

// summarize makes the summary of a run's results. A run passes if no stage failed and none was skipped.
func summarize(tier string, results []Result, took time.Duration) summary {
	s := summary{
		Tier: tier, Seconds: int(took.Seconds()), Stages: map[string]int{}, Cached: []string{}, Flaky: []flaky{},
		Invariant: []broken{}, Failed: []string{}, Skipped: []string{},
	}
	for _, r := range results {
		if r.Status != Cached && r.Status != Skipped {
			s.Stages[r.Stage.Name] = int(r.Duration.Seconds())
		}
		switch r.Status {
		case Passed:
		case Cached:
			s.Cached = append(s.Cached, r.Stage.Name)
		case Flaky:
			s.Flaky = append(s.Flaky, flaky{r.Stage.Name, r.Tests, r.Log})
		case Failed:
			s.Failed = append(s.Failed, r.Stage.Name)
		case Skipped:
			s.Skipped = append(s.Skipped, r.Stage.Name)
		}
		for _, text := range r.Invariants {
			s.Invariant = append(s.Invariant, broken{r.Stage.Name, text})
		}
	}
	s.Passed = len(s.Failed) == 0 && len(s.Skipped) == 0
	return s
}

// table is the results for a person, with a line for each stage and for each broken invariant.
func table(results []Result) string {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "STAGE\tRESULT\tTIME\tFIRST ATTEMPT")
	counts := map[Status]int{}
	for _, r := range results {
		counts[r.Status]++
		note := ""
		if r.Status == Flaky || r.Status == Failed {
			note = strings.Join(append(r.Tests, "log: "+r.Log), ", ")
		}
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\n", r.Stage.Name, r.Status, round(r.Duration), note)
	}
	_ = columns.Flush() // a strings.Builder takes everything
	for _, r := range results {
		for _, invariant := range r.Invariants {
			fmt.Fprintf(&text, "\n!!! INVARIANT BROKEN in stage %s: %s\n", r.Stage.Name, invariant)
		}
	}
	fmt.Fprintf(&text, "stages: %d passed, %d failed, %d skipped\n",
		counts[Passed]+counts[Cached]+counts[Flaky], counts[Failed], counts[Skipped])
	return text.String()
}
