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
)

// tape is a transport that hands over requests and keeps what is sent.
type tape struct {
	form     Mode
	requests chan request

	mu   sync.Mutex
	sent []response
}

func (t *tape) receive() (request, error) {
	r, open := <-t.requests
	if !open {
		return request{}, io.EOF
	}
	return r, nil
}

func (t *tape) send(r response) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = append(t.sent, r)
	return nil
}

// listeners are those of what was sent, by response: what is there, and what is gone with a minus.
func (t *tape) listeners() (found [][]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, each := range t.sent {
		names := namesOf(each.resources)
		if t.form == ModeDelta {
			for _, name := range each.removed {
				names = append(names, "-"+name)
			}
		}
		slices.Sort(names)
		found = append(found, names)
	}
	return found
}

// TestAProxyThatLeavesLosesItsListener says of a proxy that it is about to go. The clock is synctest's.
func TestAProxyThatLeavesLosesItsListener(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		form     Mode
		after    [][]string
		listener string // that it loses
		isBefore bool   // the stream comes when the proxy is known to go
	}{
		"delta":                {form: ModeDelta, listener: "web", after: [][]string{{"net", "web"}, {"-web"}}},
		"state of the world":   {form: ModeStateOfTheWorld, listener: "web", after: [][]string{{"net", "web"}, {"net"}}},
		"a stream that begins": {form: ModeDelta, listener: "web", isBefore: true, after: [][]string{{"net", "web"}, {"-web"}}},
		"of another name":      {form: ModeDelta, listener: "other", after: [][]string{{"net", "web"}}},
		"without the option":   {form: ModeDelta, after: [][]string{{"net", "web"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				at := netip.MustParseAddr("10.0.0.7")
				options := Options{LeaveDelay: 5 * time.Second}
				if test.listener != "" {
					options.LeftListeners = []string{test.listener}
				}
				s := NewServer(options)
				members := map[netip.Addr][]string{at: {"a"}}
				s.SetMembers(members)
				leave := func() { s.SetMembers(members, at) }
				if test.isBefore {
					leave()
				}
				if err := s.Publish("a", desiredWorld(t, "x listener:web listener:net web/1>x")); err != nil {
					t.Fatal(err)
				}
				over := &tape{form: test.form, requests: make(chan request)}
				ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: at.AsSlice(), Port: 40000}})
				ended := make(chan error)
				go func() { ended <- s.serve(ctx, test.form, over) }()
				over.requests <- request{typeURL: listenerKind.typeURL()}
				synctest.Wait()
				over.requests <- request{typeURL: listenerKind.typeURL(), nonce: "1"}
				if !test.isBefore {
					time.Sleep(time.Minute) // of synctest's clock
					leave()
				}
				time.Sleep(4 * time.Second)
				synctest.Wait()
				if diff := cmp.Diff([][]string{{"net", "web"}}, over.listeners()); diff != "" {
					t.Errorf("a second before (-want +got):\n%s", diff)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if diff := cmp.Diff(test.after, over.listeners()); diff != "" {
					t.Errorf("then (-want +got):\n%s", diff)
				}

				leave() // what is said again, and what changes otherwise, brings nothing back
				if err := s.Publish("a", desiredWorld(t, "x y listener:web listener:net web/2>y")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if diff := cmp.Diff(test.after, over.listeners()); diff != "" {
					t.Errorf("later (-want +got):\n%s", diff)
				}
				close(over.requests)
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestAListenerThatWasBroughtIsLost has a proxy connect again, with the listener that it has, before it is taken
// away and after.
func TestAListenerThatWasBroughtIsLost(t *testing.T) {
	t.Parallel()
	for name, isBefore := range map[string]bool{"it leaves, then connects": true, "it connects, then leaves": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, err := new(snapshot).replace(desiredWorld(t, "listener:web listener:net"))
			if err != nil {
				t.Fatal(err)
			}
			s, now := newSession(ModeDelta, scriptGrace, "salt", &rejections{}), time.Unix(0, 0)
			s.publish(now, w)
			if isBefore {
				s.leave(now, []string{"web"})
			}
			out, err := s.receive(now, request{typeURL: listenerKind.typeURL(), initial: versionsOf(mapOf(w.resources[listenerKind]))})
			if err != nil {
				t.Fatal(err)
			}
			if !isBefore {
				out = s.leave(now, []string{"web"})
			}
			if len(out.responses) != 1 || len(out.responses[0].resources) != 0 || !slices.Equal(out.responses[0].removed, []string{"web"}) {
				t.Errorf("sent: %v, want the removal of web alone", out.responses)
			}
		})
	}
}
