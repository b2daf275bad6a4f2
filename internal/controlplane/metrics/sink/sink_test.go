package sink_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/service/metrics/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const fleet = model.Fleet("apps")

var shop = model.Key{Namespace: "apps", Name: "shop"}

// clock advances only by pass. It is an hour ahead, because deadlines of connections use real time.
type clock struct {
	began  time.Time
	passed atomic.Int64
}

// now returns the time.
func (c *clock) now() time.Time { return c.began.Add(time.Duration(c.passed.Load())) }

// pass advances the clock.
func (c *clock) pass(duration time.Duration) { c.passed.Add(int64(duration)) }

// testSink is a serving Sink.
type testSink struct {
	*sink.Sink

	t        *testing.T
	registry *prometheus.Registry
	clock    *clock
	address  string
	stop     context.CancelFunc
}

// inFlightSpec has an app scale by its requests in flight.
func inFlightSpec() metrics.Spec {
	return metrics.Spec{Metric: metrics.Concurrency, Target: 5, Window: time.Minute, Granularity: time.Second}
}

// newTestSink starts a Sink with one object and no proxy.
func newTestSink(t *testing.T, change func(*sink.Options)) *testSink {
	t.Helper()
	s := &testSink{t: t, registry: prometheus.NewRegistry(), clock: &clock{began: time.Now().Add(time.Hour)}}
	options := sink.Options{
		Replica: "a", Now: s.clock.now, Registerer: s.registry, Logger: slog.New(slog.DiscardHandler), Hint: "see the manual",
	}
	if change != nil {
		change(&options)
	}
	var err error
	if s.Sink, err = sink.New(options); err != nil {
		t.Fatal(err)
	}
	s.SetObjects(map[model.Key]*metrics.Object{shop: {
		Fleet: fleet, Services: []string{"shop"},
		Spec: inFlightSpec(),
	}})
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	s.stop = stop
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s
}

// assignTo makes the address of this host that of a ready proxy in each fleet.
func (s *testSink) assignTo(fleets ...model.Fleet) {
	proxies := map[model.Fleet][]model.Proxy{}
	for _, each := range fleets {
		proxies[each] = []model.Proxy{
			{Name: "proxy-1", IsReady: true, IsServing: true, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
		}
	}
	s.SetProxies(proxies)
}

// proxy is a metric stream.
type proxy struct {
	metricsv3.MetricsService_StreamMetricsClient

	s *testSink
}

// connect opens a metric stream.
func (s *testSink) connect(options ...grpc.CallOption) *proxy {
	s.t.Helper()
	return s.connectFrom("127.0.0.1", options...)
}

// connectFrom opens a stream from an address of this host.
func (s *testSink) connectFrom(address string, options ...grpc.CallOption) *proxy {
	s.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	connection, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(
			func(ctx context.Context, to string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", to) },
		))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = connection.Close() })
	stream, err := metricsv3.NewMetricsServiceClient(connection).StreamMetrics(await.Context(s.t), options...)
	if err != nil {
		s.t.Fatal(err)
	}
	return &proxy{stream, s}
}

// flush reports active requests.
func (p *proxy) flush(timestamp, active string) {
	p.s.t.Helper()
	_, arrived := p.s.Report()
	p.send(strings.NewReplacer("TIME", timestamp, "ACTIVE", active).Replace(`{"envoyMetrics": [
		{"name": "cluster_manager.cluster_added", "metric": [{"counter": {"value": 0}, "timestampMs": "TIME"}]},
		{"name": "cluster.apps/shop/shop.upstream_rq_total", "metric": [{"counter": {"value": 100}, "timestampMs": "TIME"}]},
		{"name": "cluster.apps/idle/idle.upstream_rq_total", "metric": [{"counter": {"value": 0}, "timestampMs": "TIME"}]},
		{"name": "cluster.apps/shop/shop.upstream_rq_5xx", "metric": [{"counter": {"value": 20}, "timestampMs": "TIME"}]},
		{"name": "cluster.apps/shop/shop.upstream_rq_active", "metric": [{"gauge": {"value": ACTIVE}, "timestampMs": "TIME"}]},
		{"name": "cluster.apps/shop/shop.upstream_rq_time", "metric": [{"histogram": {"sampleCount": "100", "sampleSum": 2000,
			"bucket": [{"cumulativeCount": "90", "upperBound": 25}, {"cumulativeCount": "100", "upperBound": 50},
				{"cumulativeCount": "100", "upperBound": 3600000}]}, "timestampMs": "TIME"}]}]}`))
	await.Receive(p.s.t, "the flush", arrived)
}

// send sends a message given as JSON.
func (p *proxy) send(text string) {
	p.s.t.Helper()
	message := new(metricsv3.StreamMetricsMessage)
	if err := protojson.Unmarshal([]byte(text), message); err != nil {
		p.s.t.Fatal(err)
	}
	_ = p.Send(message) // An error is that of the end.
}

// expectStatus waits for the end of the stream, and checks its status.
func (p *proxy) expectStatus(code codes.Code, says string) {
	p.s.t.Helper()
	if code == codes.OK {
		if _, err := p.CloseAndRecv(); err == nil || !strings.Contains(err.Error(), "EOF") &&
			status.Code(err) != codes.Internal {
			p.s.t.Errorf("the stream ends with %v, want an orderly end without an answer", err)
		}
		return
	}
	err := p.RecvMsg(new(metricsv3.StreamMetricsResponse))
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), says) {
		p.s.t.Errorf("the stream ends with %v, want %s with %q", err, code, says)
	}
}

// inFlight returns the concurrency of the object.
func (s *testSink) inFlight() (float64, error) {
	report, _ := s.Report()
	value, err := metrics.Merge(shop, []metrics.Report{report}, nil)
	return value.Amount(), err
}

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
kedify_backend_errors_total{httpscaledobject="shop",namespace="apps",service="shop"} 20
# HELP kedify_backend_requests_total Requests to a backend, from the proxies that report to this replica.
# TYPE kedify_backend_requests_total counter
kedify_backend_requests_total{httpscaledobject="shop",namespace="apps",service="shop"} 100
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

func TestRejectedStreams(t *testing.T) {
	t.Parallel()
	const useless = `{"envoyMetrics": [{"name": "server.wip_protos", "metric": [{"counter": {"value": 0}, "timestampMs": "TIME"}]}]}`
	tests := map[string]struct {
		options func(*sink.Options)
		play    func(s *testSink)
	}{
		"of an unknown proxy": {nil, func(s *testSink) {
			s.connect().expectStatus(codes.PermissionDenied, "no fleet has a proxy with the address 127.0.0.1; see the manual")
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
			s.SetObjects(map[model.Key]*metrics.Object{shop: {Fleet: fleet, Spec: metrics.Spec{
				Metric: metrics.Concurrency, Target: 5, Window: time.Minute, Granularity: time.Second, ExternalKey: "x",
			}}})
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
	s.SetObjects(map[model.Key]*metrics.Object{shop: {Fleet: fleet, Spec: metrics.Spec{
		Metric: metrics.Concurrency, Target: 5, Window: time.Minute, Granularity: time.Second, ExternalKey: "apps/shop/shop",
	}}})
	s.connect().flush("1000", "7")
	if got, err := s.inFlight(); err != nil || got != 7 {
		t.Errorf("%v requests in flight, %v; want 7", got, err)
	}
}

func TestPages(t *testing.T) {
	s := newTestSink(t, nil)
	s.assignTo(fleet)
	s.connect().flush("1000", "3")
	s.SetObjects(map[model.Key]*metrics.Object{{Namespace: "apps", Name: "other"}: {Fleet: fleet, Spec: metrics.Spec{
		Metric: metrics.Concurrency, Target: 5, Window: time.Minute, Granularity: time.Second, ExternalKey: "outbound|80",
	}}})
	mux := http.NewServeMux()
	s.Register(mux)
	for path, want := range map[string]string{
		"/queue":             `{"apps/other":{"Concurrency":0,"RPS":0},"apps/shop":{"Concurrency":3,"RPS":0}}`,
		"/envoy-metrics-map": `{"outbound|80":"apps/other"}`,
	} {
		recorder := httptest.NewRecorder()
		mux.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		if got := strings.TrimSpace(recorder.Body.String()); recorder.Code != http.StatusOK || got != want {
			t.Errorf("GET %s: %d %s, want %s", path, recorder.Code, got, want)
		}
	}
	next := s.listen()
	for range 2 {
		if got, err := next(); err != nil || got != 3 {
			t.Errorf("%v requests in flight, %v; want 3", got, err)
		}
		s.clock.pass(sink.ReportInterval)
	}
	s.stop()
	var err error
	for err == nil {
		_, err = next()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the stream ends with %v, want an orderly end", err)
	}
}

// listen reads DemandPath. What it returns waits for the next report, and returns the object's requests in flight.
func (s *testSink) listen() (next func() (float64, error)) {
	s.t.Helper()
	mux := http.NewServeMux()
	s.Register(mux)
	server := httptest.NewServer(mux)
	s.t.Cleanup(server.Close)
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, server.URL+sink.DemandPath, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = response.Body.Close() })
	decoder := json.NewDecoder(response.Body)
	return func() (float64, error) {
		var report metrics.Report
		if err := decoder.Decode(&report); err != nil {
			return 0, err
		}
		value, err := metrics.Merge(shop, []metrics.Report{report}, nil)
		return value.Amount(), err
	}
}

// TestOneReportForAllClients connects a second client while the report of the first is recent: it gets the same report,
// and a second later both get the next one.
func TestOneReportForAllClients(t *testing.T) {
	s := newTestSink(t, nil)
	s.assignTo(fleet)
	proxy := s.connect()
	proxy.flush("1000", "3")
	want := func(amount float64, clients ...func() (float64, error)) {
		t.Helper()
		for i, next := range clients {
			if got, err := next(); err != nil || got != amount {
				t.Errorf("client %d gets %v, %v; want %v", i, got, err, amount)
			}
		}
	}
	first := s.listen()
	want(3, first)
	proxy.flush("2000", "4")
	second := s.listen()
	want(3, second)
	s.clock.pass(sink.ReportInterval)
	want(4, first, second)
}
