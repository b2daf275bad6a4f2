package metricsink

import (
	"encoding/json"
	"net/http"
	"time"
)

// Paths of what a Sink tells over HTTP, on the port for administration.
const (
	// QueuePath serves the figures of each HTTPScaledObject in the words of the HTTP add-on, by the
	// proxies that report to this replica: {"<ns>/<hso>": {"Concurrency": n, "RPS": x}}.
	QueuePath = "/queue"
	// ExternalKeysPath serves {"<external key>": "<ns>/<hso>"}.
	ExternalKeysPath = "/envoy-metrics-map"
	// DemandPath serves demand.Reports as JSON, one a line, for as long as the client listens: one
	// at once and one each second, and in between one of what is held when an object has a request that
	// waits and had none.
	DemandPath = "/demand"
)

const (
	// ReportInterval is the time between two reports of DemandPath.
	ReportInterval = time.Second
	// reportPatience is how long a client may take to read one.
	reportPatience = 5 * time.Second
)

// Register adds the pages to mux. The streams of DemandPath end when Serve does.
func (s *Sink) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET "+QueuePath, s.serveQueue)
	mux.HandleFunc("GET "+ExternalKeysPath, s.serveExternalKeys)
	mux.HandleFunc("GET "+DemandPath, s.serveDemand)
}

// serveQueue serves QueuePath. The names of fields are those of the HTTP add-on's pkg/queue.
func (s *Sink) serveQueue(w http.ResponseWriter, _ *http.Request) {
	type count struct {
		Concurrency int
		RPS         float64
	}
	report, _ := s.Report()
	counts := make(map[string]count, len(report.Objects))
	for key, object := range report.Objects {
		held := report.Held[key]
		counts[key] = count{int(object.Concurrency) + held.Waiting - held.Counted, object.RequestRate}
	}
	writeJSON(w, counts)
}

// serveExternalKeys serves ExternalKeysPath.
func (s *Sink) serveExternalKeys(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	keys := s.meter.ExternalKeys()
	s.mu.Unlock()
	writeJSON(w, keys)
}

// writeJSON answers with a value. A client that has gone away is not worth a word.
func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(value)
}

// serveDemand serves DemandPath.
func (s *Sink) serveDemand(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	control, encoder := http.NewResponseController(w), json.NewEncoder(w)
	ticker := time.NewTicker(ReportInterval)
	defer ticker.Stop()
	_, urgent := s.held()
	report, _ := s.Report()
	for {
		if control.SetWriteDeadline(s.now().Add(reportPatience)) != nil || encoder.Encode(report) != nil || control.Flush() != nil {
			return
		}
		select {
		case <-ticker.C:
			_, urgent = s.held()
			report, _ = s.Report()
		case <-urgent:
			report, urgent = s.heldNow()
		case <-r.Context().Done():
			return
		case <-s.stopping:
			return
		}
	}
}
