package sink

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
)

// Paths of what a Sink tells over HTTP, on the port for administration.
const (
	// QueuePath serves the figures of each HTTPScaledObject in the words of the HTTP add-on, by the
	// proxies that report to this replica: {"<ns>/<hso>": {"Concurrency": n, "RPS": x}}.
	QueuePath = "/queue"
	// ExternalKeysPath serves {"<external key>": "<ns>/<hso>"}.
	ExternalKeysPath = "/envoy-metrics-map"
	// DemandPath serves demand.Reports as JSON, one a line, for as long as the client listens: the
	// newest at once and one each ReportInterval, the same for all clients, and in between one of what is
	// held when an object has a request that waits and had none. With the query ChangesQuery each but the first tells changes alone.
	DemandPath = "/demand"
	// ChangesQuery asks for them.
	ChangesQuery = "changes=true"
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

// serveDemand serves DemandPath. A client that has gone away, or is too slow, is not worth a word.
func (s *Sink) serveDemand(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	takesChanges := r.URL.RawQuery == ChangesQuery
	_, urgent := s.held()
	told, err := s.lines.newest(s, 0)
	line := told.whole
	for {
		if err == nil {
			err = control.SetWriteDeadline(s.now().Add(reportPatience))
		}
		if err == nil {
			_, err = w.Write(line)
		}
		if err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-time.After(told.next.Sub(s.now())):
			_, urgent = s.held()
			before, known := told.number, 0
			if takesChanges {
				known = before
			}
			if told, err = s.lines.newest(s, known); told.number == before {
				line = nil // The timer was ahead of the clock: nobody is told a report twice.
			} else if line = told.changes; line == nil {
				line = told.whole
			}
		case <-urgent:
			var report metrics.Report
			report, urgent = s.heldNow()
			line, err = lineOf(report)
		case <-r.Context().Done():
			return
		case <-s.stopping:
			return
		}
	}
}

// lines are the reports of DemandPath. Each is made for the first client that waits for it, and the others
// are told the same.
type lines struct {
	mu   sync.Mutex
	last metrics.Report // the newest one
	line line
}

// line is a report as lines of JSON. Of the two texts one is missing where nobody has asked for it.
type line struct {
	number  int       // of the report, from 1
	next    time.Time // when there will be another one
	whole   []byte    // all of it
	changes []byte    // what the report before did not say
}

// newest returns the newest report of a sink: the changes to the report with the number known, or all of it where that is not the one before.
func (l *lines) newest(of *Sink, known int) (line, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := of.now(); !now.Before(l.line.next) {
		changes := of.changes(&l.last)
		text, err := lineOf(changes)
		if err != nil {
			return line{}, err
		}
		l.line = line{number: l.line.number + 1, next: now.Add(ReportInterval), changes: text}
	}
	told := l.line
	if isNext := known > 0 && known >= told.number-1; isNext {
		told.whole = nil
		return told, nil
	}
	if told.changes = nil; told.whole != nil {
		return told, nil
	}
	var err error
	told.whole, err = lineOf(l.last)
	l.line.whole = told.whole
	return told, err
}

// lineOf is a report as a line.
func lineOf(report metrics.Report) ([]byte, error) {
	text, err := json.Marshal(report)
	if err != nil {
		return nil, fmt.Errorf("write a report: %w", err)
	}
	return append(text, '\n'), nil
}
