package session

import (
	"slices"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// TestWithholdListenersOfReconnectingProxy has a proxy reconnect with a listener before and after the listener is
// removed.
func TestWithholdListenersOfReconnectingProxy(t *testing.T) {
	t.Parallel()
	for name, isBefore := range map[string]bool{"it leaves, then connects": true, "it connects, then leaves": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, err := new(Snapshot).Replace(envoyresources.Parse(t, "listener:web listener:net"))
			if err != nil {
				t.Fatal(err)
			}
			s, now := New(ModeDelta, scriptGrace, "salt", new(Rejections).Of("proxy")), time.Unix(0, 0)
			s.Publish(now, w)
			if isBefore {
				s.WithholdListeners(now, []string{"web"})
			}
			out := s.Receive(now, Request{
				TypeURL: ListenerKind.TypeURL(), InitialVersions: versionsOf(mapOf(w.resources[ListenerKind])),
			})
			if !isBefore {
				out = s.WithholdListeners(now, []string{"web"})
			}
			if len(out.Responses) != 1 || len(out.Responses[0].Resources) != 0 ||
				!slices.Equal(out.Responses[0].Removed, []string{"web"}) {
				t.Errorf("sent: %v, want the removal of web alone", out.Responses)
			}
		})
	}
}
