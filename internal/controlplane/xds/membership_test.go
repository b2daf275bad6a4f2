package xds

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestFleetOf asks for the fleet of an address that becomes known, or doesn't. The clock is synctest's.
func TestFleetOf(t *testing.T) {
	t.Parallel()
	const peer, mapped = "10.0.0.7:40000", "[::ffff:10.0.0.7]:40000"
	at := netip.MustParseAddr("10.0.0.7")
	for name, test := range map[string]struct {
		peer  string
		do    func(*Server, context.CancelFunc)
		fleet string
		code  codes.Code
		says  string
		after time.Duration
	}{
		"known": {peer: mapped, do: func(s *Server, _ context.CancelFunc) {
			s.SetMembers(map[netip.Addr][]string{at: {"apps"}})
		}, fleet: "apps"},
		"becomes known": {peer: peer, do: func(s *Server, _ context.CancelFunc) {
			s.SetMembers(map[netip.Addr][]string{at.Next(): {"other"}})
			time.Sleep(900 * time.Millisecond)
			s.SetMembers(map[netip.Addr][]string{at: {"apps"}})
		}, fleet: "apps", after: 900 * time.Millisecond},
		"never known": {
			peer: peer, do: func(*Server, context.CancelFunc) {}, code: codes.PermissionDenied,
			says: "no fleet has a proxy with the address 10.0.0.7; do this", after: time.Second,
		},
		"of two fleets": {peer: peer, do: func(s *Server, _ context.CancelFunc) {
			s.SetMembers(map[netip.Addr][]string{at: {"b", "a"}})
		}, code: codes.PermissionDenied, says: "the address 10.0.0.7 is that of proxies of several fleets: a, b; do this", after: time.Second},
		"no address": {
			peer: "bufconn", do: func(*Server, context.CancelFunc) {}, code: codes.PermissionDenied,
			says: "no fleet has a proxy with the address bufconn; do this", after: time.Second,
		},
		"the server closes": {peer: peer, do: func(s *Server, _ context.CancelFunc) {
			time.Sleep(time.Millisecond)
			s.Close()
		}, code: codes.Unavailable, says: "the discovery server is shutting down", after: time.Millisecond},
		"the proxy goes": {peer: peer, do: func(_ *Server, cancel context.CancelFunc) {
			time.Sleep(time.Millisecond)
			cancel()
		}, code: codes.Canceled, says: "context canceled", after: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := NewServer(Options{Remedy: "do this"})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began := time.Now()
				go test.do(s, cancel)
				synctest.Wait()
				fleet, err := s.fleetOf(ctx, test.peer)
				if fleet != test.fleet || status.Code(err) != test.code || err != nil && status.Convert(err).Message() != test.says {
					t.Errorf("fleet %q, %v, want %q, %v %s", fleet, err, test.fleet, test.code, test.says)
				}
				if took := time.Since(began); took != test.after {
					t.Errorf("it took %v, want %v", took, test.after)
				}
				if len(s.waiting) != 0 {
					t.Errorf("%d streams still count as waiting", len(s.waiting))
				}
				synctest.Wait()
			})
		})
	}
}

// TestStrangersTakeNoRoom: so many may wait, and those that are known are served all the same.
func TestStrangersTakeNoRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(Options{MaxStreams: 1})
		known := netip.MustParseAddr("10.0.0.7")
		s.SetMembers(map[netip.Addr][]string{known: {"apps"}})
		go func() { _, _ = s.fleetOf(t.Context(), "10.0.0.8:1") }()
		synctest.Wait()
		if _, err := s.fleetOf(t.Context(), "10.0.0.9:1"); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a second stranger: %v, want ResourceExhausted", err)
		}
		if fleet, err := s.fleetOf(t.Context(), "10.0.0.7:1"); fleet != "apps" || err != nil {
			t.Errorf("one that is known: %q, %v", fleet, err)
		}
		time.Sleep(2 * time.Second) // The clock is synctest's.
	})
}

// TestFleetsHaveNothingInCommon publishes the same name to two fleets.
func TestFleetsHaveNothingInCommon(t *testing.T) {
	t.Parallel()
	s := NewServer(Options{})
	for fleet, items := range map[string]string{"a": "x listener:web web/1>x", "b": "y listener:web web/2>y"} {
		if err := s.Publish(fleet, desiredWorld(t, items)); err != nil {
			t.Fatal(err)
		}
	}
	scope := resourcev3.ScopedRouteType
	a, b := s.Versions()("a", scope, "web"), s.Versions()("b", scope, "web")
	if a == "" || b == "" || a == b || s.Versions()("a", resourcev3.ClusterType, "y") != "" || s.Versions()("c", scope, "web") != "" {
		t.Errorf("versions %q and %q", a, b)
	}
	st, err := s.open(ModeDelta, "10.0.0.7:1", "a")
	if err != nil {
		t.Fatal(err)
	}
	st.session.elsewhere.note(scopeKind, "web", versionOf(a))
	if s.fleets["b"].rejected.versions != nil {
		t.Error("a refusal in one fleet is known in the other")
	}
	s.Retire("a")
	s.Retire("a")
	select {
	case <-st.fleet.retired:
	default:
		t.Error("the stream of a fleet that is gone goes on")
	}
	if s.Versions()("a", scope, "web") != "" || s.Versions()("b", scope, "web") != b {
		t.Error("the wrong fleet is gone")
	}
}
