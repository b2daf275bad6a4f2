package demandclient

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// BackendPath serves what one of the Services that share an object's requests was asked in the last minute,
// over all proxies and interceptors: what an analysis judges a canary by.
//
//	{"requests": 1200, "errors": 3, "errorRate": 0.0025, "responseSeconds": {"mean": …, "p50": …, "p90": …, "p95": …, "p99": …}}
//
// Rates are parts of 1; without requests all of it is 0. What is not known is no figure: the answer is then
// 503 with the reason. It is 404 for a Service that shares no requests of the object.
const BackendPath = "/backends/{namespace}/{httpscaledobject}/{service}"

// backend is the answer.
type backend struct {
	Requests        float64       `json:"requests"`
	Errors          float64       `json:"errors"`
	ErrorRate       float64       `json:"errorRate"`
	ResponseSeconds responseTimes `json:"responseSeconds"`
}

// responseTimes are in seconds: the mean, and in what time so many of a hundred responses came.
type responseTimes struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
}

// Register adds the page to mux.
func (r *Reader) Register(mux *http.ServeMux) { mux.HandleFunc("GET "+BackendPath, r.serveBackend) }

// serveBackend serves BackendPath.
func (r *Reader) serveBackend(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	key := model.Key{Namespace: request.PathValue("namespace"), Name: request.PathValue("httpscaledobject")}
	value, err := r.Demand(key)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	service := request.PathValue("service")
	totals, shares := value.Backends[service]
	if !shares {
		http.Error(w, fmt.Sprintf("Service %s is none of those that share the requests of HTTPScaledObject %s: is a canary "+
			"under way, and the name right?", service, key), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(backendOf(totals)) // A client that has gone away is not worth a word.
}

// backendOf is the answer for what a backend was asked.
func backendOf(totals metrics.Totals) backend {
	out := backend{Requests: totals.Requests, Errors: totals.Errors}
	if totals.Requests > 0 {
		out.ErrorRate = min(totals.Errors/totals.Requests, 1) // A flush may tell of an answer, and the one before of the request.
	}
	const millisecondsPerSecond = 1000
	times := &totals.Times
	if times.Count > 0 {
		out.ResponseSeconds.Mean = times.Sum / float64(times.Count) / millisecondsPerSecond
	}
	quantile := func(part float64) float64 { return times.Quantile(part) / millisecondsPerSecond }
	out.ResponseSeconds.P50, out.ResponseSeconds.P90 = quantile(0.5), quantile(0.9)
	out.ResponseSeconds.P95, out.ResponseSeconds.P99 = quantile(0.95), quantile(0.99)
	return out
}
