package metrics_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// shopObject returns an object that scales by its request rate.
func shopObject(externalKey string) metrics.Object {
	return metrics.Object{
		Fleet: fleet, Services: []string{"stable", "canary"}, Spec: metrics.Spec{
			Metric: metrics.RequestRate, Target: 5, Window: 10 * time.Second, Granularity: time.Second, ExternalKey: externalKey,
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

func TestProxyLifecycle(t *testing.T) {
	t.Parallel()
	tests := map[string]func(s *fixture){
		"a serving proxy without metrics makes the demand unknown": func(s *fixture) {
			s.want(-1, "proxy apps/1 sends no metrics; proxy apps/2 sends no metrics")
			s.run(20, "1")
			s.want(-1, "HTTPScaledObject apps/shop: demand is unknown: proxy apps/2 sends no metrics")
			s.run(20, "1", "2")
			s.want(20, "")
		},
		"a silent proxy makes the demand unknown after three flushes": func(s *fixture) {
			s.run(20, "1", "2")
			s.run(3, "1")
			s.want(20, "")
			s.run(1, "1")
			s.want(-1, "proxy apps/2 sends no metrics")
		},
		"one flush is not enough for a rate": func(s *fixture) {
			s.run(20, "1")
			s.run(1, "1", "2")
			s.want(-1, "proxy apps/2 has sent fewer than two flushes")
			s.run(1, "1", "2")
			s.want(20, "")
		},
		"a reconnected stream leaves a gap, which does not count as zero": func(s *fixture) {
			s.run(20, "1", "2")
			s.end("2")
			s.want(-1, "proxy apps/2 sends no metrics")
			s.run(4, "1")
			s.run(3, "1", "2")
			s.want(20, "")
		},
		"the requests of a removed proxy remain in the window": func(s *fixture) {
			s.run(20, "1", "2")
			s.serving("1", "-2")
			s.end("2")
			s.want(20, "")
			s.run(5, "1")
			s.want(10+10*0.5, "") // for half of the window
			s.serving("1")
			s.run(20, "1")
			s.want(10, "")
		},
		"a new proxy counts from its start": func(s *fixture) {
			s.serving("1")
			s.run(20, "1")
			s.serving("1", "2")
			s.run(5, "1", "2")
			s.want(10+10*0.5, "")
		},
		"the demand of a fleet without a serving proxy is unknown": func(s *fixture) {
			s.serving("-1")
			s.run(20, "1")
			s.want(-1, "fleet apps has no proxy that serves")
		},
		"a new stream of a proxy replaces the old one": func(s *fixture) {
			s.run(20, "1", "2")
			old := s.streams["2"]
			delete(s.streams, "2")
			s.run(5, "1", "2")
			if old.IsCurrent() {
				s.t.Error("the old stream still counts")
			}
			s.want(20, "")
		},
		"a new window resets the rate": func(s *fixture) {
			s.run(20, "1", "2")
			other := shopObject("")
			other.Spec.Window = 5 * time.Second
			s.meter.SetObject(s.now, shop, other)
			s.want(-1, "has sent fewer than two flushes")
			s.run(5, "1", "2")
			s.want(20, "")
		},
		"an unknown object": func(s *fixture) {
			s.run(20, "1", "2")
			s.meter.RemoveObject(shop)
			s.want(-1, "no interceptor has reported it")
		},
		"an object with a validation error": func(s *fixture) {
			s.run(20, "1", "2")
			object := shopObject("")
			object.SpecError = "the window is crooked"
			s.meter.SetObject(s.now, shop, object)
			s.want(-1, "the window is crooked")
		},
		"an object of another fleet": func(s *fixture) {
			s.run(20, "1", "2")
			object := shopObject("")
			object.Fleet = "keda"
			s.meter.SetObject(s.now, shop, object)
			s.run(5, "1", "2")
			s.want(-1, "fleet keda has no proxy that serves")
		},
	}
	for name, play := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(newFixture(t, "1", "2"))
		})
	}
}

func TestConcurrencyNeedsOneFlush(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "1", "2")
	object := shopObject("")
	object.Spec.Metric = metrics.Concurrency
	s.meter.SetObject(s.now, shop, object)
	s.run(1, "1", "2")
	value, err := metrics.Merge(shop, []metrics.Report{s.meter.Report(s.now, "a")}, nil)
	if err != nil || value.Amount() != 4 {
		t.Errorf("%+v, %v; want 4 requests in flight", value, err)
	}
	const wantErr = "HTTPScaledObject apps/shop: demand is unknown: proxy apps/1 has sent fewer than two flushes; proxy apps/2 has"
	if got := value.RateError; !errors.Is(got, metrics.ErrUnknown) || !strings.HasPrefix(got.Error(), wantErr) {
		t.Errorf("the rate after one flush: %v, want an error with %q", got, wantErr)
	}
	s.run(1, "1", "2")
	value, err = metrics.Merge(shop, []metrics.Report{s.meter.Report(s.now, "a")}, nil)
	if err != nil || value.RateError != nil || value.RequestRate != 20 {
		t.Errorf("after two flushes: %+v, %v; want 20 requests/s", value, err)
	}
}

// TestGaugeOfARemovedCluster removes a cluster in the middle of a request.
func TestGaugeOfARemovedCluster(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "1")
	s.run(5, "1")
	for range 2 { // The flush after might be another part of it.
		s.now = s.now.Add(time.Second)
		if _, err := s.streams["1"].Apply(s.now, metrics.Batch{Time: s.now.UnixMilli(), HasZero: true}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.meter.Report(s.now, "a").Objects[shop.String()].Concurrency; got != 0 {
		t.Errorf("%v requests in flight to a cluster that is gone", got)
	}
}

func TestMergeOfReplicas(t *testing.T) {
	t.Parallel()
	object := func(rate float64) map[string]metrics.ObjectReport {
		return map[string]metrics.ObjectReport{shop.String(): {
			Fleet: fleet, Metric: metrics.RequestRate, Target: 5, RequestRate: rate, Concurrency: rate / 10,
		}}
	}
	report := func(rate float64, heard ...string) metrics.Report {
		return metrics.Report{
			Fleets: map[model.Fleet]metrics.FleetReport{
				fleet: {Serving: []string{"1", "2"}, Reporting: heard},
			}, Objects: object(rate),
		}
	}
	withoutObject := metrics.Report{Fleets: map[model.Fleet]metrics.FleetReport{fleet: {Reporting: []string{"2"}}}}
	young, moved, crooked := report(10, "1", "2"), report(10, "1", "2"), report(10, "1", "2")
	change := func(report metrics.Report, change func(*metrics.ObjectReport)) {
		object := report.Objects[shop.String()]
		change(&object)
		report.Objects[shop.String()] = object
	}
	change(young, func(object *metrics.ObjectReport) { object.Warming = []string{"2"} })
	change(moved, func(object *metrics.ObjectReport) { object.Fleet = "other" })
	change(crooked, func(object *metrics.ObjectReport) { object.Problem = "the window is crooked" })
	tests := map[string]struct {
		reports []metrics.Report
		absent  []string
		want    float64 // a lower bound where there is an error
		wantErr string  // in the error
	}{
		"each has one":        {reports: []metrics.Report{report(10, "1"), report(30, "2")}, want: 40},
		"one has all":         {reports: []metrics.Report{report(10, "1", "2"), report(0)}, want: 10},
		"no proxy is missing": {reports: []metrics.Report{report(10, "1", "2")}, absent: []string{"b"}, want: 10},
		"one proxy reports to none": {
			reports: []metrics.Report{report(10, "1")}, want: 10, wantErr: "proxy apps/2 sends no metrics",
		},
		"one reports to a replica without the object": {
			reports: []metrics.Report{report(10, "1"), withoutObject}, want: 10, wantErr: "proxy apps/2 sends no metrics",
		},
		"one may report to an absent replica": {
			reports: []metrics.Report{report(10, "1")}, absent: []string{"b"}, want: 10,
			wantErr: "proxy apps/2 sends no metrics; no report from interceptor b",
		},
		"one has sent one flush": {
			reports: []metrics.Report{young}, want: 10, wantErr: "proxy apps/2 has sent fewer than two flushes",
		},
		"one reports to two replicas": {
			reports: []metrics.Report{report(10, "1"), report(30, "1", "2")},
			wantErr: "proxy apps/1 sends metrics to two replicas (transient)",
		},
		"they report different fleets": {
			reports: []metrics.Report{report(10, "1", "2"), moved}, wantErr: "replicas report different fleets: apps and other",
		},
		"the object has a validation error": {reports: []metrics.Report{crooked}, wantErr: "the window is crooked"},
		"no replica reports": {
			absent: []string{"a", "b"}, wantErr: "no interceptor has reported it; no report from interceptor a, b",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			value, err := metrics.Merge(shop, test.reports, test.absent)
			if test.wantErr != "" && (!errors.Is(err, metrics.ErrUnknown) || !strings.HasSuffix(err.Error(), test.wantErr)) ||
				test.wantErr == "" && err != nil {
				t.Errorf("error %v, want one with %q", err, test.wantErr)
			}
			if value.RequestRate != test.want || value.Concurrency != test.want/10 {
				t.Errorf("%+v, %v; want %v", value, err, test.want)
			}
		})
	}
}

// TestMovedStreamCountsOnce moves a proxy's stream from one replica to another in the middle of the window.
func TestMovedStreamCountsOnce(t *testing.T) {
	t.Parallel()
	a := newFixture(t, "1", "2")
	b := newFixture(t, "1", "2")
	want := func(rate float64, what string) {
		t.Helper()
		reports := []metrics.Report{a.meter.Report(a.now, "a"), b.meter.Report(a.now, "b")}
		value, err := metrics.Merge(shop, reports, nil)
		if err != nil || math.Abs(value.RequestRate-rate) > 0.01 {
			t.Errorf("%s: %v requests/s, %v; want %v", what, value.RequestRate, err, rate)
		}
	}
	a.run(20, "1", "2")
	b.run(20)
	a.end("2")
	a.run(5, "1")
	b.run(5, "2")
	want(20, "after the move")
	a.serving("1", "-2")
	b.serving("1", "-2")
	want(20, "the proxy leaves")
	b.end("2")
	want(19, "it has left") // The second between the move and the first flush is not covered.
	a.run(20, "1")
	b.run(20)
	want(10, "the window is over")
}

func TestExternalProxies(t *testing.T) {
	t.Parallel()
	const key = "outbound|80||shop.apps.svc.cluster.local"
	s := newFixture(t, "1")
	other := model.Key{Namespace: "a-greedy-one", Name: "shop"}
	younger := shopObject(key)
	younger.Created = epoch.Add(time.Second)
	s.meter.SetObject(s.now, other, younger)
	s.meter.SetObject(s.now, shop, shopObject(key))
	s.run(5, "1")
	s.want(-1, "fleet (external) has no proxy that serves")
	stream := s.meter.Open(s.now, metrics.ExternalFleet, "192.0.2.1")
	for range 20 {
		s.now = s.now.Add(time.Second)
		if _, err := stream.Apply(s.now, metrics.Batch{Time: s.now.UnixMilli(), HasZero: true, Samples: []metrics.Sample{
			{Cluster: key, Measure: metrics.RequestsTotal, Value: 7},
			{Cluster: "apps/shop/stable", Measure: metrics.RequestsTotal, Value: 1000}, // not its own cluster
			{Cluster: "x", Measure: metrics.RequestsActive, Value: 1},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	s.want(7, "")
	silent := s.meter.Open(s.now, metrics.ExternalFleet, "192.0.2.2")
	s.want(7, "") // An external proxy without metrics is not missing,
	for _, cluster := range []string{"x", key} {
		s.now = s.now.Add(time.Second)
		if _, err := silent.Apply(
			s.now, metrics.Batch{Time: s.now.UnixMilli(), HasZero: true, Samples: []metrics.Sample{{Cluster: cluster}}},
		); err != nil {
			t.Fatal(err)
		}
		if cluster == "x" {
			s.want(7, "") // nor is one with clusters that no object names.
		}
	}
	silent.Close()
	if owner := s.meter.ExternalKeys()[key]; owner != shop {
		t.Errorf("the owner of the key is %s", owner)
	}
	_, err := metrics.Merge(other, []metrics.Report{s.meter.Report(s.now, "a")}, nil)
	if err == nil || !strings.Contains(err.Error(), "belongs to HTTPScaledObject apps/shop") {
		t.Errorf("the second object with the key: %v", err)
	}
	stream.Close()
	s.want(-1, "fleet (external) has no proxy that serves")
	s.meter.RemoveObject(shop)
	if owner := s.meter.ExternalKeys()[key]; owner != other {
		t.Errorf("after the owner was removed, the owner of the key is %s", owner)
	}
	s.meter.RemoveObject(other)
	if s.meter.HasExternalKeys() {
		t.Error("there is a key without an owner")
	}
}

func TestBackendsAreCounted(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "1")
	s.run(11, "1")
	read := func() map[string]metrics.Totals {
		totals := map[string]metrics.Totals{}
		s.meter.VisitBackends(
			func(key model.Key, service string, each *metrics.Totals) { totals[key.String()+"/"+service] = *each },
		)
		return totals
	}
	// The first flush sets the base of the counters.
	if got := read(); len(got) != 2 || got["apps/shop/stable"] != (metrics.Totals{Requests: 100}) ||
		got["apps/shop/canary"] != (metrics.Totals{Errors: 10}) {
		t.Errorf("%+v", got)
	}
	object := shopObject("")
	object.Services = []string{"stable"}
	s.meter.SetObject(s.now, shop, object)
	if got := read(); len(got) != 1 || got["apps/shop/stable"] != (metrics.Totals{Requests: 100}) {
		t.Errorf("with the canary gone: %+v", got)
	}
	s.meter.RemoveObject(shop)
	if got := read(); len(got) != 0 {
		t.Errorf("with the object gone: %+v", got)
	}
}

// TestRecentTotals starts a canary, lets it fail and ends it, and checks the requests to each side over all replicas in
// the last minute.
func TestRecentTotals(t *testing.T) {
	t.Parallel()
	a, b := newFixture(t, "1", "2"), newFixture(t, "1", "2")
	read := func() map[string]metrics.Totals {
		t.Helper()
		value, err := metrics.Merge(shop, []metrics.Report{a.meter.Report(a.now, "a"), b.meter.Report(b.now, "b")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return value.Backends
	}
	services := func(names ...string) {
		object := shopObject("")
		object.Services = names
		a.meter.SetObject(a.now, shop, object)
		b.meter.SetObject(b.now, shop, object)
	}
	services("stable")
	run := func(seconds int) {
		a.run(seconds, "1")
		b.run(seconds, "2")
	}
	run(30)
	if got := read(); len(got) > 0 {
		t.Errorf("without a canary: %+v", got)
	}
	services("stable", "canary")
	run(5)
	want := map[string]metrics.Totals{"stable": {Requests: 100}, "canary": {Errors: 10}}
	if diff := cmp.Diff(want, read()); diff != "" {
		t.Errorf("in five seconds (-want +got):\n%s", diff)
	}
	run(295)
	got := read()
	if least, most := 60*20.0, 70*20.0; got["stable"].Requests < least || got["stable"].Requests > most {
		t.Errorf("%v requests in the last minute, want %v to %v", got["stable"].Requests, least, most)
	}
	services("stable")
	if got := read(); len(got) > 0 {
		t.Errorf("after the canary: %+v", got)
	}
}

// TestQuantiles checks the quantiles of response times.
func TestQuantiles(t *testing.T) {
	t.Parallel()
	var times metrics.Times
	if got := times.Quantile(0.95); got != 0 {
		t.Errorf("without responses: %v", got)
	}
	times.Count = 200
	for _, bound := range metrics.TimeBounds() {
		upTo := uint64(190)
		if bound < 100 {
			upTo = 100
		}
		if bound < 10 {
			upTo = 0
		}
		times.Set(bound, upTo)
	}
	for part, want := range map[float64]float64{0: 5, 0.25: 7.5, 0.5: 10, 0.725: 75, 0.95: 100, 0.99: 3600000} {
		if got := times.Quantile(part); math.Abs(got-want) > 0.001 {
			t.Errorf("%v of the responses in %v ms, want %v", part, got, want)
		}
	}
}

func TestStreamWithoutRequestCounters(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "1")
	stream := s.meter.Open(s.now, fleet, "1")
	var err error
	for i := range 3 {
		s.now = s.now.Add(time.Second)
		if _, err = stream.Apply(s.now, metrics.Batch{Time: s.now.UnixMilli(), HasZero: true}); err != nil && i < 2 {
			t.Fatalf("flush %d: %v", i, err)
		}
	}
	if !errors.Is(err, metrics.ErrNoRequestCounters) {
		t.Errorf("three flushes without requests: %v", err)
	}
}

// TestCounterReset removes a cluster and adds it again on a stream of totals.
func TestCounterReset(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "1")
	stream := s.meter.Open(s.now, fleet, "1")
	for _, total := range []float64{1000, 1010, 1020, 1030, 10, 20} {
		s.now = s.now.Add(time.Second)
		if _, err := stream.Apply(s.now, metrics.Batch{Time: s.now.UnixMilli(), Samples: []metrics.Sample{
			{Cluster: "apps/shop/stable", Measure: metrics.RequestsTotal, Value: total},
			{Cluster: "apps/shop/stable", Measure: metrics.RequestsActive, Value: 1},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	s.want(10, "")
}

// TestTimeBeforeAnObjectIsNotCounted adds an object to a long-running stream of totals.
func TestTimeBeforeAnObjectIsNotCounted(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "1")
	s.meter.RemoveObject(shop)
	stream := s.meter.Open(s.now, fleet, "1")
	total := 100_000.0
	flush := func() {
		s.now, total = s.now.Add(time.Second), total+10
		if _, err := stream.Apply(s.now, metrics.Batch{Time: s.now.UnixMilli(), Samples: []metrics.Sample{
			{Cluster: "apps/shop/stable", Measure: metrics.RequestsTotal, Value: total},
			{Cluster: "apps/shop/stable", Measure: metrics.Responses5xx, Value: total / 10},
			{Cluster: "apps/shop/stable", Measure: metrics.RequestsActive, Value: 1},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		flush()
	}
	s.meter.SetObject(s.now.Add(time.Second/2), shop, shopObject(""))
	flush()
	s.want(-1, "has sent fewer than two flushes") // What the flush has is of longer than is known.
	for range 5 {
		flush()
		s.want(10, "")
	}
	s.meter.VisitBackends(func(_ model.Key, service string, totals *metrics.Totals) {
		if service == "stable" && *totals != (metrics.Totals{Requests: 50, Errors: 5}) {
			t.Errorf("%+v were counted, want 50 requests and 5 errors", *totals)
		}
	})
}
