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

// TestIPv6Listeners has the listeners that a proxy receives as its addresses change: those of IPv6 once it has an
// IPv6 address, and then for the rest of the stream. The clock is that of synctest.
func TestIPv6Listeners(t *testing.T) {
	t.Parallel()
	v4, v6 := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")
	members := func(withIPv6, draining bool) Members {
		m := Members{Fleets: map[netip.Addr][]string{v4: {"a"}}}
		if withIPv6 {
			m.Fleets[v6], m.WithIPv6 = []string{"a"}, []Member{{"a", v4}, {"a", v6}}
		}
		if draining {
			m.Draining = []Member{{"a", v4}}
		}
		return m
	}
	claimed := Members{
		Fleets:   map[netip.Addr][]string{v4: {"a", "b"}, v6: {"b"}},
		WithIPv6: []Member{{"b", v4}, {"b", v6}}, Draining: []Member{{"b", v4}},
	}
	for name, test := range map[string]struct {
		mode    session.Mode
		members []Members // one after the other; the first one before the stream
		from    string    // the source address
		want    [][]string
	}{
		"IPv4 only": {
			mode: session.ModeDelta, from: "10.0.0.7", members: []Members{members(false, false)},
			want: [][]string{{"net", "web"}},
		},
		"dual-stack, connected over IPv4": {
			mode: session.ModeDelta, from: "10.0.0.7", members: []Members{members(true, false)},
			want: [][]string{{"net", "web", "web6"}},
		},
		"dual-stack, connected over IPv6": {
			mode: session.ModeDelta, from: "fd00::7", members: []Members{members(true, false)},
			want: [][]string{{"net", "web", "web6"}},
		},
		"dual-stack, connected over IPv4 in IPv6 form": {
			mode: session.ModeDelta, from: "::ffff:10.0.0.7", members: []Members{members(true, false)},
			want: [][]string{{"net", "web", "web6"}},
		},
		"it becomes dual-stack": {
			mode: session.ModeDelta, from: "10.0.0.7", members: []Members{members(false, false), members(true, false)},
			want: [][]string{{"net", "web"}, {"web6"}},
		},
		"it becomes dual-stack, state of the world": {
			mode: session.ModeStateOfTheWorld, from: "10.0.0.7",
			members: []Members{members(false, false), members(true, false)},
			want:    [][]string{{"net", "web"}, {"net", "web", "web6"}},
		},
		"its IPv6 address disappears, then all": {
			mode: session.ModeDelta, from: "10.0.0.7",
			members: []Members{members(true, false), members(false, false), {}, members(false, false)},
			want:    [][]string{{"net", "web", "web6"}},
		},
		"another fleet lists its address with an IPv6 address, as draining": {
			mode: session.ModeDelta, from: "10.0.0.7", members: []Members{members(false, false), claimed},
			want: [][]string{{"net", "web"}},
		},
		"it drains": {
			mode: session.ModeDelta, from: "10.0.0.7", members: []Members{members(true, false), members(true, true)},
			want: [][]string{{"net", "web", "web6"}, {"-web", "-web6"}},
		},
		"it becomes dual-stack while it drains": {
			mode: session.ModeDelta, from: "10.0.0.7",
			members: []Members{members(false, false), members(false, true), members(true, true)},
			want:    [][]string{{"net", "web"}, {"-web"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := NewServer(Options{
					IPv6Listeners: []string{"web6"}, DrainedListeners: []string{"web", "web6"}, DrainDelay: time.Second,
				})
				s.SetMembers(test.members[0])
				if err := s.Publish("a", envoyresources.Parse(t, "x listener:web listener:web6 listener:net web/1>x")); err != nil {
					t.Fatal(err)
				}
				transport := &fakeTransport{mode: test.mode, requests: make(chan session.Request)}
				from := &net.TCPAddr{IP: net.ParseIP(test.from), Port: 40000}
				ended := make(chan error)
				go func() { ended <- s.serve(peer.NewContext(t.Context(), &peer.Peer{Addr: from}), test.mode, transport) }()
				transport.requests <- session.Request{TypeURL: session.ListenerKind.TypeURL()}
				synctest.Wait()
				transport.requests <- session.Request{TypeURL: session.ListenerKind.TypeURL(), Nonce: "1"}
				for _, next := range test.members[1:] {
					s.SetMembers(next)
					time.Sleep(time.Minute) // of synctest's clock
				}
				synctest.Wait()
				if diff := cmp.Diff(test.want, transport.listeners()); diff != "" {
					t.Errorf("sent (-want +got):\n%s", diff)
				}
				close(transport.requests)
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestIPv6ListenersOfReconnectingProxy has a proxy that reconnects with a listener that it may no longer have.
func TestIPv6ListenersOfReconnectingProxy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(Options{IPv6Listeners: []string{"web6"}})
		s.SetMembers(Members{Fleets: map[netip.Addr][]string{netip.MustParseAddr("10.0.0.7"): {"a"}}})
		if err := s.Publish("a", envoyresources.Parse(t, "x listener:web listener:web6 web/1>x")); err != nil {
			t.Fatal(err)
		}
		version := s.Versions()
		transport := &fakeTransport{mode: session.ModeDelta, requests: make(chan session.Request)}
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 40000}})
		ended := make(chan error)
		go func() { ended <- s.serve(ctx, session.ModeDelta, transport) }()
		initial := map[string]string{}
		for _, name := range []string{"web", "web6"} {
			initial[name] = version("a", session.ListenerKind.TypeURL(), name)
		}
		transport.requests <- session.Request{TypeURL: session.ListenerKind.TypeURL(), InitialVersions: initial}
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"-web6"}}, transport.listeners()); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		close(transport.requests)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
