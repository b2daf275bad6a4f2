package extauthz_test

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
)

// spare is the number of calls that may run in addition to those that wait.
const spare = 100

// TestProxiesUseTheStreamsOfAConnection: otherwise the interceptor would refuse calls.
func TestProxiesUseTheStreamsOfAConnection(t *testing.T) {
	t.Parallel()
	if translate.HoldStreams != grpcserver.StreamsPerConnection {
		t.Errorf("proxies make %d calls on a connection, and the interceptor accepts %d", translate.HoldStreams,
			grpcserver.StreamsPerConnection)
	}
}

// runFleets runs a test with two fleets in a bubble: the proxy of apps is connected, and that of evil is not, so its
// calls wait for its stream.
func runFleets(t *testing.T, limits holding.Limits, run func(s *fixture, evil netip.Addr)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, reasons := newServerOf(t, limits)
		s := &fixture{Server: server, t: t, stream: &stream{number: 1, fleet: "apps"}, reasons: reasons}
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: workload()})
		s.Opened(proxy, s.stream)
		evil := netip.MustParseAddr("10.9.0.1")
		fleets := map[model.Fleet][]model.Proxy{"apps": {{Name: "own", Addresses: []netip.Addr{proxy}}}}
		for range 20 {
			fleets["evil"] = append(fleets["evil"], model.Proxy{Name: evil.String(), Addresses: []netip.Addr{evil}})
			evil = evil.Next()
		}
		s.SetProxies(fleets)
		run(s, netip.MustParseAddr("10.9.0.1"))
		s.Close()
		synctest.Wait()
	})
}

// TestOneFleetGetsHalfOfTheCalls has a fleet with many proxies that make many calls. Those above the limits are answered
// at once, and the other fleet's request waits for its Pod.
func TestOneFleetGetsHalfOfTheCalls(t *testing.T) {
	t.Parallel()
	runFleets(t, holding.Limits{Object: 900, Namespace: 900, Proxy: 50, Total: 900}, func(s *fixture, evil netip.Addr) {
		var waiting []<-chan result
		from := evil
		for range 20 {
			for range 50 {
				waiting = append(waiting, s.callFrom(s.t.Context(), from, cluster))
			}
			from = from.Next()
		}
		if rejected := s.ended(waiting); rejected != 1000-(900+spare)/2 {
			s.t.Errorf("%d of 1000 calls of one fleet were rejected, want all but half of %d", rejected, 900+spare)
		}
		done := s.call(s.t.Context())
		if !s.pending(done) {
			s.t.Fatalf("the request of the other fleet: %+v", <-done)
		}
		s.stream.serves.Store(true)
		s.EndpointsAcked(proxy)
		s.expect(done, result{isCold: true})
	})
}

// TestCallsOfAProxyAreLimited has a proxy with many calls that wait for its stream. A call above the limit is not read.
func TestCallsOfAProxyAreLimited(t *testing.T) {
	t.Parallel()
	runFleets(t, holding.Limits{Object: 900, Namespace: 900, Proxy: 50, Total: 9000}, func(s *fixture, evil netip.Addr) {
		for range 50 + spare {
			s.callFrom(s.t.Context(), evil, cluster)
		}
		unread := &checkStream{context: s.contextOf(evil), request: new(authv3.CheckRequest)}
		err := s.ServeCheck(unread)
		if err != nil || headerOf(unread.response, extauthz.ReasonHeader) != extauthz.ReasonLimit || unread.request == nil {
			s.t.Errorf("one more: %v, %v; it was read: %t", unread.response, err, unread.request == nil)
		}
		if other := s.callFrom(s.t.Context(), evil.Next(), cluster); !s.pending(other) {
			s.t.Error("a call of another proxy was rejected")
		}
	})
}

// TestLongPathsAreNotKept has a request with a path that is too long for one of health checks.
func TestLongPathsAreNotKept(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, s *fixture) {
		t.Helper()
		probed := workload()
		probed.HealthPath = "/" + strings.Repeat("x", 100)
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: probed})
		for path, isProbe := range map[string]bool{
			probed.HealthPath: true, probed.HealthPath + "?" + strings.Repeat("q", 1<<20): true,
			"/" + strings.Repeat("x", 1<<20): false,
		} {
			request := pageView()
			request.Attributes.Request.Http.Path = path
			done := s.callFor(t.Context(), request)
			if isPending := s.pending(done); isPending == isProbe {
				t.Errorf("a path of %d bytes: waits %t", len(path), isPending)
			}
		}
	})
}
