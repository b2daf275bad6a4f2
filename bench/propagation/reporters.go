package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/service/metrics/v3"
	prometheusv1 "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/pace"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

const (
	// flushInterval is the interval of a proxy's metrics, as in the bootstrap of kedify-proxy.
	flushInterval = time.Second
	// maxReporters is the number of addresses for reporters.
	maxReporters = 100
	// firstReports limits the time until each reporter has sent metrics.
	firstReports = time.Minute
	// writtenLimit limits the time until every status is written.
	writtenLimit = 15 * time.Minute
)

// reporters are Ready proxies, spread over the fleets, that receive the configuration and ACK it as clients do, and send
// the metrics of a proxy whose every cluster had requests since the previous flush.
type reporters struct {
	group sync.WaitGroup
	// reporting is the number of reporters whose stream was accepted, and metrics that of the sent metrics. A stream that
	// the interceptor refuses ends before its second message.
	reporting, metrics atomic.Int64
	// nominal is the number of metrics per second of all reporters.
	nominal int
}

// reporterAddress returns the address of reporter i.
func reporterAddress(i int) netip.Addr {
	address := netspace.Address().As4()
	address[3] = byte(128 + i) //nolint:gosec,mnd // up to maxReporters, the upper half of the network
	return netip.AddrFrom4(address)
}

// startReporters starts --reporters proxies, and waits until each has sent metrics.
func (s *environment) startReporters(ctx context.Context) (*reporters, error) {
	r := new(reporters)
	for i := range s.reporters {
		fleet, from := fleetName(i%s.Fleets), reporterAddress(i)
		slice := proxySlice(fmt.Sprintf("-reporter-%d", i), true, from)
		slice.Namespace = fleet
		if err := apiserver.Create(ctx, s.client, slicesPath(fleet), slice); err != nil {
			return nil, err
		}
		discovery := &member{versions: map[string]map[string]string{}, from: from}
		r.group.Go(func() { discovery.run(ctx, s.xdsAt) })
		flush := flushOf(s.clustersOf(fleet))
		r.nominal += len(flush.GetEnvoyMetrics())
		r.group.Go(func() {
			for ctx.Err() == nil {
				// The interceptor refuses an address that is no proxy's yet. Envoy connects again, too.
				_ = r.report(ctx, from, s.sinkAt, flush)
				_ = pace.Wait(ctx, flushInterval)
			}
		})
	}
	return r, pace.Until(ctx, firstReports, flushInterval, func() error {
		if accepted := r.reporting.Load(); accepted < int64(s.reporters) {
			return fmt.Errorf("%w: the interceptor receives the metrics of %d of %d proxies", errNotReady, accepted, s.reporters)
		}
		return nil
	})
}

// measureReported measures while the reporters send metrics: first nothing else happens, then other applications change.
func (s *environment) measureReported(ctx context.Context, ours, theirs poller, found *result) (err error) {
	ctx, end := context.WithCancel(ctx)
	reporting, err := s.startReporters(ctx)
	defer func() {
		end()
		if reporting != nil {
			reporting.group.Wait()
		}
	}()
	if err != nil {
		return err
	}
	if err := s.waitUntilWritten(ctx); err != nil {
		return err
	}
	if _, err := s.cell(ctx, ours, theirs, warmUp); err != nil {
		return err
	}
	before, began := reporting.metrics.Load(), time.Now()
	if found.Quiet, err = s.cell(ctx, ours, theirs, s.samples); err != nil {
		return err
	}
	found.NominalMetrics = float64(reporting.nominal)
	found.MetricsPerSecond = float64(reporting.metrics.Load()-before) / time.Since(began).Seconds()
	err = s.amongChanges(ctx, func(ctx context.Context) error {
		found.Busy, err = s.cell(ctx, ours, theirs, s.samples)
		return err
	}, &found.Memory)
	return err
}

// waitUntilWritten waits until the interceptor has written every status, after its start and after the reporters have
// joined. These writes are as many as the objects, and delay the API server's answers.
func (s *environment) waitUntilWritten(ctx context.Context) error {
	last := ""
	for began := time.Now(); time.Since(began) < writtenLimit; {
		page, err := traffic.Get(ctx, s.metricsURL+"?name%5B%5D=kedify_status_writes_total", "", nil)
		if err != nil {
			return err
		}
		now := string(page.Body)
		if now == last {
			return nil
		}
		last = now
		if err := pace.Wait(ctx, idleWindow); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: it still writes statuses after %v", errNotIdle, writtenLimit)
}

// clustersOf returns the names of the clusters of a fleet.
func (s *environment) clustersOf(fleet string) (names []string) {
	for i := range s.Objects {
		if s.namespaceOf(i) != fleet {
			continue
		}
		for _, side := range sides() {
			names = append(names, translate.ClusterName(
				model.Key{Namespace: fleet, Name: nameOf(i)}, model.Key{Namespace: fleet, Name: nameOf(i) + side}))
		}
	}
	return names
}

// report sends metrics from an address, at each interval, until ctx ends or the stream does.
func (r *reporters) report(
	ctx context.Context, from netip.Addr, to netip.AddrPort, flush *metricsv3.StreamMetricsMessage,
) (err error) {
	connection, err := grpc.NewClient(to.String(), grpc.WithTransportCredentials(insecure.NewCredentials()), dialFrom(from))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	stream, err := metricsv3.NewMetricsServiceClient(connection).StreamMetrics(ctx)
	if err != nil {
		return err
	}
	if err := pace.Wait(ctx, rand.N(flushInterval)); err != nil { //nolint:gosec // Proxies flush at different times.
		return err
	}
	ticker := time.NewTicker(flushInterval)
	defer ticker.Stop()
	isAccepted := false
	defer func() {
		if isAccepted {
			r.reporting.Add(-1)
		}
	}()
	for sent := 0; ; sent++ {
		change(flush)
		if err := stream.Send(flush); err != nil {
			_, err = stream.CloseAndRecv() // the status
			return err
		}
		if sent == 1 {
			isAccepted = true
			r.reporting.Add(1)
		}
		if sent > 0 {
			r.metrics.Add(int64(len(flush.GetEnvoyMetrics())))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// dialFrom returns a dialer with a source address.
func dialFrom(from netip.Addr) grpc.DialOption {
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	return grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", to)
	})
}

// flushOf returns the metrics of clusters that the bootstrap of kedify-proxy includes, in the shape of Envoy's: a family
// for each metric, and a histogram with Envoy's buckets.
func flushOf(clusters []string) *metricsv3.StreamMetricsMessage {
	message := new(metricsv3.StreamMetricsMessage)
	add := func(name string, kind prometheusv1.MetricType, metric *prometheusv1.Metric) {
		metric.TimestampMs = proto.Int64(0)
		message.EnvoyMetrics = append(message.EnvoyMetrics,
			&prometheusv1.MetricFamily{Name: &name, Type: kind.Enum(), Metric: []*prometheusv1.Metric{metric}})
	}
	counter := func() *prometheusv1.Metric {
		return &prometheusv1.Metric{Counter: &prometheusv1.Counter{Value: proto.Float64(0)}}
	}
	add("cluster_manager.cluster_added", prometheusv1.MetricType_COUNTER, counter())
	for _, cluster := range clusters {
		add("cluster."+cluster+".upstream_rq_total", prometheusv1.MetricType_COUNTER, counter())
		add("cluster."+cluster+".upstream_rq_5xx", prometheusv1.MetricType_COUNTER, counter())
		add("cluster."+cluster+".upstream_rq_active", prometheusv1.MetricType_GAUGE,
			&prometheusv1.Metric{Gauge: &prometheusv1.Gauge{Value: proto.Float64(0)}})
		histogram := &prometheusv1.Histogram{SampleCount: proto.Uint64(0), SampleSum: proto.Float64(0)}
		for _, bound := range envoyBuckets() {
			histogram.Bucket = append(histogram.Bucket,
				&prometheusv1.Bucket{CumulativeCount: proto.Uint64(0), UpperBound: new(bound)})
		}
		add("cluster."+cluster+".upstream_rq_time", prometheusv1.MetricType_HISTOGRAM, &prometheusv1.Metric{Histogram: histogram})
	}
	return message
}

// envoyBuckets returns the upper bounds of Envoy's histograms, in milliseconds
// (config.metrics.v3.HistogramBucketSettings).
func envoyBuckets() []float64 {
	return []float64{
		0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000,
	}
}

// change sets new values: each cluster had up to 20 requests of up to 10 ms, without errors.
func change(flush *metricsv3.StreamMetricsMessage) {
	const requests, bucket = 20, 3
	now := time.Now().UnixMilli()
	count := uint64(0)
	for i, family := range flush.GetEnvoyMetrics() {
		metric := family.GetMetric()[0]
		*metric.TimestampMs = now
		switch {
		case i%4 == 1: // the total of the next cluster, whose other metrics follow
			count = 1 + rand.N[uint64](requests)
			*metric.Counter.Value = float64(count)
		case metric.GetGauge() != nil:
			*metric.Gauge.Value = float64(count % 4) //nolint:mnd // some concurrency
		case metric.GetHistogram() != nil:
			*metric.Histogram.SampleCount, *metric.Histogram.SampleSum = count, float64(count)
			for n := bucket; n < len(metric.GetHistogram().GetBucket()); n++ {
				*metric.Histogram.Bucket[n].CumulativeCount = count
			}
		}
	}
}
