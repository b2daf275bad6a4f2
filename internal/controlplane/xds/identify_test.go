package xds

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// TestProxyProvesItsFleet has proxies with and without a proof of their fleet, at addresses of fleets. A proxy receives
// the listener of its fleet, and a certificate only with a proof. The clock is that of synctest.
func TestProxyProvesItsFleet(t *testing.T) {
	t.Parallel()
	const unproven, bad = "", "bad"
	for name, test := range map[string]struct {
		fleets  []string // of the address
		proof   string
		want    codes.Code
		names   [][]string // that the proxy receives
		isAsked bool
	}{
		"proven": {
			fleets: []string{"a"}, proof: "a", names: [][]string{{"of-a"}, {"shop.test"}}, isAsked: true,
		},
		"not proven": {
			fleets: []string{"a"}, proof: unproven, names: [][]string{{"of-a"}, {"-shop.test"}}, isAsked: true,
		},
		"the address is claimed by another fleet too": {
			fleets: []string{"b", "a"}, proof: "a", names: [][]string{{"of-a"}, {"shop.test"}}, isAsked: true,
		},
		"claimed twice, not proven": {
			fleets: []string{"b", "a"}, proof: unproven, want: codes.PermissionDenied, isAsked: true,
		},
		"the address of another fleet": {
			fleets: []string{"b"}, proof: "a", want: codes.PermissionDenied, isAsked: true,
		},
		"a bad proof":        {fleets: []string{"a"}, proof: bad, want: codes.Unauthenticated, isAsked: true},
		"an unknown address": {proof: "a", want: codes.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				s := NewServer(Options{Identify: func(context.Context) (string, error) {
					asked++
					if test.proof == bad {
						return "", status.Error(codes.Unauthenticated, bad)
					}
					return test.proof, nil
				}})
				address := netip.MustParseAddr("10.0.0.7")
				s.SetMembers(Members{Fleets: map[netip.Addr][]string{address: test.fleets}})
				for _, fleet := range []string{"a", "b"} {
					if err := s.Publish(fleet, envoyresources.Parse(t, "listener:of-"+fleet+" secret:shop.test")); err != nil {
						t.Fatal(err)
					}
				}
				transport := &fakeTransport{mode: session.ModeDelta, requests: make(chan session.Request)}
				ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: address.AsSlice(), Port: 40000}})
				ended := make(chan error, 1)
				go func() { ended <- s.serve(ctx, session.ModeDelta, transport) }()
				if test.want == codes.OK {
					transport.requests <- session.Request{TypeURL: session.ListenerKind.TypeURL()}
					transport.requests <- session.Request{
						TypeURL: session.SecretKind.TypeURL(), Subscribe: []string{"shop.test"},
					}
					synctest.Wait()
					close(transport.requests)
				} else {
					time.Sleep(time.Minute) // of synctest's clock
				}
				if got := status.Code(<-ended); got != test.want {
					t.Errorf("the stream ended with %s, want %s", got, test.want)
				}
				if diff := cmp.Diff(test.names, transport.listeners()); diff != "" {
					t.Errorf("received (-want +got):\n%s", diff)
				}
				if isAsked := asked == 1; asked > 1 || isAsked != test.isAsked {
					t.Errorf("the proof was checked %d times", asked)
				}
			})
		})
	}
}

// TestWithheldCertificatesAreLoggedOnce has a proxy without a proof that requests certificates by names that clients
// have chosen. There is one line for the stream, without the names.
func TestWithheldCertificatesAreLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := NewServer(Options{
			Identify: func(context.Context) (string, error) { return "", nil },
			Logger:   slog.New(slog.NewTextHandler(&log, nil)),
		})
		address := netip.MustParseAddr("10.0.0.7")
		s.SetMembers(Members{Fleets: map[netip.Addr][]string{address: {"a"}}})
		if err := s.Publish("a", envoyresources.Parse(t, "listener:of-a secret:shop.test")); err != nil {
			t.Fatal(err)
		}
		transport := &fakeTransport{mode: session.ModeDelta, requests: make(chan session.Request)}
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: address.AsSlice(), Port: 40000}})
		ended := make(chan error, 1)
		go func() { ended <- s.serve(ctx, session.ModeDelta, transport) }()
		for _, name := range []string{"shop.test", "other.test"} {
			transport.requests <- session.Request{TypeURL: session.SecretKind.TypeURL(), Subscribe: []string{name}}
		}
		synctest.Wait()
		close(transport.requests)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if lines := strings.Count(log.String(), "receives none"); lines != 1 || strings.Contains(log.String(), ".test") {
			t.Errorf("%d lines:\n%s", lines, log.String())
		}
	})
}

// TestStrictFleet has proxies with and without a proof in a fleet that is strict from the start, or becomes strict while
// they are connected. The clock is that of synctest.
func TestStrictFleet(t *testing.T) {
	t.Parallel()
	address := netip.MustParseAddr("10.0.0.7")
	fleets := map[netip.Addr][]string{address: {"a"}}
	identify := func(fleet string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return fleet, nil }
	}
	for name, test := range map[string]struct {
		identify func(context.Context) (string, error)
		want     codes.Code
	}{
		"proven":      {identify("a"), codes.OK},
		"not proven":  {identify(""), codes.PermissionDenied},
		"without TLS": {nil, codes.PermissionDenied},
	} {
		for _, isLater := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, later %t", name, isLater), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var log bytes.Buffer
					s := NewServer(Options{Identify: test.identify, Logger: slog.New(slog.NewTextHandler(&log, nil))})
					s.SetMembers(Members{Fleets: fleets, Strict: map[string]bool{"a": !isLater, "b": true}})
					if err := s.Publish("a", envoyresources.Parse(t, "listener:of-a")); err != nil {
						t.Fatal(err)
					}
					transport := &fakeTransport{mode: session.ModeDelta, requests: make(chan session.Request, 1)}
					transport.requests <- session.Request{TypeURL: session.ListenerKind.TypeURL()}
					ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: address.AsSlice(), Port: 40000}})
					ended := make(chan error, 1)
					go func() { ended <- s.serve(ctx, session.ModeDelta, transport) }()
					synctest.Wait()
					if isServed := len(transport.listeners()) > 0; isServed != (isLater || test.want == codes.OK) {
						t.Errorf("served: %t", isServed)
					}
					s.SetMembers(Members{Fleets: fleets, Strict: map[string]bool{"a": true}})
					synctest.Wait()
					if test.want == codes.OK {
						close(transport.requests)
					} else {
						defer close(transport.requests)
					}
					if err := <-ended; status.Code(err) != test.want {
						t.Errorf("the stream ended with %v, want %s", err, test.want)
					}
					if !isLater && test.want != codes.OK && !strings.Contains(log.String(), "http.kedify.io/proxy-authentication") {
						t.Errorf("the log lacks the fix:\n%s", log.String())
					}
				})
			})
		}
	}
}
