package xds

import (
	"bytes"
	"context"
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
