package sink

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/service/metrics/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
)

// message returns the StreamMetricsMessage of a JSON text.
func message(tb testing.TB, text string) []byte {
	tb.Helper()
	parsed := new(metricsv3.StreamMetricsMessage)
	if err := protojson.Unmarshal([]byte(text), parsed); err != nil {
		tb.Fatal(err)
	}
	wire, err := proto.Marshal(parsed)
	if err != nil {
		tb.Fatal(err)
	}
	return wire
}

// decodeAll decodes one message.
func decodeAll(wire []byte) (metrics.Batch, error) {
	var d decoder
	return d.decode(bufio.NewReaderSize(bytes.NewReader(wire), 16), int64(len(wire)))
}

func TestDecode(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		message string
		want    metrics.Batch
	}{
		"nothing": {`{}`, metrics.Batch{}},
		"a first message": {
			`{"identifier": {"node": {"id": "kedify-proxy", "cluster": "xds_cluster"}}, "envoyMetrics": [
				{"name": "cluster_manager.cluster_added", "type": "COUNTER", "metric": [{"counter": {"value": 2}, "timestampMs": "7"}]},
				{"name": "cluster.apps/shop/shop-canary.upstream_rq_total", "type": "COUNTER", "metric": [{"counter": {"value": 3}, "timestampMs": "7"}]},
				{"name": "cluster.apps/shop/shop-canary.upstream_rq_5xx", "type": "COUNTER", "metric": [{"counter": {"value": 1}, "timestampMs": "7"}]},
				{"name": "cluster.apps/shop/shop-canary.upstream_rq_active", "type": "GAUGE", "metric": [{"gauge": {"value": 5}, "timestampMs": "7"}]},
				{"name": "cluster.apps/shop/shop-canary.membership_total", "type": "GAUGE", "metric": [{"gauge": {"value": 5}, "timestampMs": "7"}]}]}`,
			metrics.Batch{Time: 7, Samples: []metrics.Sample{
				{Cluster: "apps/shop/shop-canary", Measure: metrics.RequestsTotal, Value: 3},
				{Cluster: "apps/shop/shop-canary", Measure: metrics.Responses5xx, Value: 1},
				{Cluster: "apps/shop/shop-canary", Measure: metrics.RequestsActive, Value: 5},
			}},
		},
		"connections with clients": {
			`{"envoyMetrics": [
				{"name": "http.kedify-proxy.downstream_cx_active", "type": "GAUGE", "metric": [{"gauge": {"value": 12}, "timestampMs": "7"}]},
				{"name": "http.kedify-proxy.downstream_cx_total", "type": "COUNTER", "metric": [{"counter": {"value": 90}, "timestampMs": "7"}]},
				{"name": "http.admin.downstream_cx_active", "type": "GAUGE", "metric": [{"gauge": {"value": 1}, "timestampMs": "7"}]}]}`,
			metrics.Batch{Time: 7, Connections: new(12.0)},
		},
		"an unchanged counter indicates deltas": {
			`{"envoyMetrics": [{"name": "cluster_manager.cluster_added", "type": "COUNTER", "metric": [{"counter": {"value": 0}, "timestampMs": "8"}]}]}`,
			metrics.Batch{Time: 8, HasZero: true},
		},
		"so does that of a cluster": {
			`{"envoyMetrics": [{"name": "cluster.xds_cluster.upstream_rq_total", "type": "COUNTER", "metric": [{"counter": {"value": 0}, "timestampMs": "8"}]}]}`,
			metrics.Batch{Time: 8, HasZero: true, Samples: []metrics.Sample{{Cluster: "xds_cluster"}}},
		},
		"but not one to which Envoy adds nothing": {
			`{"envoyMetrics": [{"name": "server.wip_protos", "type": "COUNTER", "metric": [{"counter": {"value": 0}, "timestampMs": "8"}]}]}`,
			metrics.Batch{Time: 8},
		},
		"a gauge at rest does not": {
			`{"envoyMetrics": [{"name": "x", "type": "GAUGE", "metric": [{"gauge": {"value": 0}, "timestampMs": "8"}]}]}`,
			metrics.Batch{Time: 8},
		},
		"a cluster in a label": {
			`{"envoyMetrics": [{"name": "cluster.upstream_rq_total", "type": "COUNTER", "metric": [
				{"label": [{"name": "other", "value": "x"}, {"name": "envoy.cluster_name", "value": "apps/shop/shop"}], "counter": {"value": 4}, "timestampMs": "9"},
				{"counter": {"value": 4}, "timestampMs": "9"}]}]}`,
			metrics.Batch{
				Time: 9, Samples: []metrics.Sample{{Cluster: "apps/shop/shop", Measure: metrics.RequestsTotal, Value: 4}},
			},
		},
		"a foreign cluster with dots": {
			`{"envoyMetrics": [{"name": "cluster.outbound|80||shop.apps.svc.cluster.local.upstream_rq_total", "metric": [{"counter": {"value": 4}, "timestampMs": "9"}]}]}`,
			metrics.Batch{
				Time: 9,
				Samples: []metrics.Sample{
					{Cluster: "outbound|80||shop.apps.svc.cluster.local", Measure: metrics.RequestsTotal, Value: 4},
				},
			},
		},
		"values that are none, and kinds that don't fit": {
			`{"envoyMetrics": [
				{"name": "cluster.a/b/c.upstream_rq_total", "metric": [{"counter": {"value": "NaN"}, "timestampMs": "9"}]},
				{"name": "cluster.a/b/c.upstream_rq_total", "metric": [{"counter": {"value": -1}, "timestampMs": "9"}]},
				{"name": "cluster.a/b/c.upstream_rq_active", "metric": [{"gauge": {"value": "Infinity"}, "timestampMs": "9"}]},
				{"name": "cluster.a/b/c.upstream_rq_active", "metric": [{"counter": {"value": 1}, "timestampMs": "9"}]},
				{"name": "cluster..upstream_rq_total", "metric": [{"counter": {"value": 1}, "timestampMs": "9"}]}]}`,
			metrics.Batch{Time: 9},
		},
		"times of no request": {
			`{"envoyMetrics": [{"name": "cluster.a/b/c.upstream_rq_time", "type": "HISTOGRAM", "metric": [{"timestampMs": "9", "histogram": {
				"sampleCount": "0", "sampleSum": 0, "bucket": [{"cumulativeCount": "0", "upperBound": 5}]}}]}]}`,
			metrics.Batch{Time: 9},
		},
		"times": {
			`{"envoyMetrics": [{"name": "cluster.a/b/c.upstream_rq_time", "type": "HISTOGRAM", "metric": [{"timestampMs": "9", "histogram": {
				"sampleCount": "3", "sampleSum": 12.5, "bucket": [{"cumulativeCount": "2", "upperBound": 5}, {"cumulativeCount": "3", "upperBound": 3600000}, {"cumulativeCount": "1", "upperBound": 4}]}}]},
				{"name": "cluster.a/b/c.upstream_rq_time", "type": "SUMMARY", "metric": [{"timestampMs": "9", "summary": {"sampleCount": "3"}}]}]}`,
			metrics.Batch{Time: 9, Samples: []metrics.Sample{{Cluster: "a/b/c", Measure: metrics.ResponseTimes, Times: &metrics.Times{
				Count: 3, Sum: 12.5, Cumulative: [metrics.TimeBuckets]uint64{2: 2, 18: 3},
			}}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := decodeAll(message(t, test.message))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("batch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	whole := message(
		t, `{"envoyMetrics": [{"name": "cluster.a/b/c.upstream_rq_total", "metric": [{"counter": {"value": 1}}]}]}`,
	)
	tests := map[string]struct {
		wire []byte
		want error
	}{
		"one that ends early":         {whole[:len(whole)-1], errMalformed},
		"a field that is not bytes":   {[]byte{1 << 3, 1}, errMalformed},
		"a metric beyond its message": {[]byte{2<<3 | 2, 100, 0}, errMalformed},
		"a metric of 65 KiB":          {families(1, make([]byte, 65<<10)), errTooLarge},
		"more than is to be kept": {
			families(350_000, family("cluster.a/b/c.upstream_rq_time", 1, "\x22\x04\x3a\x02\x08\x01")), errTooLarge,
		},
		"a tag that never ends": {bytes.Repeat([]byte{0xff}, 20), nil},
		"a broken metric":       {[]byte{2<<3 | 2, 2, 4<<3 | 2, 9}, errMalformed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := decodeAll(test.wire); err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
}

// family returns a family with a metric repeated n times.
func family(name string, count int, metric string) []byte {
	return append(protowire.AppendString([]byte{1<<3 | 2}, name), strings.Repeat(metric, count)...)
}

// families returns a message with n families.
func families(count int, family []byte) []byte {
	return bytes.Repeat(protowire.AppendBytes([]byte{2<<3 | 2}, family), count)
}

// zeroCounter is an io.prometheus.client.Metric: a counter with nothing in it, in the four bytes that it takes.
const zeroCounter = "\x22\x02\x1a\x00"

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		wire []byte
		want int // samples
	}{
		"many metrics of one name": {
			families(1, family("cluster."+strings.Repeat("a", 500)+".upstream_rq_total", 15_000, zeroCounter)), 1,
		},
		"a name of 512 bytes": {
			families(1, family("cluster."+strings.Repeat("a", 512)+".upstream_rq_total", 1, zeroCounter)), 1,
		},
		"a longer name is ignored": {
			families(1, family("cluster."+strings.Repeat("a", 513)+".upstream_rq_total", 1, zeroCounter)), 0,
		},
		"two metrics with the one name": {families(2, family("cluster.a/b/c.upstream_rq_total", 2, zeroCounter)), 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			batch, err := decodeAll(test.wire)
			if err != nil || len(batch.Samples) != test.want {
				t.Errorf("%d samples, %v; want %d", len(batch.Samples), err, test.want)
			}
		})
	}
}

// TestClusterNameIsSharedByItsSamples measures the allocations for 100 statistics of one cluster.
func TestClusterNameIsSharedByItsSamples(t *testing.T) {
	wire := families(100, family("cluster.apps/shop/shop-canary.upstream_rq_total", 1, zeroCounter))
	var d decoder
	allocated := testing.AllocsPerRun(10, func() {
		if _, err := d.decode(bufio.NewReader(bytes.NewReader(wire)), int64(len(wire))); err != nil {
			t.Fatal(err)
		}
	})
	if allocated > 50 {
		t.Errorf("%v allocations", allocated)
	}
}

// TestRepeatedMessagesMakeNoGarbage has a proxy report a thousand clusters without requests, flush after flush.
func TestRepeatedMessagesMakeNoGarbage(t *testing.T) {
	var wire []byte
	for _, statistic := range []string{"upstream_rq_total", "upstream_rq_active", "upstream_rq_time"} {
		metric := map[string]string{
			"upstream_rq_total": zeroCounter, "upstream_rq_active": "\x22\x02\x12\x00", "upstream_rq_time": "\x22\x04\x3a\x02\x08\x00",
		}[statistic]
		for i := range 1000 {
			wire = append(wire, families(1, family(fmt.Sprintf("cluster.apps/shop-%d/shop.%s", i, statistic), 1, metric))...)
		}
	}
	var d decoder
	message, from := bytes.NewReader(wire), bufio.NewReader(nil)
	read := func() {
		message.Reset(wire)
		from.Reset(message)
		batch, err := d.decode(from, int64(len(wire)))
		if err != nil || len(batch.Samples) != 2000 || batch.Samples[1999].Cluster != "apps/shop-999/shop" ||
			d.used != 2000 || d.seen != 3000 {
			t.Fatalf("%d samples, %d of %d kept, %v", len(batch.Samples), d.used, d.seen, err)
		}
	}
	read()
	if allocated := testing.AllocsPerRun(10, read); allocated > 10 {
		t.Errorf("%v allocations", allocated)
	}
	// What a large message took is not kept for small ones.
	small := families(1, family("cluster.a/b/c.upstream_rq_total", 1, zeroCounter))
	for range 2 {
		if _, err := d.decode(bufio.NewReader(bytes.NewReader(small)), int64(len(small))); err != nil {
			t.Fatal(err)
		}
	}
	if cap(d.last) > minCapacity {
		t.Errorf("there is room for %d samples", cap(d.last))
	}
}

// TestErrorIsShort has a message with thousands of errors: only the first one is returned.
func TestErrorIsShort(t *testing.T) {
	t.Parallel()
	for name, metric := range map[string]string{
		"metrics": "\x22\x01\x09", "counters": "\x22\x03\x1a\x01\x09", "labels": "\x22\x03\x0a\x01\x09",
		"buckets": "\x22\x05\x3a\x03\x1a\x01\x09",
	} {
		_, err := decodeAll(families(1, family("cluster.a/b/c.upstream_rq_time", 8_000, metric)))
		if !errors.Is(err, errMalformed) {
			t.Errorf("%s: error %v", name, err)
		} else if length := len(err.Error()); length >= 1000 {
			t.Errorf("%s: an error of %d bytes", name, length)
		}
	}
}

// reference is decode by the generated code.
func reference(wire []byte) (batch metrics.Batch, isValid bool) {
	parsed := new(metricsv3.StreamMetricsMessage)
	if proto.Unmarshal(wire, parsed) != nil {
		return batch, false
	}
	for _, family := range parsed.GetEnvoyMetrics() {
		for _, metric := range family.GetMetric() {
			if batch.Time == 0 {
				batch.Time = metric.GetTimestampMs()
			}
			rest, isCluster := strings.CutPrefix(family.GetName(), "cluster.")
			cluster, isTotal := strings.CutSuffix(rest, ".upstream_rq_total")
			if isOnly := metric.GetGauge() == nil && metric.GetHistogram() == nil; !isCluster || !isTotal || !isOnly ||
				metric.GetCounter() == nil || cluster == "" || !(metric.GetCounter().GetValue() >= 0) {
				continue
			}
			if value := metric.GetCounter().GetValue(); value < 1e300 {
				batch.Samples = append(
					batch.Samples, metrics.Sample{Cluster: cluster, Measure: metrics.RequestsTotal, Value: value},
				)
			}
		}
	}
	return batch, true
}

// FuzzDecode reads anything. What the generated code reads, and writes the way that Envoy does, is read alike.
func FuzzDecode(f *testing.F) {
	f.Add(message(f, `{"identifier": {"node": {"id": "x"}}, "envoyMetrics": [
		{"name": "cluster.a/b/c.upstream_rq_total", "type": "COUNTER", "metric": [{"counter": {"value": 1}, "timestampMs": "5"}]},
		{"name": "cluster.a/b/c.upstream_rq_active", "type": "GAUGE", "metric": [{"gauge": {"value": 0}, "timestampMs": "5"}]}]}`))
	f.Add(message(f, `{"envoyMetrics": [{"name": "cluster.a/b/c.upstream_rq_time", "type": "HISTOGRAM", "metric": [{"timestampMs": "9", "histogram": {
		"sampleCount": "3", "sampleSum": 12.5, "bucket": [{"cumulativeCount": "2", "upperBound": 5}]}}]}]}`))
	f.Add([]byte("\x12@\n\x1ecluster.00000.upstream_rq_time00\"\x1c002\x18000000000000000000000000"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		_, _ = decodeAll(wire)
		parsed := new(metricsv3.StreamMetricsMessage)
		if proto.Unmarshal(wire, parsed) != nil {
			return
		}
		canonical, err := proto.Marshal(parsed)
		if err != nil {
			return
		}
		want, isValid := reference(canonical)
		got, err := decodeAll(canonical)
		if !isValid || err != nil {
			return // Envoy writes no unknown fields of other wire types.
		}
		var totals []metrics.Sample
		for _, sample := range got.Samples {
			if sample.Measure == metrics.RequestsTotal && sample.Value < 1e300 {
				totals = append(totals, sample)
			}
		}
		got.Samples, got.HasZero = totals, false
		if hasLabels(parsed) {
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("batch (-want +got):\n%s", diff)
		}
	})
}

// hasLabels reports whether a metric's cluster may be in a label, which the reference ignores.
func hasLabels(parsed *metricsv3.StreamMetricsMessage) bool {
	for _, family := range parsed.GetEnvoyMetrics() {
		for _, metric := range family.GetMetric() {
			if len(metric.GetLabel()) > 0 {
				return true
			}
		}
	}
	return false
}
