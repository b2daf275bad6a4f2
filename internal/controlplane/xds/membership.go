package xds

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// Member is a proxy by its fleet and one of its addresses. Another fleet may list the same address, although it is not
// that of one of its Pods.
type Member struct {
	Fleet   string
	Address netip.Addr
}

// Members are the proxies of all fleets by their addresses. An IPv4 address is never in IPv6 form.
type Members struct {
	// Fleets are the fleets of each address. The name of a fleet is not empty.
	Fleets map[netip.Addr][]string
	// Strict are the fleets whose proxies are not served without a proof, see Options.Identify.
	Strict map[string]bool
	// Draining are the proxies that are shutting down, see Options.DrainedListeners.
	Draining []Member
	// WithIPv6 are the proxies that have an IPv6 address, with all their addresses of either family, see
	// Options.IPv6Listeners.
	WithIPv6 []Member
	// Topologies are the zone and node of each proxy, as far as they are known.
	Topologies map[Member]session.Topology
}

// membership assigns proxies to fleets. It is immutable.
type membership struct {
	Members

	drainingSince map[Member]time.Time // when each of Draining was reported first
	superseded    chan struct{}
}

// SetMembers sets the proxies of all fleets. A stream belongs to the fleet of its peer's address. It waits up to
// Options.MembershipTimeout for an unknown address and is rejected then. An address of several fleets is rejected too,
// because it does not identify one proxy, unless the proxy proves which one it is by Options.Identify. So is a proxy of
// a strict fleet without a proof.
//
// A stream continues if its address becomes unknown, with the topology that it had. It ends if its address is assigned
// to another fleet, or if its fleet becomes strict and it has no proof. The caller must not change the argument afterwards.
func (s *Server) SetMembers(members Members) {
	s.assigning.Lock()
	defer s.assigning.Unlock()
	before, since := s.membership.Load(), make(map[Member]time.Time, len(members.Draining))
	for _, member := range members.Draining {
		var isKnown bool
		if since[member], isKnown = before.drainingSince[member]; !isKnown {
			since[member] = time.Now()
		}
	}
	s.membership.Store(&membership{members, since, make(chan struct{})})
	close(before.superseded)
}

// FleetsOf returns the fleets that have a proxy with an address. The caller must not change the result.
func (s *Server) FleetsOf(address netip.Addr) []string { return s.membership.Load().Fleets[address] }

// IsConnected reports whether a proxy with an address has a stream, or waits for its fleet.
func (s *Server) IsConnected(address netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addresses[address] > 0
}

// fleetOf returns the fleet that a stream belongs to, and waits for it if necessary. isProven is true if the proxy has
// proven it.
func (s *Server) fleetOf(ctx context.Context, peer string) (fleet string, isProven bool, err error) {
	// Only the proxies of fleets cause the work of Identify.
	identify := sync.OnceValues(func() (string, error) { return s.identify(ctx, peer) })
	fleet, isProven, err = s.selectFleet(ctx, s.membership.Load(), peer, identify)
	if fleet != "" || err != nil {
		return fleet, isProven, err
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return "", false, s.errFull()
	}
	timeout := time.After(s.options.MembershipTimeout)
	for {
		members := s.membership.Load()
		if fleet, isProven, err = s.selectFleet(ctx, members, peer, identify); fleet != "" || err != nil {
			return fleet, isProven, err
		}
		select {
		case <-ctx.Done():
			return "", false, status.FromContextError(ctx.Err()).Err()
		case <-s.closed:
			return "", false, errShuttingDown()
		case <-timeout:
			return "", false, s.reject(ctx, peer, members.Fleets[addressOf(peer)])
		case <-members.superseded:
		}
	}
}

// identify calls Options.Identify, and logs its error.
func (s *Server) identify(ctx context.Context, peer string) (fleet string, err error) {
	fleet, err = s.options.Identify(ctx)
	if err != nil {
		s.logRejection(ctx, peer, status.Convert(err).Message())
	}
	return fleet, err
}

// selectFleet returns the fleet of a proxy among those of its address: the one that it has proven, or the only one. It
// returns "" if there is none. Without a proof, the only one must not be strict.
func (s *Server) selectFleet(
	ctx context.Context, members *membership, peer string, identify func() (string, error),
) (fleet string, isProven bool, err error) {
	fleets := members.Fleets[addressOf(peer)]
	if len(fleets) == 0 {
		return "", false, nil
	}
	if s.options.Identify != nil {
		fleet, err = identify()
	}
	switch only := onlyOne(fleets); {
	case err != nil:
		return "", false, err
	case fleet == "" && members.Strict[only]:
		err = errUnproven(only)
		s.logRejection(ctx, peer, status.Convert(err).Message())
		return "", false, err
	case fleet == "":
		return only, s.options.Identify == nil, nil
	case slices.Contains(fleets, fleet):
		return fleet, true, nil
	default:
		return "", false, nil
	}
}

// errUnproven returns the status of a stream without a proof in a strict fleet.
func errUnproven(fleet string) error {
	return status.Errorf(codes.PermissionDenied, "fleet %s is strict, and the proxy has no valid token or no TLS: let the "+
		"agent install the proxies, or set annotation http.kedify.io/proxy-authentication: permissive on Service "+
		"kedify-proxy in namespace %s", fleet, fleet)
}

// onlyOne returns the only element of fleets, "" if there are others.
func onlyOne(fleets []string) string {
	if len(fleets) == 1 {
		return fleets[0]
	}
	return ""
}

// reject logs and returns the status for a stream whose address belongs to no fleet, or to several.
func (s *Server) reject(ctx context.Context, peer string, fleets []string) error {
	reason := "no fleet has a proxy with the address " + hostOf(peer)
	switch len(fleets) {
	case 0:
	case 1:
		reason = fmt.Sprintf("the address %s belongs to fleet %s, and the proxy has proven another one", hostOf(peer),
			fleets[0])
	default:
		sorted := slices.Sorted(slices.Values(fleets))
		reason = fmt.Sprintf("the address %s belongs to several fleets: %s", hostOf(peer), strings.Join(sorted, ", "))
	}
	if s.options.MembershipHint != "" {
		reason += "; " + s.options.MembershipHint
	}
	s.logRejection(ctx, peer, reason)
	return status.Error(codes.PermissionDenied, reason)
}

// logRejection logs why a stream is rejected.
func (s *Server) logRejection(ctx context.Context, peer, reason string) {
	s.options.Logger.Log(ctx, s.rejections.Level(addressOf(peer), reason), "proxy rejected", slog.String("peer", peer),
		slog.String("reason", reason))
}

// checkFleet returns the status that ends a stream whose address was assigned to another fleet, or that needs a proof
// now.
func (m *membership) checkFleet(st *stream) error {
	fleets := m.Fleets[st.address]
	if m.Strict[st.fleet.name] && !st.hasProof {
		return errUnproven(st.fleet.name)
	}
	if len(fleets) != 1 || fleets[0] == st.fleet.name {
		return nil
	}
	return status.Errorf(codes.Unavailable, "the address %s moved from fleet %q to fleet %q",
		hostOf(st.peer), st.fleet.name, fleets[0])
}

// withheldListeners returns the listeners that the proxy of a stream must not have.
func (s *Server) withheldListeners(st *stream) (names []string) {
	if !st.hasIPv6 {
		names = append(names, s.options.IPv6Listeners...)
	}
	if st.isDrained {
		names = append(names, s.options.DrainedListeners...)
	}
	return names
}

// drainTimer fires when the drained listeners are removed from the proxy of a stream; nil if it is not draining.
func (s *Server) drainTimer(members *membership, st *stream) <-chan time.Time {
	since, isDraining := members.drainingSince[st.member()]
	if len(s.options.DrainedListeners) == 0 || !isDraining || st.isDrained {
		return nil
	}
	return time.After(time.Until(since.Add(s.options.DrainDelay)))
}

// isDrainOver reports whether a proxy has been draining for so long that a new stream starts without the drained
// listeners.
func (s *Server) isDrainOver(members *membership, st *stream) bool {
	since, isDraining := members.drainingSince[st.member()]
	return isDraining && !time.Now().Before(since.Add(s.options.DrainDelay))
}

// withholdDrained withholds the drained listeners from a draining proxy whose first request reports none of them, since
// another process has removed them. A proxy that still has one keeps it until the delay is over, because load balancers
// may still use it. In state of the world, a request does not report listeners.
func (s *Server) withholdDrained(members *membership, st *stream, r session.Request) []session.Response {
	if st.requestsListeners || r.TypeURL != session.ListenerKind.TypeURL() {
		return nil
	}
	st.requestsListeners = true
	_, isDraining := members.drainingSince[st.member()]
	if !isDraining || st.isDrained || st.mode != session.ModeDelta || slices.ContainsFunc(s.options.DrainedListeners,
		func(name string) bool { _, hasListener := r.InitialVersions[name]; return hasListener }) {
		return nil
	}
	st.isDrained = true
	return st.withhold(s.withheldListeners(st)).Responses
}

// addressOf returns the address of a peer, an invalid one if the peer has none.
func addressOf(peer string) netip.Addr {
	address, _ := server.PeerAddress(peer)
	return address
}

// hostOf returns a peer without its port.
func hostOf(peer string) string {
	if address := addressOf(peer); address.IsValid() {
		return address.String()
	}
	return peer
}
