package xds

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/peer"
)

// TestNothingIsAnsweredBeforeTheFirstPublication has a proxy ask for listeners of a fleet of which nothing was
// published, and of which nothing at all is. The clock is synctest's.
func TestNothingIsAnsweredBeforeTheFirstPublication(t *testing.T) {
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
				s.SetMembers(map[netip.Addr][]string{at: {"a"}})
				over := &tape{form: ModeDelta, requests: make(chan request, 1)}
				ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: at.AsSlice(), Port: 40000}})
				ended := make(chan error)
				go func() { ended <- s.serve(ctx, ModeDelta, over) }()
				over.requests <- request{typeURL: listenerKind.typeURL()}
				if err := s.Publish("other", desiredWorld(t, "listener:other")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if sent := over.listeners(); len(sent) > 0 {
					t.Errorf("before the first publication %q were sent", sent)
				}
				if err := s.Publish("a", desiredWorld(t, test.items)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if diff := cmp.Diff(test.want, over.listeners()); diff != "" {
					t.Errorf("then (-want +got):\n%s", diff)
				}
				close(over.requests)
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
