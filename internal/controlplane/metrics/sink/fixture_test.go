package sink_test

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/service/metrics/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

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
		MaxHistograms: sink.DefaultMaxHistograms,
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
