package envoyadmin

import (
	"encoding/json"
	"fmt"
)

// The names of the counters that are compared with the client's counts.
const (
	// RequestsCounter counts the requests that the listener received.
	RequestsCounter = "http.kedify-proxy.downstream_rq_total"
	// SuccessCounter counts the responses with a status from 200 to 299.
	SuccessCounter = "http.kedify-proxy.downstream_rq_2xx"
	// ListenerCounter counts the listener updates that Envoy has accepted. An update that changes a listener drains its
	// connections.
	ListenerCounter = "listener_manager.lds.update_success"
)

// StatsPath returns only these counters.
const StatsPath = `/stats?format=json&filter=%5E(http%5C.kedify-proxy%5C.downstream_rq_(total%7C2xx)%7Clistener_manager%5C.lds%5C.update_success)$`

// Counters contains the values of the counters.
type Counters struct {
	// Requests, Success and ListenerUpdates are RequestsCounter, SuccessCounter and ListenerCounter.
	Requests, Success, ListenerUpdates int
}

// ParseCounters parses the response of StatsPath. A missing counter is an error, because no comparison would be
// possible.
func ParseCounters(text []byte) (Counters, error) {
	var answer struct {
		Stats []struct {
			Name  string `json:"name"`
			Value *int   `json:"value"`
		} `json:"stats"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return Counters{}, fmt.Errorf("read Envoy's counters: %w", err)
	}
	values := map[string]int{}
	for _, s := range answer.Stats {
		if s.Value != nil {
			values[s.Name] = *s.Value
		}
	}
	for _, name := range []string{RequestsCounter, SuccessCounter, ListenerCounter} {
		if _, ok := values[name]; !ok {
			return Counters{}, fmt.Errorf("envoy has no counter %s: does the bootstrap's stats_matcher include it?", name)
		}
	}
	return Counters{
		Requests: values[RequestsCounter], Success: values[SuccessCounter], ListenerUpdates: values[ListenerCounter],
	}, nil
}
