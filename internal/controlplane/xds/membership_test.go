package xds

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/test/kit/envoyresources"
)

// TestFleetOf requests the fleet of an address that becomes known or does not. The clock is that of synctest.
func TestFleetOf(t *testing.T) {
	t.Parallel()
	const peer, mapped = "10.0.0.7:40000", "[::ffff:10.0.0.7]:40000"
	address := netip.MustParseAddr("10.0.0.7")
	for name, test := range map[string]struct {
		peer    string
		do      func(*Server, context.CancelFunc)
		fleet   string
		code    codes.Code
		message string
		after   time.Duration
	}{
		"known": {peer: mapped, do: func(s *Server, _ context.CancelFunc) {
			s.SetMembers(Members{Fleets: map[netip.Addr][]string{address: {"apps"}}})
		}, fleet: "apps"},
		"becomes known": {peer: peer, do: func(s *Server, _ context.CancelFunc) {
			s.SetMembers(Members{Fleets: map[netip.Addr][]string{address.Next(): {"other"}}})
			time.Sleep(900 * time.Millisecond)
			s.SetMembers(Members{Fleets: map[netip.Addr][]string{address: {"apps"}}})
		}, fleet: "apps", after: 900 * time.Millisecond},
		"never known": {
			peer: peer, do: func(*Server, context.CancelFunc) {}, code: codes.PermissionDenied,
			message: "no fleet has a proxy with the address 10.0.0.7; do this", after: time.Second,
		},
		"of two fleets": {peer: peer, do: func(s *Server, _ context.CancelFunc) {
			s.SetMembers(Members{Fleets: map[netip.Addr][]string{address: {"b", "a"}}})
		}, code: codes.PermissionDenied, message: "the address 10.0.0.7 belongs to several fleets: a, b; do this", after: time.Second},
		"no address": {
			peer: "bufconn", do: func(*Server, context.CancelFunc) {}, code: codes.PermissionDenied,
			message: "no fleet has a proxy with the address bufconn; do this", after: time.Second,
		},
		"the server closes": {peer: peer, do: func(s *Server, _ context.CancelFunc) {
			time.Sleep(time.Millisecond)
			s.Close()
		}, code: codes.Unavailable, message: "the discovery server is shutting down", after: time.Millisecond},
		"the proxy disconnects": {peer: peer, do: func(_ *Server, cancel context.CancelFunc) {
			time.Sleep(time.Millisecond)
			cancel()
		}, code: codes.Canceled, message: "context canceled", after: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := NewServer(Options{MembershipHint: "do this"})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began := time.Now()
				go test.do(s, cancel)
				synctest.Wait()
				fleet, _, err := s.fleetOf(ctx, test.peer)
				if fleet != test.fleet || status.Code(err) != test.code ||
					err != nil && status.Convert(err).Message() != test.message {
					t.Errorf("fleet %q, %v, want %q, %v %s", fleet, err, test.fleet, test.code, test.message)
				}
				if elapsed := time.Since(began); elapsed != test.after {
					t.Errorf("it returned after %v, want %v", elapsed, test.after)
				}
				if len(s.waiting) != 0 {
					t.Errorf("%d streams still count as waiting", len(s.waiting))
				}
				synctest.Wait()
			})
		})
	}
}

// TestRejectionsAreNotLoggedForEachAttempt has two unknown proxies that connect again and again for two minutes.
func TestRejectionsAreNotLoggedForEachAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := NewServer(Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), MembershipHint: "do this"})
		for attempt := range 100 {
			for _, address := range []string{"10.0.0.8", "[2001:db8::8]"} {
				if _, _, err := s.fleetOf(t.Context(), fmt.Sprintf("%s:%d", address, 40000+attempt)); err == nil {
					t.Fatal("an unknown address has a fleet")
				}
			}
		}
		for _, address := range []string{"10.0.0.8:", "[2001:db8::8]:"} {
			if lines := strings.Count(log.String(), "peer="+address) + strings.Count(log.String(), `peer="`+address); lines != 4 {
				t.Errorf("%d warnings about %s in 200 s, want 4:\n%s", lines, address, log.String())
			}
		}
	})
}

// TestFleetOfLimitsWaitingStreams requires that streams with unknown addresses do not block those with known ones.
func TestFleetOfLimitsWaitingStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(Options{MaxStreams: 1})
		known := netip.MustParseAddr("10.0.0.7")
		s.SetMembers(Members{Fleets: map[netip.Addr][]string{known: {"apps"}}})
		go func() { _, _, _ = s.fleetOf(t.Context(), "10.0.0.8:1") }()
		synctest.Wait()
		if _, _, err := s.fleetOf(t.Context(), "10.0.0.9:1"); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a second unknown address: %v, want ResourceExhausted", err)
		}
		if fleet, _, err := s.fleetOf(t.Context(), "10.0.0.7:1"); fleet != "apps" || err != nil {
			t.Errorf("a known address: %q, %v", fleet, err)
		}
		time.Sleep(2 * time.Second) // The clock is synctest's.
	})
}

// TestFleetsAreIsolated publishes the same name to two fleets.
func TestFleetsAreIsolated(t *testing.T) {
	t.Parallel()
	s := NewServer(Options{})
	for fleet, items := range map[string]string{"a": "x listener:web web/1>x", "b": "y listener:web web/2>y"} {
		if err := s.Publish(fleet, envoyresources.Parse(t, items)); err != nil {
			t.Fatal(err)
		}
	}
	scope := resourcev3.ScopedRouteType
	a, b := s.Versions()("a", scope, "web"), s.Versions()("b", scope, "web")
	if a == "" || b == "" || a == b || s.Versions()("a", resourcev3.ClusterType, "y") != "" ||
		s.Versions()("c", scope, "web") != "" {
		t.Errorf("versions %q and %q", a, b)
	}
	st, err := s.addStream(session.ModeDelta, "10.0.0.7:1", "a")
	if err != nil {
		t.Fatal(err)
	}
	rejectListener(t, st)
	if s.fleets["a"].rejected.Len() != 1 || s.fleets["b"].rejected.Len() != 0 {
		t.Error("a rejection in one fleet affects the other")
	}
	s.Retire("a")
	s.Retire("a")
	select {
	case <-st.fleet.retired:
	default:
		t.Error("the stream of a removed fleet continues")
	}
	if s.Versions()("a", scope, "web") != "" || s.Versions()("b", scope, "web") != b {
		t.Error("the wrong fleet was removed")
	}
}

// rejectListener subscribes a proxy to the only listener and rejects it.
func rejectListener(t *testing.T, st *stream) {
	t.Helper()
	now, listeners := time.Now(), session.ListenerKind.TypeURL()
	st.session.Publish(now, st.fleet.current().snapshot)
	out := st.session.Receive(now, session.Request{TypeURL: listeners})
	if len(out.Responses) != 1 {
		t.Fatalf("%d responses", len(out.Responses))
	}
	nack := session.Request{TypeURL: listeners, Nonce: out.Responses[0].Nonce, Rejected: true}
	st.session.Receive(now, nack)
}
