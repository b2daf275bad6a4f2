package sink_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

const fleet = model.Fleet("apps")

var shop = model.Key{Namespace: "apps", Name: "shop"}

func TestProxyReports(t *testing.T) {
	s := newTestSink(t, nil)
	s.assignTo(fleet)
	p := s.connect()
	p.flush("1000", "3")
	p.flush("2000", "4")
	if got, err := s.inFlight(); err != nil || got != 4 {
		t.Errorf("%v requests in flight, %v; want 4", got, err)
	}
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(`
# HELP kedify_backend_errors_total Requests to a backend with a response status of 500 to 599.
# TYPE kedify_backend_errors_total counter
kedify_backend_errors_total{backend="shop",httpscaledobject="shop",object_namespace="apps"} 20
# HELP kedify_backend_requests_total Requests to a backend, from the proxies that report to this replica.
# TYPE kedify_backend_requests_total counter
kedify_backend_requests_total{backend="shop",httpscaledobject="shop",object_namespace="apps"} 100
`), "kedify_backend_errors_total", "kedify_backend_requests_total"); err != nil {
		t.Error(err)
	}
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "kedify_backend_response_seconds" {
			continue
		}
		times := family.GetMetric()[0].GetHistogram()
		if times.GetSampleCount() != 100 || times.GetSampleSum() != 2 || times.GetBucket()[4].GetUpperBound() != 0.025 ||
			times.GetBucket()[4].GetCumulativeCount() != 90 {
			t.Errorf("times %v", times)
		}
	}
	s.SetObjects(map[model.Key]*metrics.Object{shop: nil})
	if count, err := testutil.GatherAndCount(s.registry, "kedify_backend_requests_total"); err != nil || count != 0 {
		t.Errorf("%d series of an object that is gone, %v", count, err)
	}
}

// TestMetricsOfIdleObjects checks that an object without requests has counters at 0 and no histograms, which are most
// of a metrics page. The first request to one of its backends adds the histograms of all, so that none starts in the
// middle of a canary.
func TestMetricsOfIdleObjects(t *testing.T) {
	s := newTestSink(t, nil)
	s.SetObjects(map[model.Key]*metrics.Object{
		shop:                              {Fleet: fleet, Services: []string{"shop", "shop-canary"}, Spec: inFlightSpec()},
		{Namespace: "apps", Name: "idle"}: {Fleet: fleet, Services: []string{"idle", "idle-canary"}, Spec: inFlightSpec()},
	})
	s.assignTo(fleet)
	count := func(name string, want int) {
		t.Helper()
		if got, err := testutil.GatherAndCount(s.registry, "kedify_backend_"+name); err != nil || got != want {
			t.Errorf("%d series of %s, %v; want %d", got, name, err, want)
		}
	}
	count("requests_total", 4)
	count("errors_total", 4)
	count("response_seconds", 0)
	p := s.connect()
	p.flush("1000", "3")
	p.flush("2000", "3")
	count("requests_total", 4)
	count("response_seconds", 2)
}

// TestEndedStreamMakesDemandUnknown ends the only stream while the proxy serves, or drains until it is removed.
func TestEndedStreamMakesDemandUnknown(t *testing.T) {
	for name, isReady := range map[string]bool{"of a proxy that stays": true, "of one that leaves": false} {
		t.Run(name, func(t *testing.T) {
			s := newTestSink(t, nil)
			s.assignTo(fleet)
			p := s.connect()
			p.flush("1000", "3")
			s.SetProxies(map[model.Fleet][]model.Proxy{fleet: {
				{Name: "proxy-1", IsReady: isReady, IsServing: true, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
				{Name: "proxy-2", IsReady: true, IsServing: true, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.2")}},
			}})
			s.connectFrom("127.0.0.2").flush("1000", "1")
			if got, err := s.inFlight(); err != nil || got != 4 {
				t.Errorf("%v requests in flight, %v; want 4", got, err)
			}
			p.expectStatus(codes.OK, "")
			if got, err := s.inFlight(); err == nil {
				t.Errorf("%v requests in flight without a stream", got)
			}
		})
	}
}

// useless is a message without a cluster.
const useless = `{"envoyMetrics": [{"name": "server.wip_protos", "metric": [{"counter": {"value": 0}, "timestampMs": "TIME"}]}]}`

func TestRejectedStreams(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		options func(*sink.Options)
		play    func(s *testSink)
	}{
		"of an unknown proxy": {nil, func(s *testSink) {
			s.connect().expectStatus(codes.PermissionDenied, "no fleet has a proxy with the address 127.0.0.1, "+
				"and no HTTPScaledObject with an external key lists it; see the manual")
		}},
		"of a proxy of two fleets": {nil, func(s *testSink) {
			s.assignTo(fleet, "other")
			s.connect().expectStatus(codes.PermissionDenied, "belongs to several proxies: apps/proxy-1, other/proxy-1")
		}},
		"that is compressed": {nil, func(s *testSink) {
			s.assignTo(fleet)
			p := s.connect(grpc.UseCompressor(gzip.Name))
			p.send(strings.ReplaceAll(useless, "TIME", "1"))
			p.expectStatus(codes.InvalidArgument, "compressed")
		}},
		"that leaves out what counts": {nil, func(s *testSink) {
			s.assignTo(fleet)
			p := s.connect()
			for _, timestamp := range []string{"1", "2", "3"} {
				p.send(strings.ReplaceAll(useless, "TIME", timestamp))
			}
			p.expectStatus(codes.FailedPrecondition, "stats_matcher")
		}},
		"of which there are too many": {func(o *sink.Options) { o.MaxStreams = 1 }, func(s *testSink) {
			s.SetProxies(map[model.Fleet][]model.Proxy{fleet: {
				{Name: "proxy-1", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
				{Name: "proxy-2", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.2")}},
			}})
			p := s.connect()
			p.flush("1000", "1")
			s.connectFrom("127.0.0.2").expectStatus(codes.ResourceExhausted, "the limit of 1 metric streams is reached")
			p.expectStatus(codes.OK, "")
			s.connectFrom("127.0.0.2").flush("1000", "1")
		}},
		"above the limit of streams": {func(o *sink.Options) { o.MaxStreams = 1 }, func(s *testSink) {
			s.assignTo(fleet)
			old := s.connect()
			old.flush("1000", "1")
			s.connect().flush("2000", "2")
			old.expectStatus(codes.Aborted, "superseded by another stream") // It has sent nothing more.
			if got, err := s.inFlight(); err != nil || got != 2 {
				s.t.Errorf("%v requests in flight, %v; want 2", got, err)
			}
		}},
		"of a proxy that was in no fleet, and is now": {nil, func(s *testSink) {
			s.SetObjects(map[model.Key]*metrics.Object{shop: externalObject("x", "127.0.0.0/8")})
			p := s.connect()
			p.flush("1000", "1")
			s.assignTo(fleet)
			p.send(strings.ReplaceAll(useless, "TIME", "2000"))
			p.expectStatus(codes.Unavailable, "the address now belongs to proxy apps/proxy-1")
		}},
		"when the server ends": {nil, func(s *testSink) {
			s.assignTo(fleet)
			p := s.connect()
			p.flush("1000", "1")
			s.stop()
			p.expectStatus(codes.Unavailable, "shutting down")
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.play(newTestSink(t, test.options))
		})
	}
}

func TestStreamWaitsForItsFleet(t *testing.T) {
	s := newTestSink(t, func(options *sink.Options) { options.MemberTimeout = await.Patience() })
	p := s.connect()
	if _, err := p.Header(); err != nil { // It is there, and waits.
		t.Fatal(err)
	}
	s.assignTo(fleet)
	p.flush("1000", "3")
	if got, err := s.inFlight(); err != nil || got != 3 {
		t.Errorf("%v requests in flight, %v; want 3", got, err)
	}
}

func TestExternalProxyReportsItsKeys(t *testing.T) {
	s := newTestSink(t, nil)
	s.SetObjects(map[model.Key]*metrics.Object{shop: externalObject("apps/shop/shop", "127.0.0.1/32")})
	p := s.connect()
	p.flush("1000", "7")
	if got, err := s.inFlight(); err != nil || got != 7 {
		t.Errorf("%v requests in flight, %v; want 7", got, err)
	}
	s.connectFrom("127.0.0.2").expectStatus(codes.PermissionDenied, "no HTTPScaledObject with an external key lists it")
	s.SetObjects(map[model.Key]*metrics.Object{shop: externalObject("apps/shop/shop", "127.0.0.2/32")})
	p.send(strings.ReplaceAll(useless, "TIME", "2000"))
	p.expectStatus(codes.PermissionDenied, "no HTTPScaledObject with an external key lists the address any more")
}

// TestExternalKeyWithoutSources has objects with an external key of which none lists an address of a proxy.
func TestExternalKeyWithoutSources(t *testing.T) {
	s := newTestSink(t, nil)
	s.SetObjects(map[model.Key]*metrics.Object{shop: externalObject("apps/shop/shop")})
	s.connect().expectStatus(codes.PermissionDenied, "no HTTPScaledObject with an external key lists it")
}

// TestExternalStreamsOfANamespace has a namespace that accepts every address, and more proxies than its limit.
func TestExternalStreamsOfANamespace(t *testing.T) {
	s := newTestSink(t, func(options *sink.Options) { options.MaxStreams, options.MaxExternal = 3, 2 })
	open := model.Key{Namespace: "open", Name: "shop"}
	s.SetObjects(map[model.Key]*metrics.Object{
		shop: externalObject("apps/shop/shop", "127.0.0.9/32"), open: externalObject("apps/shop/shop", "0.0.0.0/0"),
	})
	s.connectFrom("127.0.0.2").flush("1000", "1")
	s.connectFrom("127.0.0.3").flush("1000", "1")
	s.connectFrom("127.0.0.4").expectStatus(codes.ResourceExhausted, "the limit")
	s.connectFrom("127.0.0.3").flush("2000", "1") // instead of its first stream
	s.connectFrom("127.0.0.9").flush("1000", "5") // within the limit of the other namespace
	s.assignTo(fleet)
	s.connect().flush("1000", "3") // of a fleet
	if got, err := s.inFlight(); err != nil || got != 5 {
		t.Errorf("%v requests in flight, %v; want 5", got, err)
	}
}

// externalObject returns an object with an external key that lists the CIDRs of its proxies.
func externalObject(key string, from ...string) *metrics.Object {
	spec := inFlightSpec()
	spec.ExternalKey = key
	for _, cidr := range from {
		spec.ExternalSources = append(spec.ExternalSources, netip.MustParsePrefix(cidr))
	}
	return &metrics.Object{Fleet: fleet, Spec: spec}
}
