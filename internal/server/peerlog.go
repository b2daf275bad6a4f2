package server

import (
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"time"
)

const (
	// peerLogPause is the time between two warnings about the same peer.
	peerLogPause = time.Minute
	// maxLoggedPeers is the maximum number of peers within that time: any Pod can connect, from many IPv6 addresses.
	maxLoggedPeers = 1000
)

// PeerLog limits the warnings about rejected peers, which connect again for as long as they are rejected. The zero value
// is ready to use.
type PeerLog struct {
	mu     sync.Mutex
	warned map[netip.Addr]warning
}

// warning is the last warning about a peer.
type warning struct {
	reason string
	at     time.Time
}

// Level returns the level at which the rejection of a peer is logged: a warning for the first one, for each other
// reason, and once a minute. All others have level debug.
func (l *PeerLog) Level(peer netip.Addr, reason string) slog.Level {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(l.warned, func(_ netip.Addr, last warning) bool { return now.Sub(last.at) >= peerLogPause })
	last, isKnown := l.warned[peer]
	if isKnown && last.reason == reason || !isKnown && len(l.warned) >= maxLoggedPeers {
		return slog.LevelDebug
	}
	if l.warned == nil {
		l.warned = map[netip.Addr]warning{}
	}
	l.warned[peer] = warning{reason, now}
	return slog.LevelWarn
}
