package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/figures"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// maxOne50 and maxOne99 are the limits for one app, in ms from the endpoint to the first byte, and maxRatio that for several, in multiples of a direct
	// push. maxTold is that for KEDA, in ms.
	maxOne50, maxOne99, maxRatio, maxTold = 10, 30, 1.5, 20
	// maxEnvoyKB and maxInterceptorKB are what a held request may take, and maxDescriptors how many of Envoy.
	maxEnvoyKB, maxInterceptorKB, maxDescriptors = 60, 20, 1.05
	// maxHeldCost and maxWarmCost are in multiples of the peer's.
	maxHeldCost, maxWarmCost = 1, 0.75
	// maxRefused and maxCanceled are in ms.
	maxRefused, maxCanceled = 100, 5000
)

// report is what a run found.
type report struct {
	// Wakes are by the number of apps that are woken together.
	Wakes []wake `json:"wakes"`
	// Told is from a request to the scaler's word to KEDA.
	Told quantiles `json:"requestToKEDATold"`
	// Costs are what requests take of the processor, by the way that they go.
	Costs []cost `json:"costs"`
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

	// Peer is from the API server's answer to the first byte by the peer.
	Peer quantiles `json:"peerEndpointToFirstByte"`

	endpoint, write, direct, peer []time.Duration
}

// cost is what a request takes of the processor by one way, in µs: the medians of turns.
type cost struct {
	Name string `json:"name"`
	// Held is that of a request that waits for one of few apps, and Woken that of one of a hundred: waking its app is in it.
	Held  load `json:"held"`
	Woken load `json:"heldAndWoken"`
	// Warm is that of a request for an app that is awake.
	Warm load `json:"warm"`
	// Idle is that of a second in which nothing is asked.
	Idle load `json:"idleSecond"`
	// Lost is how many of the Requests were not answered by their app.
	Requests int `json:"requests"`
	Lost     int `json:"lost"`

	held [2][]spent // by shape
	warm []spent
}

// load is that of all parts of a way, and of its proxy alone.
type load struct {
	All   float64 `json:"cpuUs"`
	Proxy float64 `json:"proxyCPUus"`
}

// loadOf turns.
func loadOf(turns []spent) load {
	var all, proxy []float64
	for _, each := range turns {
		all, proxy = append(all, each.all), append(proxy, each.proxy)
	}
	return load{stats.Quantile(all, 0.5), stats.Quantile(proxy, 0.5)}
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
	// Failures are what became of the others.
	Failures []string `json:"failures,omitempty"`
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

// summarise works out the figures and the limits of the parts that were measured.
func (r *report) summarise() {
	for i := range r.Wakes {
		w := &r.Wakes[i]
		w.Endpoint, w.Write, w.Direct, w.Peer = quantilesOf(w.endpoint), quantilesOf(w.write), quantilesOf(w.direct), quantilesOf(w.peer)
		name := fmt.Sprintf("%d apps: endpoint to first byte", w.Apps)
		if w.Apps == 1 {
			r.limit(name+", p50, ms", w.Endpoint.P50, maxOne50)
			r.limit(name+", p99, ms", w.Endpoint.P99, maxOne99)
			continue
		}
		r.limit(name+", p50, × a direct push", w.Endpoint.P50/w.Direct.P50, maxRatio)
	}
	if len(r.told) > 0 {
		r.Told = quantilesOf(r.told)
		r.limit("request to KEDA told, p99, ms", r.Told.P99, maxTold)
	}
	r.summariseCosts()
	if r.Held.Requests > 0 {
		r.limitHeld(float64(r.Held.Requests))
	}
}

// summariseCosts is that of Costs.
func (r *report) summariseCosts() {
	for i := range r.Costs {
		c := &r.Costs[i]
		c.Held, c.Woken, c.Warm = loadOf(c.held[0]), loadOf(c.held[1]), loadOf(c.warm)
	}
	if len(r.Costs) > 0 {
		r.limit("requests that are lost", float64(r.Costs[0].Lost), 0)
	}
	if len(r.Costs) > 1 {
		ours, peer := r.Costs[0], r.Costs[1]
		r.limit("processor time of a held request, × the peer's", ours.Held.All/peer.Held.All, maxHeldCost)
		r.limit("of a warm request, × the peer's", ours.Warm.All/peer.Warm.All, maxWarmCost)
	}
}

// limitHeld adds the limits of so many requests that are held at a time.
func (r *report) limitHeld(count float64) {
	h := r.Held
	r.Limits = append(r.Limits, figures.Limit{Name: "held requests that are answered", Value: float64(h.Answered), Limit: count, AtLeast: true})
	r.limit("a held request in Envoy, kB", h.Envoy.KilobytesEach, maxEnvoyKB)
	r.limit("a held request in the interceptor, kB", h.Interceptor.KilobytesEach, maxInterceptorKB)
	r.limit("descriptors of Envoy for a held request", float64(h.Envoy.DescriptorsHeld-h.Envoy.DescriptorsBefore)/count, maxDescriptors)
	r.limit("one too many is refused after, ms", h.RefusedAfterMS, maxRefused)
	r.limit("all are canceled after, ms", h.CanceledAfterMS, maxCanceled)
}

// limit adds one that is not to be exceeded.
func (r *report) limit(name string, value, most float64) {
	r.Limits = append(r.Limits, figures.Limit{Name: name, Value: value, Limit: most})
}

// table prints the results for people.
func (r *report) table(w io.Writer) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(r.Wakes) > 0 {
		fmt.Fprintln(columns, "apps\tendpoint p50, ms\tp99\twrite p50\tp99\tdirect push p50\tp99\tpeer p50\tp99\tsamples\t")
	}
	for _, each := range r.Wakes {
		fmt.Fprintf(columns, "%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t\n", each.Apps, each.Endpoint.P50, each.Endpoint.P99,
			each.Write.P50, each.Write.P99, each.Direct.P50, each.Direct.P99, each.Peer.P50, each.Peer.P99, each.Endpoint.Samples)
	}
	if r.Told.Samples > 0 {
		fmt.Fprintf(columns, "\nrequest to KEDA told\t%.1f\t%.1f\t\t\t\t\t\t\t%d\t\n", r.Told.P50, r.Told.P99, r.Told.Samples)
	}
	if len(r.Costs) > 0 {
		fmt.Fprintln(columns, "\nprocessor time, µs\theld\tof the proxy\theld, its app woken\tof the proxy\twarm\tof the proxy\tan idle second\tlost\tof\t\t")
	}
	for _, each := range r.Costs {
		fmt.Fprintf(columns, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t%d\t\t\n", each.Name, each.Held.All, each.Held.Proxy, each.Woken.All, each.Woken.Proxy,
			each.Warm.All, each.Warm.Proxy, each.Idle.All, each.Lost, each.Requests)
	}
	if r.Held.Requests > 0 {
		r.Held.table(columns)
	}
	fmt.Fprintln(columns)
	figures.Print(columns, r.Limits, "\t\t\t\t\t")
	_ = columns.Flush() // a table that cannot be printed is noticed by its reader
}

// table prints what many requests take.
func (h held) table(columns io.Writer) {
	fmt.Fprintf(columns, "\n%d held\tbefore, MB\theld, MB\tkB each\tdescriptors before\theld\t\t\t\t\t\n", h.Requests)
	for _, each := range []struct {
		name string
		is   part
	}{{"Envoy", h.Envoy}, {"interceptor", h.Interceptor}} {
		fmt.Fprintf(columns, "%s\t%.0f\t%.0f\t%.1f\t%d\t%d\t\t\t\t\t\n",
			each.name, each.is.BeforeMB, each.is.HeldMB, each.is.KilobytesEach, each.is.DescriptorsBefore, each.is.DescriptorsHeld)
	}
	fmt.Fprintf(columns, "\nanswered %d, the last after %.0f ms %s\t\t\t\t\t\t\t\t\t\t\n", h.Answered, h.LastAfterMS, strings.Join(h.Failures, "; "))
}
