package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
)

const (
	// maxCore is the limit of the processor time of interceptor and scaler together, in percent of a core. maxMemory is
	// the limit of their memory, in MB of a million bytes.
	maxCore, maxMemory = 10, 150
)

// report contains the results of a run.
type report struct {
	Objects        int     `json:"httpScaledObjects"`
	WatchedSeconds float64 `json:"watchedSeconds"`
	// CallsPerSecond is the rate of calls to the scaler.
	CallsPerSecond float64 `json:"questionsPerSecond"`
	// Alone is the usage without KEDA, Asked with it.
	Alone programUsage `json:"withoutKEDA"`
	Asked programUsage `json:"askedByKEDA"`
	// Limits are the checks of the results.
	Limits []benchresult.Limit `json:"limits"`
}

// programUsage is the usage of both programs.
type programUsage struct {
	Interceptor usage `json:"interceptor"`
	Scaler      usage `json:"scaler"`
}

// usage is the usage of one program: of a processor, in percent, and of memory, in MB of a million bytes.
type usage struct {
	CorePercent float64 `json:"corePercent"`
	ResidentMB  float64 `json:"residentMB"`
	AnonymousMB float64 `json:"anonymousMB"`
}

// both adds two usages.
func (u programUsage) both() usage {
	return usage{
		CorePercent: u.Interceptor.CorePercent + u.Scaler.CorePercent,
		ResidentMB:  u.Interceptor.ResidentMB + u.Scaler.ResidentMB,
		AnonymousMB: u.Interceptor.AnonymousMB + u.Scaler.AnonymousMB,
	}
}

// summarise computes the limits.
func (r *report) summarise() {
	both := r.Asked.both()
	r.Limits = []benchresult.Limit{
		{Name: "interceptor and scaler, called by KEDA, % of a core", Value: both.CorePercent, Limit: maxCore},
		{Name: "interceptor and scaler, called by KEDA, MB", Value: both.ResidentMB, Limit: maxMemory},
	}
}

// table prints the results for people.
func (r *report) table(w io.Writer) {
	fmt.Fprintf(w, "%d HTTPScaledObjects, 2 proxies, no request, %.0f s each; KEDA makes %.0f calls a second\n\n",
		r.Objects, r.WatchedSeconds, r.CallsPerSecond)
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "\tprogram\t% of a core\tMB\tof that anonymous\t")
	for _, phase := range []struct {
		name string
		used programUsage
	}{{"without KEDA", r.Alone}, {"called by KEDA", r.Asked}} {
		for _, row := range []struct {
			program string
			used    usage
		}{{"interceptor", phase.used.Interceptor}, {"scaler", phase.used.Scaler}, {"both", phase.used.both()}} {
			fmt.Fprintf(columns, "%s\t%s\t%.1f\t%.1f\t%.1f\t\n",
				phase.name, row.program, row.used.CorePercent, row.used.ResidentMB, row.used.AnonymousMB)
		}
	}
	fmt.Fprintln(columns)
	benchresult.Print(columns, r.Limits, "")
	_ = columns.Flush() // the reader notices a table that cannot be printed
}
