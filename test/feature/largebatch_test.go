package feature

import (
	"fmt"
	"testing"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/service/metrics/v3"
	clientmodel "github.com/prometheus/client_model/go"

	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// largeBatch returns the metrics of a number of clusters.
func largeBatch(clusters int, timestamp int64) *metricsv3.StreamMetricsMessage {
	message := new(metricsv3.StreamMetricsMessage)
	for i := range clusters {
		name, value := fmt.Sprintf("cluster.apps/many-%d/web.upstream_rq_total", i), float64(i)
		message.EnvoyMetrics = append(message.EnvoyMetrics, &clientmodel.MetricFamily{
			Name:   &name,
			Metric: []*clientmodel.Metric{{Counter: &clientmodel.Counter{Value: &value}, TimestampMs: &timestamp}},
		})
	}
	return message
}

// TestLargeBatchDelaysNoWeight requires that weights are published, acknowledged and reported while the interceptor
// handles the metrics of 10,000 clusters, although each weight also changes an object of the metric sink.
func TestLargeBatchDelaysNoWeight(t *testing.T) {
	cluster, _ := shopAndOther(t, 20)
	r := cluster.start()
	proxy := cluster.proxy(r, kit.XDSDelta, firstProxy)
	cluster.waitForReport(shopAt(20), "1/1 effective")
	cluster.startReporter(r, firstProxy, "shop", "1")
	cluster.flush()

	handled, release := cluster.clock.stop(t, 1) // The first read is for the deadline of the message.
	if err := cluster.reporters[0].stream.Send(largeBatch(10_000, cluster.clock.began.UnixMilli()+5000)); err != nil {
		t.Fatal(err)
	}
	await.Receive(t, "the batch being handled", handled)
	for _, weight := range []uint32{50, 80} {
		cluster.store(shopAt(weight))
		proxy.WaitFor(hasCanaryWeight(weight))
		cluster.waitForReport(shopAt(weight), "1/1 effective")
	}
	cluster.addProxy("apps", secondProxy, true)
	cluster.waitForReport(shopAt(80), "2/1")
	late := kit.NewScaledObject("apps", "late", "other", 3, "late.test")
	late.UID = "u3"
	cluster.store(late)
	proxy.WaitFor(hasWeights("late.test", map[string]uint32{"apps/late/other": 100}))

	release() // The sink has the changes by the time that it returns its next report.
	await.True(t, "the metric sink has the object", func() bool {
		report, _ := r.sink.Report()
		_, has := report.Objects["apps/late"]
		return has
	})
	if report, _ := r.sink.Report(); len(report.Fleets["apps"].Serving) != 2 {
		t.Errorf("the metric sink has the proxies %q, want 2", report.Fleets["apps"].Serving)
	}
}
