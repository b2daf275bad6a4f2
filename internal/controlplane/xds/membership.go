package xds

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// membership says which proxies belong to which fleet. It is immutable.
type membership struct {
	fleets     map[netip.Addr][]string
	leaving    []netip.Addr // of proxies that are about to go
	superseded chan struct{}
}

// SetMembers says which fleets the proxies belong to, by their addresses. A stream belongs to the
// fleet of its peer's address. It waits Options.Patience for an address that is not known yet, and is refused
// then. An address of several fleets is one of none: it can't be told whose proxy connects.
//
// A stream whose address is no longer known goes on. It is ended when the address has become one of
// another fleet. leaving are the addresses of proxies that are about to go: see Options. Nobody may change
// either afterwards.
func (s *Server) SetMembers(fleets map[netip.Addr][]string, leaving ...netip.Addr) {
	before := s.membership.Swap(&membership{fleets, leaving, make(chan struct{})})
	close(before.superseded)
}

// fleetOf returns the fleet that a stream belongs to, and waits for it if need be.
func (s *Server) fleetOf(ctx context.Context, peer string) (string, error) {
	if fleets := s.membership.Load().fleets[addressOf(peer)]; len(fleets) == 1 {
		return fleets[0], nil
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return "", s.errFull()
	}
	patience := time.After(s.options.Patience)
	for {
		members := s.membership.Load()
		fleets := members.fleets[addressOf(peer)]
		if len(fleets) == 1 {
			return fleets[0], nil
		}
		select {
		case <-ctx.Done():
			return "", status.FromContextError(ctx.Err()).Err()
		case <-s.closed:
			return "", errShuttingDown()
		case <-patience:
			return "", s.refuse(ctx, peer, fleets)
		case <-members.superseded:
		}
	}
}

// refuse returns the status for a stream whose address belongs to no fleet, or to several, and logs it.
func (s *Server) refuse(ctx context.Context, peer string, fleets []string) error {
	reason := "no fleet has a proxy with the address " + hostOf(peer)
	if len(fleets) > 1 {
		sorted := slices.Sorted(slices.Values(fleets))
		reason = fmt.Sprintf("the address %s is that of proxies of several fleets: %s",
			hostOf(peer), strings.Join(sorted, ", "))
	}
	if s.options.Remedy != "" {
		reason += "; " + s.options.Remedy
	}
	s.options.Logger.WarnContext(ctx, "Proxy refused", slog.String("peer", peer), slog.String("reason", reason))
	return status.Error(codes.PermissionDenied, reason)
}

// check returns the status with which a stream ends whose address has become one of another fleet.
func (m *membership) check(st *stream) error {
	fleets := m.fleets[st.address]
	if len(fleets) != 1 || fleets[0] == st.fleet.name {
		return nil
	}
	return status.Errorf(codes.Unavailable, "the address %s is that of a proxy of fleet %q now, no longer of %q",
		hostOf(st.peer), fleets[0], st.fleet.name)
}

// leaveTime is when the proxy of a stream loses listeners, nil for one that is not known to go.
func (s *Server) leaveTime(members *membership, st *stream) <-chan time.Time {
	if len(s.options.LeftListeners) == 0 || !slices.Contains(members.leaving, st.address) {
		return nil
	}
	return time.After(s.options.LeaveDelay)
}

// addressOf is the address of a peer, one that is not valid when it has none.
func addressOf(peer string) netip.Addr {
	at, err := netip.ParseAddrPort(peer)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// hostOf is a peer without its port.
func hostOf(peer string) string {
	if address := addressOf(peer); address.IsValid() {
		return address.String()
	}
	return peer
}
