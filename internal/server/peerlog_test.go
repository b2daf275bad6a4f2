package server_test

import (
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// TestPeerLog rejects peers again and again. The clock is that of synctest.
func TestPeerLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var limited server.PeerLog
		one, other := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("2001:db8::7")
		expect := func(what string, peer netip.Addr, reason string, want slog.Level) {
			t.Helper()
			if got := limited.Level(peer, reason); got != want {
				t.Errorf("%s: level %v, want %v", what, got, want)
			}
		}
		expect("the first one", one, "unknown", slog.LevelWarn)
		expect("again", one, "unknown", slog.LevelDebug)
		expect("another peer", other, "unknown", slog.LevelWarn)
		expect("a peer without an address", netip.Addr{}, "unknown", slog.LevelWarn)
		expect("another reason", one, "two fleets", slog.LevelWarn)
		time.Sleep(time.Minute - time.Nanosecond)
		expect("before a minute", one, "two fleets", slog.LevelDebug)
		time.Sleep(time.Nanosecond)
		expect("after a minute", one, "two fleets", slog.LevelWarn)
		expect("and again", one, "two fleets", slog.LevelDebug)
	})
}

// TestPeerLogIsBounded rejects more peers than are remembered: there are no more warnings than that.
func TestPeerLogIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var limited server.PeerLog
		for minute := range 3 {
			warnings, peer := 0, netip.MustParseAddr("2001:db8::")
			for range 5000 {
				if peer = peer.Next(); limited.Level(peer, "unknown") == slog.LevelWarn {
					warnings++
				}
			}
			if warnings != 1000 {
				t.Errorf("minute %d: %d warnings, want 1000", minute, warnings)
			}
			time.Sleep(time.Minute)
		}
	})
}
