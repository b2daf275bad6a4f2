package scenario

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// Waits contains the time limits of a run.
type Waits struct {
	// SplitDelay is the time from when Envoy's main thread shows a split until its worker threads have applied it. They
	// apply it one after the other.
	SplitDelay time.Duration
	// EndDelay is the same for the end of a canary, when the stable Service also changes its Pods.
	EndDelay time.Duration
	// Slack is the additional time of a timed pause, beyond its measured requests.
	Slack time.Duration
	// Patience is the time limit of any wait, in addition to the guide's pauses.
	Patience time.Duration
	// EnvoyPatience is the time limit from the annotation to Envoy.
	EnvoyPatience time.Duration
	// Poll is the interval between two reads of Envoy's routes.
	Poll time.Duration
	// Admin is the time limit of a request to Envoy's admin interface.
	Admin time.Duration
	// Counters is the time limit until Envoy's counters agree: the client gets the response before Envoy counts it.
	Counters time.Duration
	// Timeout is the time limit of each request.
	Timeout time.Duration
	// Burst is the duration of the measurement of the machine's capacity.
	Burst time.Duration
	// Command is the time limit of a short command.
	Command time.Duration
	// Delete is the time limit of the deletion of the namespace: its Pods drain for 10 s.
	Delete time.Duration
	// Cleanup is the time limit of the cleanup, however the run ended.
	Cleanup time.Duration
}

// defaultWaits returns the time limits for a normal machine. A time limit that fails a run is at least await.Patience,
// because a stall of the machine is not a fault of the product.
func defaultWaits() Waits {
	patience := await.Patience()
	return Waits{
		SplitDelay: 200 * time.Millisecond, EndDelay: 2 * time.Second, Slack: 2500 * time.Millisecond,
		Patience: patience, EnvoyPatience: patience,
		//testbounds:allow requests to the admin interface repeat until EnvoyPatience ends
		Poll: 150 * time.Millisecond, Admin: 2 * time.Second, Counters: patience,
		Timeout: patience, Burst: 1500 * time.Millisecond,
		Command: patience, Delete: patience, Cleanup: 2 * patience,
	}
}

const (
	// usualStart is the maximum start time, in seconds, of a cluster without KEDA on a normal machine, where it takes 13
	// to 25.
	usualStart = 30
	// maxFactor limits a wait that never succeeds to about an hour.
	maxFactor = 20
)

// Scaled returns the settings for a machine with the given start time of the cluster in seconds; 0 if unknown. If it is
// longer than usual, all time limits are longer.
func (s Settings) Scaled(startSeconds float64) Settings {
	factor := min(max(startSeconds/usualStart, 1), maxFactor)
	for _, wait := range []*time.Duration{
		&s.SplitDelay, &s.EndDelay, &s.Slack, &s.Patience, &s.EnvoyPatience, &s.Poll, &s.Admin, &s.Counters,
		&s.Timeout, &s.Burst, &s.Command, &s.Delete, &s.Cleanup,
	} {
		*wait = time.Duration(float64(*wait) * factor)
	}
	return s
}
