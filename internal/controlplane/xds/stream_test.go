package xds

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/peer"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// TestNoResponseBeforeFirstPublish has a proxy subscribe to listeners of a fleet before its first snapshot, which may
// be empty. The clock is that of synctest.
func TestNoResponseBeforeFirstPublish(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		items string
		want  [][]string
	}{
		"something": {"listener:web", [][]string{{"web"}}},
		"nothing":   {"", [][]string{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				at := netip.MustParseAddr("10.0.0.7")
				s := NewServer(Options{})
				s.SetMembers(Members{Fleets: map[netip.Addr][]string{at: {"a"}}})
				transport := &fakeTransport{mode: session.ModeDelta, requests: make(chan session.Request, 1)}
				ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: at.AsSlice(), Port: 40000}})
				ended := make(chan error)
				go func() { ended <- s.serve(ctx, session.ModeDelta, transport) }()
				transport.requests <- session.Request{TypeURL: session.ListenerKind.TypeURL()}
				if err := s.Publish("other", envoyresources.Parse(t, "listener:other")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if sent := transport.listeners(); len(sent) > 0 {
					t.Errorf("before the first publication %q were sent", sent)
				}
				if err := s.Publish("a", envoyresources.Parse(t, test.items)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if diff := cmp.Diff(test.want, transport.listeners()); diff != "" {
					t.Errorf("then (-want +got):\n%s", diff)
				}
				close(transport.requests)
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
