package invariant

import (
	"fmt"
	"testing"
)

func TestLine(t *testing.T) {
	const want = "invariant broken: split: 10 of 100; asked 20"
	if got := Line(Split, "10 of 100\nasked 20\n"); got != want {
		t.Errorf("Line = %q, want %q", got, want)
	}
}

// recorder is a test that records its errors.
type recorder struct {
	testing.TB

	errors []string
}

func (*recorder) Helper() {}

func (r *recorder) Error(args ...any) { r.errors = append(r.errors, fmt.Sprint(args...)) }

func TestBroken(t *testing.T) {
	tb := &recorder{TB: t}
	Broken(tb, FailedRequests, "%d of %d", 3, 100)
	if want := "[invariant broken: failed requests: 3 of 100]"; fmt.Sprint(tb.errors) != want {
		t.Errorf("errors = %q, want %q", tb.errors, want)
	}
}
