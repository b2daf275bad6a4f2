package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/figures"
	"github.com/kedify/argo-rollouts-plugin/e2e/stats"
)

const (
	// maxOne50 and maxOne99 are the limits for one app, in ms from the endpoint to the first byte, and maxRatio that for several, in multiples of a direct
	// push. maxTold is that for KEDA, in ms.
	maxOne50, maxOne99, maxRatio, maxTold = 10, 30, 1.5, 20
	// maxEnvoyKB and maxInterceptorKB are what a held request may take, and maxDescriptors how many of Envoy.
	maxEnvoyKB, maxInterceptorKB, maxDescriptors = 60, 20, 1.05
	// maxRefused and maxCanceled are in ms.
	maxRefused, maxCanceled = 100, 5000
)

// report is what a run found.
type report struct {
	// Wakes are by the number of apps that are woken together.
	Wakes []wake `json:"wakes"`
	// Told is from a request to the scaler's word to KEDA.
	Told quantiles `json:"requestToKEDATold"`
	// Held is what many requests take.
	Held held `json:"held"`
	// Limits are the checks of the results.
	Limits []figures.Limit `json:"limits"`

	told []time.Duration
}

// wake are the times of apps that are woken together, each with one request.
type wake struct {
	Apps int `json:"apps"`
	// Endpoint is from the API server's answer to the write of the EndpointSlice to the first byte, and Write from the write itself.
	Endpoint quantiles `json:"endpointToFirstByte"`
	Write    quantiles `json:"writeToFirstByte"`
	// Direct is from a direct push to the first byte.
	Direct quantiles `json:"directPushToFirstByte"`

	endpoint, write, direct []time.Duration
}

// quantiles are in milliseconds.
type quantiles struct {
	P50     float64 `json:"p50ms"`
	P99     float64 `json:"p99ms"`
	Samples int     `json:"samples"`
}

// held is what many requests take, and what they come to.
type held struct {
	Requests    int  `json:"requests"`
	Envoy       part `json:"envoy"`
	Interceptor part `json:"interceptor"`
	// Answered is how many were answered by their app, the last one LastAfterMS after the first write.
	Answered    int     `json:"answered"`
	LastAfterMS float64 `json:"lastAfterMS"`
	// FirstFailure is what became of the first that was not.
	FirstFailure string `json:"firstFailure,omitempty"`
	// RefusedAfterMS is when one too many was refused, and CanceledAfterMS when the last place was free after all were canceled.
	RefusedAfterMS  float64 `json:"refusedAfterMS"`
	CanceledAfterMS float64 `json:"canceledAfterMS"`
}

// part is what a process takes: resident memory in MB of a million bytes, and descriptors.
type part struct {
	BeforeMB          float64 `json:"beforeMB"`
	HeldMB            float64 `json:"heldMB"`
	KilobytesEach     float64 `json:"kilobytesEach"`
	DescriptorsBefore int     `json:"descriptorsBefore"`
	DescriptorsHeld   int     `json:"descriptorsHeld"`
}

// quantilesOf samples.
func quantilesOf(samples []time.Duration) quantiles {
	return quantiles{milliseconds(stats.Quantile(samples, 0.5)), milliseconds(stats.Quantile(samples, 0.99)), len(samples)}
}

// summarise works out the figures and the limits.
func (r *report) summarise() {
	for i := range r.Wakes {
		w := &r.Wakes[i]
		w.Endpoint, w.Write, w.Direct = quantilesOf(w.endpoint), quantilesOf(w.write), quantilesOf(w.direct)
		name := fmt.Sprintf("%d apps: endpoint to first byte", w.Apps)
		if w.Apps == 1 {
			r.Limits = append(r.Limits, figures.Limit{Name: name + ", p50, ms", Value: w.Endpoint.P50, Limit: maxOne50},
				figures.Limit{Name: name + ", p99, ms", Value: w.Endpoint.P99, Limit: maxOne99})
			continue
		}
		r.Limits = append(r.Limits, figures.Limit{Name: name + ", p50, × a direct push", Value: w.Endpoint.P50 / w.Direct.P50, Limit: maxRatio})
	}
	r.Told = quantilesOf(r.told)
	h, count := r.Held, float64(r.Held.Requests)
	r.Limits = append(r.Limits,
		figures.Limit{Name: "request to KEDA told, p99, ms", Value: r.Told.P99, Limit: maxTold},
		figures.Limit{Name: "held requests that are answered", Value: float64(h.Answered), Limit: count, AtLeast: true},
		figures.Limit{Name: "a held request in Envoy, kB", Value: h.Envoy.KilobytesEach, Limit: maxEnvoyKB},
		figures.Limit{Name: "a held request in the interceptor, kB", Value: h.Interceptor.KilobytesEach, Limit: maxInterceptorKB},
		figures.Limit{Name: "descriptors of Envoy for a held request", Value: float64(h.Envoy.DescriptorsHeld-h.Envoy.DescriptorsBefore) / count, Limit: maxDescriptors},
		figures.Limit{Name: "one too many is refused after, ms", Value: h.RefusedAfterMS, Limit: maxRefused},
		figures.Limit{Name: "all are canceled after, ms", Value: h.CanceledAfterMS, Limit: maxCanceled},
	)
}

// table prints the results for people.
func (r *report) table(w io.Writer) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(columns, "apps\tendpoint p50, ms\tp99\twrite p50\tp99\tdirect push p50\tp99\tsamples\t")
	for _, each := range r.Wakes {
		fmt.Fprintf(columns, "%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t\n", each.Apps, each.Endpoint.P50, each.Endpoint.P99,
			each.Write.P50, each.Write.P99, each.Direct.P50, each.Direct.P99, each.Endpoint.Samples)
	}
	fmt.Fprintf(columns, "\nrequest to KEDA told\t%.1f\t%.1f\t\t\t\t\t%d\t\n", r.Told.P50, r.Told.P99, r.Told.Samples)
	fmt.Fprintf(columns, "\n%d held\tbefore, MB\theld, MB\tkB each\tdescriptors before\theld\t\t\t\n", r.Held.Requests)
	for name, is := range map[string]part{"Envoy": r.Held.Envoy, "interceptor": r.Held.Interceptor} {
		fmt.Fprintf(columns, "%s\t%.0f\t%.0f\t%.1f\t%d\t%d\t\t\t\n", name, is.BeforeMB, is.HeldMB, is.KilobytesEach, is.DescriptorsBefore, is.DescriptorsHeld)
	}
	fmt.Fprintf(columns, "\nanswered %d, the last after %.0f ms %s\t\t\t\t\t\t\t\t\n\n", r.Held.Answered, r.Held.LastAfterMS, r.Held.FirstFailure)
	figures.Print(columns, r.Limits, "\t\t\t\t")
	_ = columns.Flush() // a table that cannot be printed is noticed by its reader
}
