package sink_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestProxyProvesWhichOneItIs has proxies with and without a proof, at an address of fleets.
func TestProxyProvesWhichOneItIs(t *testing.T) {
	t.Parallel()
	const other model.Fleet = "other"
	for name, test := range map[string]struct {
		fleets []model.Fleet // of the address
		fleet  model.Fleet   // that the client proves
		proxy  string
		err    error
		want   codes.Code // OK for a stream
		says   string
	}{
		"proven":                     {fleets: []model.Fleet{fleet}, fleet: fleet, proxy: "proxy-1"},
		"nothing proven":             {fleets: []model.Fleet{fleet}},
		"claimed by another fleet":   {fleets: []model.Fleet{fleet, other}, fleet: fleet, proxy: "proxy-1"},
		"claimed, nothing proven":    {fleets: []model.Fleet{fleet, other}, want: codes.PermissionDenied, says: "several proxies"},
		"another Pod of the fleet":   {fleets: []model.Fleet{fleet}, fleet: fleet, proxy: "shop-1", want: codes.PermissionDenied, says: "another one"},
		"a proxy of another fleet":   {fleets: []model.Fleet{fleet}, fleet: other, proxy: "proxy-1", want: codes.PermissionDenied, says: "another one"},
		"an invalid proof":           {fleets: []model.Fleet{fleet}, err: status.Error(codes.Unauthenticated, "bad token"), want: codes.Unauthenticated, says: "bad token"},
		"an address without a proxy": {fleet: fleet, proxy: "proxy-1", want: codes.PermissionDenied, says: "no fleet has a proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestSink(t, func(options *sink.Options) {
				options.Identify = func(*http.Request) (model.Fleet, string, error) { return test.fleet, test.proxy, test.err }
			})
			s.assignTo(test.fleets...)
			client := s.connect()
			if test.want != codes.OK {
				client.expectStatus(test.want, test.says)
				return
			}
			client.flush("1000", "3")
			if got, err := s.inFlight(); err != nil || got != 3 {
				t.Errorf("%v requests in flight, %v; want 3", got, err)
			}
		})
	}
}

// TestStrictFleetCountsProvenProxiesOnly has proxies with and without a proof, in a fleet that is strict or becomes so
// while they report. A stream without a proof does not end that of the proxy.
func TestStrictFleetCountsProvenProxiesOnly(t *testing.T) {
	t.Parallel()
	for _, isProven := range []bool{true, false} {
		for _, isLater := range []bool{true, false} {
			t.Run(fmt.Sprintf("proven %t, later %t", isProven, isLater), func(t *testing.T) {
				t.Parallel()
				var proves atomic.Bool
				proves.Store(isProven)
				s := newTestSink(t, func(options *sink.Options) {
					options.Identify = func(*http.Request) (model.Fleet, string, error) {
						if proves.Load() {
							return fleet, "proxy-1", nil
						}
						return "", "", nil
					}
				})
				if s.assignTo(fleet); !isLater {
					s.assignStrict()
				}
				client := s.connect()
				if !isLater && !isProven {
					client.expectStatus(codes.PermissionDenied, "no valid token")
					return
				}
				client.flush("1000", "3")
				s.assignStrict()
				if !isProven {
					client.send("{}")
					client.expectStatus(codes.PermissionDenied, "no valid token")
					return
				}
				proves.Store(false)
				s.connect().expectStatus(codes.PermissionDenied, "no valid token")
				client.flush("2000", "5")
				if got, err := s.inFlight(); err != nil || got != 5 {
					t.Errorf("%v requests in flight, %v; want 5", got, err)
				}
			})
		}
	}
}

// assignStrict makes the fleet of the tests strict.
func (s *testSink) assignStrict() {
	s.SetProxies(map[model.Fleet][]model.Proxy{fleet: {{
		Name: "proxy-1", IsReady: true, IsServing: true, NeedsToken: true,
		Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
	}}})
}
