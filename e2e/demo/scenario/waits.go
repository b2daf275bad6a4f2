package scenario

import "time"

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

// usualWaits are those on a machine of the usual kind.
func usualWaits() Waits {
	return Waits{
		Settle: 200 * time.Millisecond, SettleEnd: 2 * time.Second, Slack: 2500 * time.Millisecond,
		Patience: 40 * time.Second, EnvoyPatience: 12 * time.Second,
		Poll: 150 * time.Millisecond, Admin: 2 * time.Second, Counters: 3 * time.Second,
		Timeout: 5 * time.Second, Burst: 1500 * time.Millisecond,
		Command: 30 * time.Second, Delete: 90 * time.Second, Cleanup: 3 * time.Minute,
	}
}

const (
	// usualStart is how many seconds a cluster takes to start at most on a
	// machine of the usual kind, where it is 13 to 20, and 40 to 45 with KEDA.
	usualStart = 50
	// maxFactor keeps a wait for something that never comes within an hour.
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
