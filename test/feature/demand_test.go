package feature

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/service/metrics/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/demand"
	"github.com/kedify/argo-rollouts-plugin/internal/demandreader"
	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/metricsink"
)

// startSink makes the replica's metric sink.
func (r *replica) startSink(t *testing.T, name string, registry *prometheus.Registry) {
	t.Helper()
	var err error
	r.sink, err = metricsink.New(metricsink.Options{
		Replica: name, Now: time.Now, Registerer: registry, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.sinkAddress, r.sinkListener = listener.Addr().String(), listener
}

// serveSink serves it until ctx ends.
func (r *replica) serveSink(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := r.sink.Serve(ctx, r.sinkListener); err != nil {
		t.Errorf("serve metrics: %v", err)
	}
}

// reportsTo has a proxy report, each second, requests in flight to the clusters of an object, until end is called.
func (c *cluster) reportsTo(r *replica, from, object, active string) (end func()) {
	c.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	connection, err := grpc.NewClient("passthrough:///"+r.sinkAddress, grpc.WithTransportCredentials(insecure.NewCredentials()),
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
	ctx, stop := context.WithCancel(c.t.Context())
	var sending sync.WaitGroup
	sending.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for ctx.Err() == nil {
			now := time.Now().UnixMilli()
			for _, family := range message.GetEnvoyMetrics() {
				family.GetMetric()[0].TimestampMs = &now
			}
			_ = stream.Send(message)
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	})
	end = sync.OnceFunc(func() {
		stop()
		sending.Wait()
		_ = connection.Close()
	})
	c.t.Cleanup(end)
	return end
}

// TestTheDemandOfAllReplicas has two proxies report to two replicas, and one of them to the other one then.
func TestTheDemandOfAllReplicas(t *testing.T) {
	world := newCluster(t)
	world.app("shop-stable", "10.0.0.1")
	world.app("shop-canary", "10.0.0.9")
	object := shopAt(20)
	object.Spec.ScalingMetric = &httpv1alpha1.ScalingMetric{Concurrency: &httpv1alpha1.ConcurrencyMetric{TargetValue: 7}}
	world.store(object)
	world.tenant("other", 2) // Nobody of namespace apps has a say in it.
	world.joins("apps", firstProxy, true)
	world.joins("apps", secondProxy, true)
	a, b := world.startReplica("interceptor-a", always), world.startReplica("interceptor-b", never)
	reader := demandreader.New(slog.New(slog.DiscardHandler))
	reader.SetReplicas([]demandreader.Replica{{Name: "interceptor-a", Address: a.adminAddress}, {Name: "interceptor-b", Address: b.adminAddress}})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { reader.Run(ctx) })
	defer running.Wait()
	defer stop()
	key := ir.Key{Namespace: object.Namespace, Name: object.Name}
	await := func(amount float64, says string) {
		t.Helper()
		deadline := time.After(patience)
		for {
			updated := reader.Updated()
			value, err := reader.Demand(key)
			if says == "" && err == nil && value.Metric == demand.Concurrency && value.Target == 7 && value.Concurrency == amount {
				return
			}
			if says != "" && errors.Is(err, demand.ErrUnknown) && strings.Contains(err.Error(), says) {
				return
			}
			select {
			case <-updated:
			case <-deadline:
				t.Fatalf("waited in vain for %v %s: %+v, %v", amount, says, value, err)
			}
		}
	}
	await(0, "proxy apps/kedify-proxy-"+firstProxy+" sends no metrics; proxy apps/kedify-proxy-"+secondProxy+" sends no metrics")
	world.reportsTo(a, firstProxy, object.Name, "3")
	await(0, "apps/shop: demand is unknown: proxy apps/kedify-proxy-"+secondProxy+" sends no metrics")
	end := world.reportsTo(b, secondProxy, object.Name, "4")
	await(7, "")
	end()
	await(0, "proxy apps/kedify-proxy-"+secondProxy+" sends no metrics")
	world.reportsTo(a, secondProxy, object.Name, "5")
	await(8, "")
	b.stop() // Nobody reports to it.
	await(8, "")
	world.leaves("apps", secondProxy)
	other := shopAt(20)
	other.Spec.ScalingMetric = &httpv1alpha1.ScalingMetric{
		Concurrency: object.Spec.ScalingMetric.Concurrency, RequestRate: &httpv1alpha1.RequestRateMetric{},
	}
	world.store(other)
	await(0, "spec.scalingMetric has both concurrency and requestRate; remove one")
}
