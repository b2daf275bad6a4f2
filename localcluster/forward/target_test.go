package forward

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// An address is looked up once a second. A query without an answer changes nothing. A deleted host has no address, and
// may get another one.
func TestTargetAddress(t *testing.T) {
	lost, notFound := errors.New("i/o timeout"), &net.DNSError{Err: "no such host", IsNotFound: true}
	answers := []struct {
		address string
		err     error
	}{{err: lost}, {address: "10.0.0.1"}, {err: lost}, {address: "10.0.0.1"}, {err: notFound}, {address: "10.0.0.2"}}
	lookups := 0
	clock := time.Unix(0, 0)
	target, err := NewTarget("app.default.svc:80", func(_ context.Context, host string) ([]string, error) {
		if host != "app.default.svc" {
			t.Errorf("looked up %q", host)
		}
		answer := answers[lookups]
		lookups++
		if answer.err != nil {
			return nil, answer.err
		}
		return []string{answer.address}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	target.now = func() time.Time { return clock }
	for _, step := range []struct {
		what    string
		after   time.Duration
		address string
		fails   error
		asked   int
	}{
		{"nothing is known yet", 0, "", lost, 1},
		{"the first answer", 0, "10.0.0.1", nil, 2},
		{"it is fresh", freshFor / 2, "10.0.0.1", nil, 2},
		{"a question is lost", freshFor, "10.0.0.1", nil, 3},
		{"not at once again", freshFor / 2, "10.0.0.1", nil, 3},
		{"the same answer", freshFor, "10.0.0.1", nil, 4},
		{"the host is gone", freshFor, "", notFound, 5},
		{"it comes back elsewhere", 0, "10.0.0.2", nil, 6},
	} {
		clock = clock.Add(step.after)
		address, err := target.resolve(t.Context())
		if address != step.address || !errors.Is(err, step.fails) || lookups != step.asked {
			t.Errorf("%s: address %q, error %v, %d lookups; want %q, %v, %d", step.what, address, err, lookups, step.address,
				step.fails, step.asked)
		}
	}
}

func TestATargetHasAPort(t *testing.T) {
	if _, err := NewTarget("app.default.svc", nil); err == nil {
		t.Error("a target without a port was accepted")
	}
}
