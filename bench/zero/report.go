package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/benchresult"
	"github.com/kedify/argo-rollouts-plugin/test/load/stats"
)

const (
	// maxOne50 and maxOne99 limit the time for one app, in ms from the endpoint to the first byte. maxRatio limits the
	// time for several apps, in multiples of a direct push. maxNotified limits the time until KEDA is notified, in ms.
	maxOne50, maxOne99, maxRatio, maxNotified = 10, 30, 1.5, 20
	// maxEnvoyKB and maxInterceptorKB limit the memory of a queued request. maxDescriptors limits its descriptors in
	// Envoy.
	maxEnvoyKB, maxInterceptorKB, maxDescriptors = 60, 20, 1.05
	// maxHeldCost, maxWarmCost and maxWarmLatency are in multiples of the peer's. The last two apply to several requests
	// at a time: one at a time mostly measures how fast processes are woken.
	maxHeldCost, maxWarmCost, maxWarmLatency = 1, 0.95, 0.8
	// maxRefused and maxCanceled are in ms.
	maxRefused, maxCanceled = 100, 5000
)

// report contains the results of a run.
type report struct {
	// Wakes are by the number of apps that wake together.
	Wakes []wake `json:"wakes"`
	// Notified is the time from a request to the scaler's notification of KEDA.
	Notified quantiles `json:"requestToKEDANotified"`
	// Costs are the processor times of requests, by path.
	Costs []cost `json:"costs"`
	// Warm are the costs and the latencies of requests for awake apps, by kind of request.
	Warm []warm `json:"warm"`
	// Held are the results of many queued requests.
	Held held `json:"held"`
	// Limits are the checks of the results.
	Limits []benchresult.Limit `json:"limits"`

	notified []time.Duration
}

// wake are the times of apps that wake together, each with one request.
type wake struct {
	Apps int `json:"apps"`
	// Endpoint is the time from the API server's answer to the write of the EndpointSlice to the first byte. Write is
	// the time from the start of the write.
	Endpoint quantiles `json:"endpointToFirstByte"`
	Write    quantiles `json:"writeToFirstByte"`
	// Direct is the time from a direct push to the first byte.
	Direct quantiles `json:"directPushToFirstByte"`

	// Peer is the time from the API server's answer to the first byte by the peer.
	Peer quantiles `json:"peerEndpointToFirstByte"`

	endpoint, write, direct, peer []time.Duration
}

// cost is the processor time of a request on one path, in µs: the medians of turns.
type cost struct {
	Name string `json:"name"`
	// Held is a queued request for one of few apps. Woken is a queued request for one of a hundred, and includes its
	// app's wake-up.
	Held  load `json:"held"`
	Woken load `json:"heldAndWoken"`
	// Awake is a request for one of few awake apps, over a connection of its own as queued ones have.
	Awake load `json:"awake"`
	// Idle is a second without requests.
	Idle load `json:"idleSecond"`
	// Lost is the number of Requests without an answer of their app.
	Requests int `json:"requests"`
	Lost     int `json:"lost"`

	held  [2][]spent // by shape
	awake []spent
}

// load is the processor time of all processes of a path, and of its proxy alone.
type load struct {
	All   float64 `json:"cpuUs"`
	Proxy float64 `json:"proxyCPUus"`
}

// loadOf returns the load of turns.
func loadOf(turns []spent) load {
	var all, proxy []float64
	for _, turn := range turns {
		all, proxy = append(all, turn.all), append(proxy, turn.proxy)
	}
	return load{stats.Quantile(all, 0.5), stats.Quantile(proxy, 0.5)}
}

// quantiles are in milliseconds.
type quantiles struct {
	P50     float64 `json:"p50ms"`
	P99     float64 `json:"p99ms"`
	Samples int     `json:"samples"`
}

// held are the usage and the results of many queued requests.
type held struct {
	Requests    int  `json:"requests"`
	Envoy       part `json:"envoy"`
	Interceptor part `json:"interceptor"`
	// Answered is the number of answers by the apps, the last one LastAfterMS after the first write.
	Answered    int     `json:"answered"`
	LastAfterMS float64 `json:"lastAfterMS"`
	// Failures are the other results.
	Failures []string `json:"failures,omitempty"`
	// RefusedAfterMS is when a request above the maximum was rejected. CanceledAfterMS is when the last slot was free
	// after all requests were canceled.
	RefusedAfterMS  float64 `json:"refusedAfterMS"`
	CanceledAfterMS float64 `json:"canceledAfterMS"`
}

// part is the usage of a process: resident memory in MB of a million bytes, and descriptors.
type part struct {
	BeforeMB          float64 `json:"beforeMB"`
	HeldMB            float64 `json:"heldMB"`
	KilobytesEach     float64 `json:"kilobytesEach"`
	DescriptorsBefore int     `json:"descriptorsBefore"`
	DescriptorsHeld   int     `json:"descriptorsHeld"`
}

// quantilesOf returns the quantiles of samples.
func quantilesOf(samples []time.Duration) quantiles {
	return quantiles{milliseconds(stats.Quantile(samples, 0.5)), milliseconds(stats.Quantile(samples, 0.99)), len(samples)}
}

// summarise computes the results and the limits of the measurements that ran.
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
	if len(r.notified) > 0 {
		r.Notified = quantilesOf(r.notified)
		r.limit("request to KEDA notified, p99, ms", r.Notified.P99, maxNotified)
	}
	r.summariseCosts()
	r.summariseWarm()
	if r.Held.Requests > 0 {
		r.limitHeld(float64(r.Held.Requests))
	}
}

// summariseCosts does that for Costs.
func (r *report) summariseCosts() {
	for i := range r.Costs {
		c := &r.Costs[i]
		c.Held, c.Woken, c.Awake = loadOf(c.held[0]), loadOf(c.held[1]), loadOf(c.awake)
	}
	if len(r.Costs) > 0 {
		r.limit("lost requests", float64(r.Costs[0].Lost), 0)
	}
	if len(r.Costs) > 1 {
		ours, peer := r.Costs[0], r.Costs[1]
		r.Limits = append(r.Limits, benchresult.Limit{
			Name: "processor time of a queued request, × the peer's",
			Of: fmt.Sprintf("%.0f µs, peer %.0f µs; of an awake app over a new connection %.0f and %.0f µs",
				ours.Held.All, peer.Held.All, ours.Awake.All, peer.Awake.All),
			Value: ours.Held.All / peer.Held.All, Limit: maxHeldCost,
		})
	}
}

// limitHeld adds the limits of the given number of queued requests.
func (r *report) limitHeld(count float64) {
	h := r.Held
	r.Limits = append(r.Limits,
		benchresult.Limit{Name: "queued requests that are answered", Value: float64(h.Answered), Limit: count, AtLeast: true})
	r.limit("a queued request in Envoy, kB", h.Envoy.KilobytesEach, maxEnvoyKB)
	r.limit("a queued request in the interceptor, kB", h.Interceptor.KilobytesEach, maxInterceptorKB)
	r.limit("descriptors of Envoy for a queued request", float64(h.Envoy.DescriptorsHeld-h.Envoy.DescriptorsBefore)/count,
		maxDescriptors)
	r.limit("a request above the maximum is rejected after, ms", h.RefusedAfterMS, maxRefused)
	r.limit("all are canceled after, ms", h.CanceledAfterMS, maxCanceled)
}

// limit adds a maximum.
func (r *report) limit(name string, value, most float64) {
	r.Limits = append(r.Limits, benchresult.Limit{Name: name, Value: value, Limit: most})
}

// table prints the results for people.
func (r *report) table(w io.Writer) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(r.Wakes) > 0 {
		fmt.Fprintln(columns, "apps\tendpoint p50, ms\tp99\twrite p50\tp99\tdirect push p50\tp99\tpeer p50\tp99\tsamples\t")
	}
	for _, row := range r.Wakes {
		fmt.Fprintf(columns, "%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t\n", row.Apps, row.Endpoint.P50,
			row.Endpoint.P99,
			row.Write.P50, row.Write.P99, row.Direct.P50, row.Direct.P99, row.Peer.P50, row.Peer.P99, row.Endpoint.Samples)
	}
	if r.Notified.Samples > 0 {
		fmt.Fprintf(columns, "\nrequest to KEDA notified\t%.1f\t%.1f\t\t\t\t\t\t\t%d\t\n", r.Notified.P50, r.Notified.P99,
			r.Notified.Samples)
	}
	if len(r.Costs) > 0 {
		fmt.Fprintln(columns, "\nprocessor time, µs\theld\tof the proxy\theld, its app woken\tof the proxy\tawake\tof the "+
			"proxy\tan idle second\tlost\tof\t\t")
	}
	for _, row := range r.Costs {
		fmt.Fprintf(columns, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t%d\t\t\n", row.Name, row.Held.All,
			row.Held.Proxy, row.Woken.All, row.Woken.Proxy, row.Awake.All, row.Awake.Proxy, row.Idle.All, row.Lost,
			row.Requests)
	}
	r.warmTable(columns)
	if r.Held.Requests > 0 {
		r.Held.table(columns)
	}
	fmt.Fprintln(columns)
	benchresult.Print(columns, r.Limits, "\t\t\t\t\t")
	_ = columns.Flush() // the reader notices a table that cannot be printed
}

// table prints the usage of many queued requests.
func (h held) table(columns io.Writer) {
	fmt.Fprintf(columns, "\n%d held\tbefore, MB\theld, MB\tkB each\tdescriptors before\theld\t\t\t\t\t\n", h.Requests)
	for _, row := range []struct {
		name string
		is   part
	}{{"Envoy", h.Envoy}, {"interceptor", h.Interceptor}} {
		fmt.Fprintf(columns, "%s\t%.0f\t%.0f\t%.1f\t%d\t%d\t\t\t\t\t\n",
			row.name, row.is.BeforeMB, row.is.HeldMB, row.is.KilobytesEach, row.is.DescriptorsBefore, row.is.DescriptorsHeld)
	}
	fmt.Fprintf(columns, "\nanswered %d, the last after %.0f ms %s\t\t\t\t\t\t\t\t\t\t\n", h.Answered, h.LastAfterMS,
		strings.Join(h.Failures, "; "))
}
