package sink

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
)

// HTTP paths on the admin port.
const (
	// QueuePath serves the metrics of each HTTPScaledObject in the format of the HTTP add-on, from the proxies that
	// report to this replica: {"<ns>/<hso>": {"Concurrency": n, "RPS": x}}.
	QueuePath = "/queue"
	// ExternalKeysPath serves {"<external key>": "<ns>/<hso>"}. If several namespaces have the same key, the objects are
	// separated by commas.
	ExternalKeysPath = "/envoy-metrics-map"
	// DemandPath streams metrics.Reports as JSON, one per line, until the client disconnects: the latest at once and
	// then one each ReportInterval, the same for all clients. A report of queued requests is sent in between when an
	// object gets its first queued request. With the query ChangesQuery each report except the first contains only
	// changes.
	DemandPath = "/demand"
	// ChangesQuery requests only changes.
	ChangesQuery = "changes=true"
)

const (
	// ReportInterval is the time between two reports of DemandPath.
	ReportInterval = time.Second
	// writeTimeout limits the time to send one report.
	writeTimeout = 5 * time.Second
)

// Register adds the pages to mux. The streams of DemandPath end when Serve ends.
func (s *Sink) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET "+QueuePath, s.serveQueue)
	mux.HandleFunc("GET "+ExternalKeysPath, s.serveExternalKeys)
	mux.HandleFunc("GET "+DemandPath, s.serveDemand)
}

// serveQueue serves QueuePath. The names of fields are those of pkg/queue of the HTTP add-on.
func (s *Sink) serveQueue(w http.ResponseWriter, _ *http.Request) {
	type count struct {
		Concurrency int
		RPS         float64
	}
	report, _ := s.Report()
	counts := make(map[string]count, len(report.Objects))
	for key, object := range report.Objects {
		queued := report.Queued[key]
		counts[key] = count{int(object.Concurrency) + queued.Waiting - queued.Counted, object.RequestRate}
	}
	writeJSON(w, counts)
}

// serveExternalKeys serves ExternalKeysPath.
func (s *Sink) serveExternalKeys(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	owners := s.meter.ExternalKeys()
	s.mu.Unlock()
	keys := make(map[string]string, len(owners))
	for external, objects := range owners {
		names := make([]string, 0, len(objects))
		for _, object := range objects {
			names = append(names, object.String())
		}
		keys[external] = strings.Join(names, ",")
	}
	writeJSON(w, keys)
}

// writeJSON writes a value. It ignores errors: the client has disconnected.
func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(value)
}

// serveDemand serves DemandPath. It returns silently if the client disconnects or is too slow.
func (s *Sink) serveDemand(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	_ = s.StreamReports(r.Context(), r.URL.RawQuery == ChangesQuery, func(line []byte) error {
		err := control.SetWriteDeadline(s.now().Add(writeTimeout))
		if err == nil {
			_, err = w.Write(line)
		}
		if err != nil {
			return err
		}
		return control.Flush()
	})
}

// StreamReports calls send with metrics.Reports as lines of JSON, as DemandPath describes, until ctx or Serve ends. It
// returns the first error of send, or of the encoding. send must not modify the lines.
func (s *Sink) StreamReports(ctx context.Context, wantsChanges bool, send func(line []byte) error) error {
	_, urgent := s.queued()
	cached, err := s.reports.latest(s, 0)
	line := cached.whole
	for {
		if err == nil {
			err = send(line)
		}
		if err != nil {
			return err
		}
		select {
		case <-time.After(cached.next.Sub(s.now())):
			_, urgent = s.queued()
			before, base := cached.number, 0
			if wantsChanges {
				base = before
			}
			if cached, err = s.reports.latest(s, base); cached.number == before {
				line = nil // The timer fired early: do not send a report twice.
			} else if line = cached.changes; line == nil {
				line = cached.whole
			}
		case <-urgent:
			var report metrics.Report
			report, urgent = s.queuedReport()
			line, err = encode(report)
		case <-ctx.Done():
			return nil
		case <-s.stopping:
			return nil
		}
	}
}

// reportCache contains the latest report of DemandPath. The first client that is due creates it, and all clients share
// it.
type reportCache struct {
	mu      sync.Mutex
	last    metrics.Report // the latest one
	encoded encodedReport
}

// encodedReport is a report as lines of JSON. whole or changes is nil until a client needs it.
type encodedReport struct {
	number  int       // of the report, from 1
	next    time.Time // when the next report is due
	whole   []byte    // the whole report
	changes []byte    // the changes since the report before
}

// latest returns the latest report of a sink: the changes since the report with the number known, or the whole report
// if that is not the one before.
func (c *reportCache) latest(s *Sink, known int) (encodedReport, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := s.now(); !now.Before(c.encoded.next) {
		changes := s.Changes(&c.last)
		text, err := encode(changes)
		if err != nil {
			return encodedReport{}, err
		}
		c.encoded = encodedReport{number: c.encoded.number + 1, next: now.Add(ReportInterval), changes: text}
	}
	result := c.encoded
	if isNext := known > 0 && known >= result.number-1; isNext {
		result.whole = nil
		return result, nil
	}
	if result.changes = nil; result.whole != nil {
		return result, nil
	}
	var err error
	result.whole, err = encode(c.last)
	c.encoded.whole = result.whole
	return result, err
}

// encode returns a report as a line of JSON.
func encode(report metrics.Report) ([]byte, error) {
	text, err := json.Marshal(report)
	if err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	return append(text, '\n'), nil
}
