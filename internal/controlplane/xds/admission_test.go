package xds

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// TestAdmitLimitsJoiningProxies lets as many proxies join as may at a time, and one more. It waits until one of them
// has joined, or until their timeout.
func TestAdmitLimitsJoiningProxies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		applications int
		leave        bool
		waits        time.Duration
	}{
		"another one has joined":   {largeFleet, true, time.Second},
		"the others are stuck":     {largeFleet, false, joinTimeout},
		"the fleet is a small one": {10, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := NewServer(Options{})
				if err := s.Publish(testFleet, envoyresources.Applications(t, test.applications)); err != nil {
					t.Fatal(err)
				}
				f := s.fleets[testFleet]
				began := time.Now()
				for range maxJoining {
					joined := s.admit(t.Context(), f)
					if test.leave {
						time.AfterFunc(time.Second, joined)
					}
				}
				if waited := time.Since(began); waited != 0 {
					t.Errorf("the first ones waited %v", waited)
				}
				defer s.admit(t.Context(), f)()
				if waited := time.Since(began); waited != test.waits {
					t.Errorf("the last one waited %v, want %v", waited, test.waits)
				}
				time.Sleep(joinTimeout) // The clock is synctest's.
			})
		})
	}
}
