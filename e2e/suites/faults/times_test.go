package faults

import (
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
)

// call returns a reconciliation that ends right after its router call.
func call(version int64, from, to float64, answer trace.Answer) trace.Sync {
	return trace.Sync{Began: second(from), Ended: second(to), Version: version, Answer: answer, Answered: second(to)}
}

// starting returns a reconciliation in which the router was started.
func starting(s trace.Sync) trace.Sync {
	s.Started = true
	return s
}

// failing returns a reconciliation that fails before its router call.
func failing(s trace.Sync) trace.Sync {
	s.Failure = "Operation cannot be fulfilled on replicasets.apps: the object has been modified"
	return s
}

// The timelines are recorded ones, rounded, and variants of them with a slower router.
func TestTimes(t *testing.T) {
	// The plugin is killed after the weight was active. 1.4 s later, during the measurement of the split, nudge triggers
	// the controller.
	afterwards := timeline{
		outage:   trace.Outage{Signaled: second(0.827), Gone: second(0.829), Back: second(0.827)},
		accepted: second(0.608), taken: second(0.630), version: 7, reached: second(0.827), routerRestarted: true,
	}
	// It is killed before the controller has requested the weight, which happens at 7 by its version.
	early := timeline{
		outage:   trace.Outage{Signaled: second(0.5), Gone: second(0.51), Back: second(0.5)},
		accepted: second(0.61), taken: second(0.69), version: 7, reached: second(0.75), routerRestarted: true,
	}
	// The API server is available again after 3 s, the controller's watch 3 s later.
	away := timeline{
		outage:   trace.Outage{Signaled: second(0.5), Gone: second(0.6), Back: second(3.5)},
		accepted: second(3.6), taken: second(6.54), version: 7, reached: second(6.6),
	}
	late := away // and the controller calls its router much later
	late.reached = second(23.2)
	last := []trace.Sync{call(6, 6.5, 6.51, trace.Verified), call(7, 6.55, 6.59, trace.Verified)}
	tests := []struct {
		name                       string
		round                      timeline
		syncs                      []trace.Sync
		idle, recovered, converged float64
	}{
		{"killed afterwards", afterwards, []trace.Sync{
			call(7, 0.636, 0.660, trace.Verified), starting(call(7, 2.245, 2.31, trace.Verified)),
		}, 0, 0.065, 0},
		{"killed afterwards, and 5 s to start", afterwards, []trace.Sync{
			call(7, 0.636, 0.660, trace.Verified), starting(call(7, 2.245, 7.291, trace.Verified)),
		}, 0, 5.046, 0},
		{"killed afterwards, and not started until the next change", afterwards, []trace.Sync{
			call(7, 0.636, 0.660, trace.Verified), call(7, 2.245, 2.3, trace.Failed),
			starting(call(8, 62.3, 62.35, trace.Verified)),
		}, 0, 60.105, 0},
		{"killed before", early, []trace.Sync{
			starting(call(6, 0.62, 0.68, trace.Verified)), call(7, 0.69, 0.74, trace.Verified),
		}, 0.02, 0.06, 0.12},
		{"killed in the call", early, []trace.Sync{
			call(6, 0.495, 0.52, trace.Failed), starting(call(6, 0.53, 0.68, trace.Verified)),
			call(7, 0.69, 0.74, trace.Verified),
		}, 0.01, 0.18, 0.13},
		{"the watch is back late", away, last, 2.94, 0.01, 0.06},
		{"some of what the controller has read is old", late, []trace.Sync{
			call(6, 6.5, 6.51, trace.Verified), failing(call(7, 6.55, 6.56, trace.NotCalled)),
			failing(call(7, 14.8, 14.81, trace.NotCalled)),
			call(7, 23.1, 23.15, trace.Verified),
		}, 19.49, 0.01, 0.11},
		{"nothing keeps the controller from its router", late, []trace.Sync{
			call(6, 6.5, 6.51, trace.Verified), call(7, 6.55, 6.56, trace.NotCalled), call(7, 23.1, 23.15, trace.Verified),
		}, 2.94, 0.01, 16.66},
		{
			"the controller's own write waits", away, append([]trace.Sync{call(6, 3.2, 5.5, trace.NotCalled)}, last...),
			2.94, 0.01, 0.06,
		},
		{"the router waits", away, append([]trace.Sync{call(6, 0.7, 5.5, trace.Verified)}, last...), 1.04, 2.01, 1.96},
		{"the router has given up", away, append([]trace.Sync{call(6, 0.7, 3.4, trace.Failed)}, last...), 0.04, 3.01, 2.96},
		{"the router reports the weight as unverified", away, []trace.Sync{
			call(6, 6.5, 6.51, trace.Unverified), call(7, 6.55, 6.61, trace.Unverified), call(7, 16.6, 16.65, trace.Verified),
		}, 2.94, 10.11, 0.06},
	}
	for _, tt := range tests {
		tt.round.syncs = tt.syncs
		got := tt.round.times()
		figures := []time.Duration{got.idle, got.recovered, got.converged}
		for i, want := range []float64{tt.idle, tt.recovered, tt.converged} {
			if figures[i].Round(time.Millisecond).Seconds() != want {
				t.Errorf("%s: idle, recovered, converged %v, want %g, %g, %g", tt.name, figures,
					tt.idle, tt.recovered, tt.converged)
			}
		}
	}
}
