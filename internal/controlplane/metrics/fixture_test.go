package metrics_test

import (
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// fixture runs proxies of one Meter, each with 10 requests per second.
type fixture struct {
	t       *testing.T
	now     time.Time
	meter   *metrics.Meter
	streams map[string]*metrics.Stream
}

// newFixture returns a fixture with one object with a window of 10 s, and serving proxies.
func newFixture(t *testing.T, serving ...string) *fixture {
	t.Helper()
	s := &fixture{t: t, now: epoch, meter: metrics.NewMeter(epoch), streams: map[string]*metrics.Stream{}}
	s.serving(serving...)
	s.meter.SetObject(s.now, shop, shopObject(""))
	return s
}

// shopObject returns an object that scales by its request rate. Its external proxies are in 192.0.2.0/24.
func shopObject(externalKey string) metrics.Object {
	return metrics.Object{
		Fleet: fleet, Services: []string{"stable", "canary"}, Spec: metrics.Spec{
			Metric: metrics.RequestRate, Target: 5, Window: 10 * time.Second, Granularity: time.Second, ExternalKey: externalKey,
			ExternalSources: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		},
	}
}

// serving sets the proxies. A proxy with the prefix "-" no longer serves.
func (s *fixture) serving(names ...string) {
	var proxies []model.Proxy
	for _, name := range names {
		bare, isLeaving := strings.CutPrefix(name, "-")
		proxies = append(proxies, model.Proxy{Name: bare, IsServing: !isLeaving})
	}
	s.meter.SetProxies(s.now, map[model.Fleet][]model.Proxy{fleet: proxies})
}

// flush reports requests of a proxy, as deltas.
func (s *fixture) flush(name string, requests float64) {
	s.t.Helper()
	if s.streams[name] == nil {
		s.streams[name] = s.meter.Open(s.now, fleet, name)
	}
	_, err := s.streams[name].Apply(s.now, metrics.Batch{Time: s.now.UnixMilli(), HasZero: true, Samples: []metrics.Sample{
		{Cluster: "apps/shop/stable", Measure: metrics.RequestsTotal, Value: requests},
		{Cluster: "apps/shop/stable", Measure: metrics.RequestsActive, Value: 2},
		{Cluster: "apps/shop/canary", Measure: metrics.Responses5xx, Value: 1},
		// Copies of a mirror route do not count.
		{Cluster: "apps/shop/canary/mirror", Measure: metrics.RequestsTotal, Value: 1000},
		{Cluster: "apps/shop/canary/mirror", Measure: metrics.RequestsActive, Value: 50},
	}})
	if err != nil {
		s.t.Fatal(err)
	}
}

// run lets seconds pass, in each of which each proxy reports 10 requests.
func (s *fixture) run(seconds int, names ...string) {
	s.t.Helper()
	for range seconds {
		s.now = s.now.Add(time.Second)
		for _, name := range names {
			s.flush(name, 10)
		}
	}
}

// end ends the stream of a proxy.
func (s *fixture) end(name string) {
	s.streams[name].Close()
	delete(s.streams, name)
}

// want checks the request rate, or for -1 the reason why it is unknown.
func (s *fixture) want(rate float64, wantErr string) {
	s.t.Helper()
	value, err := metrics.Merge(shop, []metrics.Report{s.meter.Report(s.now, "a")}, nil)
	if rate >= 0 {
		if err != nil || math.Abs(value.RequestRate-rate) > 0.01 {
			s.t.Errorf("after %v: rate %v, %v; want %v", s.now.Sub(epoch), value.RequestRate, err, rate)
		}
		return
	}
	if !errors.Is(err, metrics.ErrUnknown) || !strings.Contains(err.Error(), wantErr) {
		s.t.Errorf("after %v: %+v, %v; want an error with %q", s.now.Sub(epoch), value, err, wantErr)
	}
}
