package server_test

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

func TestPeerAddress(t *testing.T) {
	t.Parallel()
	for peer, want := range map[string]string{
		"10.0.0.1:4711":          "10.0.0.1",
		"[::ffff:10.0.0.1]:4711": "10.0.0.1",
		"[fd00::1]:4711":         "fd00::1",
		"[fe80::1%eth0]:4711":    "fe80::1",
		"bufconn":                "invalid IP",
		"10.0.0.1":               "invalid IP",
		"":                       "invalid IP",
	} {
		got, err := server.PeerAddress(peer)
		if got.String() != want || (err == nil) != got.IsValid() {
			t.Errorf("PeerAddress(%q) = %v, %v; want %s", peer, got, err, want)
		}
	}
}
