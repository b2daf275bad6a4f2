package metrics_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// FuzzApply applies any batches at any times. Whatever a proxy sends, a report can be encoded, and has no value
// below zero.
func FuzzApply(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789abcdef0123456789abcdef"))
	f.Add([]byte("\x00\x01\x02\x03\xff\xff\xff\xff\xff\xff\xef\x7f\x00\x01\x02\x03\xff\xff\xff\xff\xff\xff\xef\x7f"))
	f.Fuzz(func(t *testing.T, script []byte) {
		now, m := epoch, metrics.NewMeter(epoch)
		m.SetProxies(now, map[model.Fleet][]model.Proxy{fleet: {{Name: "1", IsServing: true}}})
		m.SetObject(now, shop, shopObject(""))
		stream := m.Open(now, fleet, "1")
		for ; len(script) >= 12; script = script[12:] {
			now = now.Add(time.Duration(int8(script[0])) * 37 * time.Millisecond)
			value := math.Float64frombits(binary.LittleEndian.Uint64(script[4:]))
			if script[1]%16 == 0 {
				stream.Close()
				stream = m.Open(now, fleet, "1")
			}
			times := &metrics.Times{Count: uint64(script[2]), Sum: value}
			times.Set(value, uint64(script[3]))
			_, _ = stream.Apply(now, metrics.Batch{Time: int64(int8(script[1])), HasZero: script[2]%2 == 0, Samples: []metrics.Sample{
				{Cluster: "apps/shop/stable", Measure: metrics.Measure(script[3] % 3), Value: value},
				{Cluster: "apps/shop/" + string(script[3:5]), Measure: metrics.RequestsTotal, Value: value},
				{Cluster: "apps/shop/stable", Measure: metrics.ResponseTimes, Times: times},
				{Cluster: "apps/shop/canary", Measure: metrics.RequestsActive, Value: 1},
			}})
			report := m.Report(now, "a")
			if _, err := json.Marshal(report); err != nil {
				t.Fatal(err)
			}
			if report := report.Objects[shop.String()]; report.RequestRate < 0 || report.Concurrency < 0 {
				t.Fatalf("%+v", report)
			}
			m.VisitBackends(func(_ model.Key, service string, totals *metrics.Totals) {
				if totals == nil {
					return
				}
				if math.IsInf(totals.Requests+totals.Errors+totals.Times.Sum, 0) || totals.Requests < 0 || totals.Times.Sum < 0 {
					t.Fatalf("%s: %+v", service, *totals)
				}
			})
		}
	})
}
