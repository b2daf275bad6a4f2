package xds

import (
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/peer"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// fakeTransport is a transport with requests from a channel. It records what is sent.
type fakeTransport struct {
	mode     session.Mode
	requests chan session.Request

	mu   sync.Mutex
	sent []session.Response
}

func (t *fakeTransport) receive() (session.Request, error) {
	r, open := <-t.requests
	if !open {
		return session.Request{}, io.EOF
	}
	return r, nil
}

func (t *fakeTransport) send(r session.Response) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = append(t.sent, r)
	return nil
}

// listeners returns the names in r response. Removed names have a minus.
func (t *fakeTransport) listeners() (responses [][]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.sent {
		names := []string{}
		for _, res := range r.Resources {
			names = append(names, res.Name())
		}
		if t.mode == session.ModeDelta {
			for _, name := range r.Removed {
				names = append(names, "-"+name)
			}
		}
		slices.Sort(names)
		responses = append(responses, names)
	}
	return responses
}

// TestDrainingProxyLosesListeners reports a proxy as draining. The clock is that of synctest.
func TestDrainingProxyLosesListeners(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mode        session.Mode
		after       [][]string
		listener    string // that it loses
		drainsFirst bool   // the proxy is draining before the stream begins
		// drains is for how long it has been draining then, and has are the listeners that it reports.
		drains time.Duration
		has    []string
		before [][]string // what it has received a second before the delay is over; by default both listeners
	}{
		"delta":              {mode: session.ModeDelta, listener: "web", after: [][]string{{"net", "web"}, {"-web"}}},
		"state of the world": {mode: session.ModeStateOfTheWorld, listener: "web", after: [][]string{{"net", "web"}, {"net"}}},
		"a new stream with the listener": {
			mode: session.ModeDelta, listener: "web", drainsFirst: true, has: []string{"net", "web"},
			after: [][]string{{"net", "web"}, {"-web"}},
		},
		"a new stream without it": {
			mode: session.ModeDelta, listener: "web", drainsFirst: true, has: []string{"net"},
			before: [][]string{{"net"}}, after: [][]string{{"net"}},
		},
		"a new stream of a new process": {
			mode: session.ModeDelta, listener: "web", drainsFirst: true,
			before: [][]string{{"net"}}, after: [][]string{{"net"}},
		},
		"a new stream after the delay": {
			mode: session.ModeDelta, listener: "web", drainsFirst: true, drains: 5 * time.Second, has: []string{"net", "web"},
			before: [][]string{{"-web", "net"}}, after: [][]string{{"-web", "net"}},
		},
		"a new stream after the delay, state of the world": {
			mode: session.ModeStateOfTheWorld, listener: "web", drainsFirst: true, drains: 5 * time.Second,
			before: [][]string{{"net"}}, after: [][]string{{"net"}},
		},
		"of another name":    {mode: session.ModeDelta, listener: "other", after: [][]string{{"net", "web"}}},
		"without the option": {mode: session.ModeDelta, after: [][]string{{"net", "web"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				at := netip.MustParseAddr("10.0.0.7")
				options := Options{DrainDelay: 5 * time.Second}
				if test.listener != "" {
					options.DrainedListeners = []string{test.listener}
				}
				s := NewServer(options)
				members := map[netip.Addr][]string{at: {"a"}}
				s.SetMembers(Members{Fleets: members})
				leave := func() { s.SetMembers(Members{Fleets: members, Draining: []Member{{"a", at}}}) }
				if test.drainsFirst {
					leave()
					time.Sleep(test.drains)
					leave() // The delay does not start again.
				}
				if err := s.Publish("a", envoyresources.Parse(t, "x listener:web listener:net web/1>x")); err != nil {
					t.Fatal(err)
				}
				transport := &fakeTransport{mode: test.mode, requests: make(chan session.Request)}
				ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: at.AsSlice(), Port: 40000}})
				ended := make(chan error)
				go func() { ended <- s.serve(ctx, test.mode, transport) }()
				first := session.Request{TypeURL: session.ListenerKind.TypeURL()}
				for _, name := range test.has {
					if first.InitialVersions == nil {
						first.InitialVersions = map[string]string{}
					}
					first.InitialVersions[name] = "of another replica"
				}
				transport.requests <- first
				synctest.Wait()
				transport.requests <- session.Request{TypeURL: session.ListenerKind.TypeURL(), Nonce: "1"}
				if !test.drainsFirst {
					time.Sleep(time.Minute) // of synctest's clock
					leave()
				}
				time.Sleep(4 * time.Second)
				synctest.Wait()
				before := test.before
				if before == nil {
					before = [][]string{{"net", "web"}}
				}
				if diff := cmp.Diff(before, transport.listeners()); diff != "" {
					t.Errorf("a second before (-want +got):\n%s", diff)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if diff := cmp.Diff(test.after, transport.listeners()); diff != "" {
					t.Errorf("then (-want +got):\n%s", diff)
				}

				leave() // Neither repetition nor other changes restore the listener.
				if err := s.Publish("a", envoyresources.Parse(t, "x y listener:web listener:net web/2>y")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if diff := cmp.Diff(test.after, transport.listeners()); diff != "" {
					t.Errorf("later (-want +got):\n%s", diff)
				}
				close(transport.requests)
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
