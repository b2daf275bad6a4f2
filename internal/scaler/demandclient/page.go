package demandclient

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// BackendPath serves the requests, errors and response times of one backend of an HTTPScaledObject in the last minute,
// over all proxies and interceptors. An analysis can judge a canary by it.
//
//	{"requests": 1200, "errors": 3, "errorRate": 0.0025,
//	 "responseSeconds": {"mean": …, "p50": …, "p90": …, "p95": …, "p99": …}}
//
// Rates are from 0 to 1; without requests all values are 0. The status is 503 with the reason if the demand is unknown,
// and 404 for a Service that is no backend of the object.
const BackendPath = "/backends/{namespace}/{httpscaledobject}/{service}"

// backend is the response body.
type backend struct {
	Requests        float64       `json:"requests"`
	Errors          float64       `json:"errors"`
	ErrorRate       float64       `json:"errorRate"`
	ResponseSeconds responseTimes `json:"responseSeconds"`
}

// responseTimes are the mean and percentiles, in seconds.
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
	totals, isBackend := value.Backends[service]
	if !isBackend {
		http.Error(w, fmt.Sprintf("%s: no traffic split with Service %s: check the name, and that "+
			"a canary is in progress", key, service), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(backendOf(totals)) // The client has disconnected.
}

// backendOf converts the totals of a backend to a response body.
func backendOf(totals metrics.Totals) backend {
	out := backend{Requests: totals.Requests, Errors: totals.Errors}
	if totals.Requests > 0 {
		out.ErrorRate = min(totals.Errors/totals.Requests, 1) // The request of a response may be in the flush before.
	}
	const millisecondsPerSecond = 1000
	times := &totals.Times
	if times.Count > 0 {
		out.ResponseSeconds.Mean = times.Sum / float64(times.Count) / millisecondsPerSecond
	}
	quantile := func(q float64) float64 { return times.Quantile(q) / millisecondsPerSecond }
	out.ResponseSeconds.P50, out.ResponseSeconds.P90 = quantile(0.5), quantile(0.9)
	out.ResponseSeconds.P95, out.ResponseSeconds.P99 = quantile(0.95), quantile(0.99)
	return out
}
