package scenario

import (
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// Waits are how long a run waits for what.
type Waits struct {
	// Settle is the time between Envoy's main thread showing a split and the
	// first request that counts: its worker threads take it over one by one.
	Settle time.Duration
	// SettleEnd is the same for the ends of a canary, where also the stable
	// Service changes its pods.
	SettleEnd time.Duration
	// Slack is what a timed pause takes beside the requests that are measured.
	Slack time.Duration
	// Patience bounds how long anything may take beside the guide's pauses.
	Patience time.Duration
	// EnvoyPatience bounds the time from the annotation to Envoy.
	EnvoyPatience time.Duration
	// Poll is the time between two looks at Envoy.
	Poll time.Duration
	// Admin bounds a question to Envoy's admin interface.
	Admin time.Duration
	// Counters bounds the time until Envoy's counters agree: the answer reaches
	// the client before the proxy has closed its books on it.
	Counters time.Duration
	// Timeout bounds each request.
	Timeout time.Duration
	// Burst is how long it is measured what the machine carries.
	Burst time.Duration
	// Command bounds a command that only asks or says something.
	Command time.Duration
	// Delete bounds the end of the namespace: its pods serve on for 10 s.
	Delete time.Duration
	// Cleanup bounds the end of a run, however it came about.
	Cleanup time.Duration
}

// defaultWaits are those on a machine of the usual kind. A limit that a run fails by is at least await.Patience: a
// machine that stands still for a while is no fault of what is shown.
func defaultWaits() Waits {
	patience := await.Patience()
	return Waits{
		Settle: 200 * time.Millisecond, SettleEnd: 2 * time.Second, Slack: 2500 * time.Millisecond,
		Patience: patience, EnvoyPatience: patience,
		//testbounds:allow requests to the admin interface repeat until EnvoyPatience ends
		Poll: 150 * time.Millisecond, Admin: 2 * time.Second, Counters: patience,
		Timeout: patience, Burst: 1500 * time.Millisecond,
		Command: patience, Delete: patience, Cleanup: 2 * patience,
	}
}

const (
	// usualStart is how many seconds a cluster without KEDA takes to start at most on a
	// machine of the usual kind, where it is 13 to 25.
	usualStart = 30
	// maxFactor keeps a wait for something that never comes within an hour or so.
	maxFactor = 20
)

// Scaled are the settings for a machine on which the cluster took that many
// seconds to start, 0 if that is not known: all waits are longer where that was
// longer than usual.
func (s Settings) Scaled(startSeconds float64) Settings {
	factor := min(max(startSeconds/usualStart, 1), maxFactor)
	for _, wait := range []*time.Duration{
		&s.Settle, &s.SettleEnd, &s.Slack, &s.Patience, &s.EnvoyPatience, &s.Poll, &s.Admin, &s.Counters,
		&s.Timeout, &s.Burst, &s.Command, &s.Delete, &s.Cleanup,
	} {
		*wait = time.Duration(float64(*wait) * factor)
	}
	return s
}
