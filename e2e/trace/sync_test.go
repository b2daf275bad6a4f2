package trace

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// second returns a moment, in seconds since a fixed start.
func second(n float64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n * float64(time.Second)))
}

// sync returns a sync that ends right after its router call.
func sync(version int64, from, to float64, answer Answer) Sync {
	return Sync{Began: second(from), Ended: second(to), Version: version, Answer: answer, Answered: second(to)}
}

// Idle excludes router calls and the delays after failed calls.
func TestIdle(t *testing.T) {
	const inForce = 50
	tests := []struct {
		name  string
		syncs []Sync
		want  float64 // of the span from 10 s to 20 s
	}{
		{"no sync at all", nil, 10},
		{"before and after", []Sync{sync(1, 8, 9, Verified), sync(1, 21, 22, Verified)}, 10},
		{"one call", []Sync{sync(1, 12, 13, Verified)}, 9},
		{"under way when it begins and when it ends", []Sync{sync(1, 5, 11, Verified), sync(1, 18, 23, Verified)}, 7},
		{"without the router", []Sync{sync(1, 12, 15, NotCalled)}, 10},
		{"after a failure", []Sync{sync(1, 12, 13, Failed), sync(1, 17, 18, Verified)}, 4},
		{"after a failure before it begins", []Sync{sync(1, 8, 9, Failed), sync(1, 17, 18, Verified)}, 2},
		{"after a failure, until it ends", []Sync{sync(1, 12, 13, Failed)}, 2},
		{"rightly not verified", []Sync{sync(1, 12, 13, Unverified), sync(1, 17, 18, Verified)}, 8},
		{"the controller died in the call", []Sync{{Began: second(12), Answer: Verified, Answered: second(13)}}, 9},
	}
	for _, tt := range tests {
		if got := Idle(tt.syncs, Span{second(10), second(20)}, second(inForce)).Seconds(); got != tt.want {
			t.Errorf("%s: %g s, want %g s", tt.name, got, tt.want)
		}
	}
	wrongly := []Sync{sync(1, 12, 13, Unverified), sync(1, 17, 18, Verified)}
	if got := Idle(wrongly, Span{second(10), second(20)}, second(11)).Seconds(); got != 4 {
		t.Errorf("not verified although active: %g s, want 4 s", got)
	}
	if got := Idle(nil, Span{second(20), second(10)}, second(0)); got != 0 {
		t.Errorf("a span that ends before it begins: %s", got)
	}
}

func TestFirstVerified(t *testing.T) {
	started := sync(5, 14, 15, Failed)
	started.Started = true
	syncs := []Sync{
		sync(3, 1, 9, Verified), sync(4, 11, 12, Unverified), sync(4, 12, 13, Verified), started,
		sync(6, 16, 17, NotCalled), sync(6, 18, 19, Verified),
	}
	tests := []struct {
		name  string
		after float64
		anew  bool
		want  int // its place in the list, or none
	}{
		{"the first that began afterwards", 5, false, 2},
		{"started again", 5, true, 5},
		{"started again in one that had begun", 14.5, true, 5},
		{"not started again", 15, true, -1},
		{"none at all", 18, false, -1},
	}
	for _, tt := range tests {
		var want Sync
		if tt.want >= 0 {
			want = syncs[tt.want]
		}
		got, ok := FirstVerified(syncs, second(tt.after), tt.anew)
		if diff := cmp.Diff(want, got); diff != "" || ok != (tt.want >= 0) {
			t.Errorf("%s: found %v (-want +got):\n%s", tt.name, ok, diff)
		}
	}
	if HasRouterCall(syncs, second(18)) || !HasRouterCall(syncs, second(17)) || HasRouterCall(syncs[:5], second(15)) {
		t.Error("the controller comes to its router by a sync that begins later and asks it")
	}
	stale := sync(5, 13, 14, NotCalled)
	stale.Failure = "the object has been modified"
	if asking, ok := FirstCall(append([]Sync{stale}, syncs...), 5); !ok || !cmp.Equal(asking, started) {
		t.Errorf("version 5 is first worked on in %+v", asking)
	}
	if _, ok := FirstCall(syncs, 7); ok {
		t.Error("FirstCall of version 7: got a sync, want none")
	}
}
