package grpcserver

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// closable is a connection that records whether it was closed.
type closable struct {
	net.Conn

	isClosed bool
}

func (c *closable) Close() error {
	c.isClosed = true
	return nil
}

// requestOn returns a request of a connection.
func requestOn(t *testing.T, conn net.Conn) *http.Request {
	t.Helper()
	return new(http.Request).WithContext(connContext(t.Context(), conn))
}

// TestFairLimit fills a limit of 10 streams by two addresses. Others replace streams of the address with the most, but
// none of an address with at most the floor.
func TestFairLimit(t *testing.T) {
	t.Parallel()
	keda, evil, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	limit := newFairLimit(10, 5)
	ofKEDA, ofEvil := new(closable), new(closable)
	for range 4 {
		if limit.enter(keda, requestOn(t, ofKEDA)) == nil {
			t.Fatal("a stream below the limit was refused")
		}
	}
	var leave []func()
	for range 6 {
		leave = append(leave, limit.enter(evil, requestOn(t, ofEvil)))
	}
	if limit.enter(evil, requestOn(t, ofEvil)) != nil || ofEvil.isClosed {
		t.Error("the address with the most streams got another one")
	}
	if limit.enter(keda, requestOn(t, ofKEDA)) == nil || !ofEvil.isClosed {
		t.Error("the fifth stream has not replaced one of the address with the most")
	}
	if limit.enter(other, requestOn(t, new(closable))) != nil || ofKEDA.isClosed {
		t.Error("a stream was admitted although no address has more than the floor")
	}
	for _, end := range leave {
		end()
		end() // It has no effect.
	}
	for range 5 {
		if limit.enter(other, requestOn(t, new(closable))) == nil {
			t.Error("a stream was refused although others have ended")
		}
	}
	if limit.total != 10 || len(limit.streams[evil]) != 0 {
		t.Errorf("%d streams count, %d of the address that has none", limit.total, len(limit.streams[evil]))
	}
}

// TestWithDeadline reads the header Grpc-Timeout.
func TestWithDeadline(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"2S": 2 * time.Second, "1500m": 1500 * time.Millisecond, "20u": 20 * time.Microsecond, "99999999H": 0, "1000H": 1000 * time.Hour,
		"": 0, "S": 0, "12": 0, "-1S": 0, "123456789S": 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := withDeadline(context.Background(), text)
			defer cancel()
			deadline, has := ctx.Deadline()
			if has != (want > 0) || has && time.Until(deadline) != want {
				t.Errorf("%q: %v, %v", text, deadline, has)
			}
		})
	}
}
