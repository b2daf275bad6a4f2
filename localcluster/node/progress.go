package node

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// State is the state of a cluster's start.
type State string

// The states of a cluster. A cluster is Ready when every component and every installed object is, and Failed when its
// start failed.
const (
	Starting State = "starting"
	Ready    State = "ready"
	Failed   State = "failed"
)

// Event is one step of a cluster's start or end.
type Event struct {
	// Time is when it happened.
	Time time.Time `json:"time"`
	// State is the cluster's state after the event.
	State State `json:"state"`
	// Message describes the event in one line. An error is followed by the end of a log.
	Message string `json:"message"`
}

// Reporter writes events as JSON lines. It is safe for concurrent use.
type Reporter struct {
	mu      sync.Mutex
	encoder *json.Encoder
	now     func() time.Time
}

// NewReporter returns a Reporter that writes to w.
func NewReporter(w io.Writer, now func() time.Time) *Reporter {
	return &Reporter{encoder: json.NewEncoder(w), now: now}
}

// Report writes one event. A closed reader is no reason to stop a cluster, so a failed write is not an error.
func (r *Reporter) Report(state State, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.encoder.Encode(Event{Time: r.now(), State: state, Message: message})
}
