package feature

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/service/metrics/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/demandclient"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// clock is the clock of metric sinks. Only flushes advance it. It is an hour ahead, because deadlines of connections
// are real time.
type clock struct {
	began  time.Time
	passed atomic.Int64
	onRead atomic.Pointer[func()] // called by now; nil for nothing
}

// newClock returns a clock that is stopped.
func newClock() *clock { return &clock{began: time.Now().Add(time.Hour)} }

// now returns the time.
func (c *clock) now() time.Time {
	if hook := c.onRead.Load(); hook != nil {
		(*hook)()
	}
	return c.began.Add(time.Duration(c.passed.Load()))
}

// stop makes a later read of the clock, and only this one, wait for the end of the test: the one after skipped others.
// reached is closed when it waits. release ends it.
func (c *clock) stop(t *testing.T, skipped int64) (reached <-chan struct{}, release func()) {
	t.Helper()
	var reads atomic.Int64
	waits, ends := make(chan struct{}), make(chan struct{})
	hook := func() {
		if reads.Add(1) == skipped+1 {
			close(waits)
			<-ends
		}
	}
	c.onRead.Store(&hook)
	release = sync.OnceFunc(func() { close(ends) })
	t.Cleanup(release)
	return waits, release
}

// startSink creates the replica's metric sink.
func (r *replica) startSink(c *fakeCluster, name string, registry *prometheus.Registry) {
	c.t.Helper()
	var err error
	r.sink, err = sink.New(sink.Options{
		Replica: name, Now: c.clock.now, MemberTimeout: c.membershipTimeout, Registerer: registry,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(c.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	r.sinkAddress, r.sinkListener = listener.Addr().String(), listener
}

// serveSink serves the metric sink until ctx ends.
func (r *replica) serveSink(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := r.sink.Serve(ctx, r.sinkListener); err != nil {
		t.Errorf("serve metrics: %v", err)
	}
}

// reporter is a proxy that sends metrics to a replica.
type reporter struct {
	to      *replica
	stream  metricsv3.MetricsService_StreamMetricsClient
	message *metricsv3.StreamMetricsMessage
}

// flush has all proxies send metrics a second after the last ones, one after the other.
func (c *fakeCluster) flush() {
	c.t.Helper()
	c.clock.passed.Add(int64(time.Second))
	for _, each := range c.reporters {
		now := c.clock.now().UnixMilli()
		for _, family := range each.message.GetEnvoyMetrics() {
			family.GetMetric()[0].TimestampMs = &now
		}
		_, arrived := each.to.sink.Report()
		if err := each.stream.Send(each.message); err != nil {
			c.t.Fatal(err)
		}
		await.Receive(c.t, "the report of a proxy", arrived)
	}
}

// startReporter starts a proxy that sends, at each flush, a number of active requests to the clusters of an object. end
// stops it.
func (c *fakeCluster) startReporter(r *replica, from, object, active string) (end func()) {
	c.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	connection, err := grpc.NewClient("passthrough:///"+r.sinkAddress,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		c.t.Fatal(err)
	}
	message := new(metricsv3.StreamMetricsMessage)
	if err := protojson.Unmarshal([]byte(strings.NewReplacer("OBJECT", object, "ACTIVE", active).Replace(`{"envoyMetrics": [
		{"name": "cluster.kedify_metrics_service.upstream_rq_total", "metric": [{"counter": {"value": 0}}]},
		{"name": "cluster.apps/OBJECT/shop-canary.upstream_rq_total", "metric": [{"counter": {"value": 1}}]},
		{"name": "cluster.apps/OBJECT/shop-canary.upstream_rq_active", "metric": [{"gauge": {"value": ACTIVE}}]},
		{"name": "cluster.other/other/web.upstream_rq_active", "metric": [{"gauge": {"value": 1000}}]}]}`)), message); err != nil {
		c.t.Fatal(err)
	}
	stream, err := metricsv3.NewMetricsServiceClient(connection).StreamMetrics(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	reports := &reporter{to: r, stream: stream, message: message}
	c.reporters = append(c.reporters, reports)
	end = sync.OnceFunc(func() {
		c.reporters = slices.DeleteFunc(c.reporters, func(each *reporter) bool { return each == reports })
		_ = connection.Close()
	})
	c.t.Cleanup(end)
	return end
}

// TestDemandOfAllReplicas has two proxies send metrics to two replicas, and then both to the same one.
func TestDemandOfAllReplicas(t *testing.T) {
	cluster := newCluster(t)
	cluster.storeService("shop-stable", "10.0.0.1")
	cluster.storeService("shop-canary", "10.0.0.9")
	object := shopAt(20)
	object.Spec.ScalingMetric = &httpv1alpha1.ScalingMetric{
		Concurrency: &httpv1alpha1.ConcurrencyMetric{TargetValue: 7},
	}
	cluster.store(object)
	cluster.storeTenant("other", 2) // Proxies of namespace apps do not report it.
	cluster.addProxy("apps", firstProxy, true)
	cluster.addProxy("apps", secondProxy, true)
	a, b := cluster.startReplica("interceptor-a", always), cluster.startReplica("interceptor-b", never)
	reader := demandclient.New(nil, slog.New(slog.DiscardHandler))
	reader.SetReplicas([]endpoints.Pod{
		{Name: "interceptor-a", Address: a.adminAddress}, {Name: "interceptor-b", Address: b.adminAddress},
	})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { reader.Run(ctx) })
	defer running.Wait()
	defer stop()
	key := model.Key{Namespace: object.Namespace, Name: object.Name}
	want := func(amount float64, message string) {
		t.Helper()
		var value metrics.Value
		var err error
		await.Described(t, fmt.Sprintf("%v requests in flight, or the error %q", amount, message), func() bool {
			cluster.flush()
			value, err = reader.Demand(key)
			if message != "" {
				return errors.Is(err, metrics.ErrUnknown) && strings.Contains(err.Error(), message)
			}
			return err == nil && value.Metric == metrics.Concurrency && value.Target == 7 && value.Concurrency == amount
		}, func() string { return fmt.Sprintf("%+v, %v", value, err) })
	}
	want(0,
		"proxy apps/kedify-proxy-"+firstProxy+" sends no metrics; proxy apps/kedify-proxy-"+secondProxy+" sends no metrics")
	cluster.startReporter(a, firstProxy, object.Name, "3")
	want(0, "apps/shop: demand is unknown: proxy apps/kedify-proxy-"+secondProxy+" sends no metrics")
	end := cluster.startReporter(b, secondProxy, object.Name, "4")
	want(7, "")
	end()
	want(0, "proxy apps/kedify-proxy-"+secondProxy+" sends no metrics")
	end = cluster.startReporter(a, secondProxy, object.Name, "5")
	want(8, "")
	b.stop() // No proxy sends metrics to it.
	want(8, "")
	end()
	cluster.removeProxy("apps", secondProxy)
	other := shopAt(20)
	other.Spec.ScalingMetric = &httpv1alpha1.ScalingMetric{
		Concurrency: object.Spec.ScalingMetric.Concurrency, RequestRate: &httpv1alpha1.RequestRateMetric{},
	}
	cluster.store(other)
	want(0, "spec.scalingMetric has both concurrency and requestRate; remove one")
}
