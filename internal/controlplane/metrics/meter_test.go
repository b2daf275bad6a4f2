package metrics_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

func TestProxyLifecycle(t *testing.T) {
	t.Parallel()
	tests := map[string]func(s *fixture){
		"a serving proxy without metrics makes the demand unknown": func(s *fixture) {
			s.want(-1, "proxy apps/1 sends no metrics; proxy apps/2 sends no metrics")
			s.run(20, "1")
			s.want(-1, "apps/shop: demand is unknown: proxy apps/2 sends no metrics")
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
	const wantErr = "apps/shop: demand is unknown: " +
		"proxy apps/1 has sent fewer than two flushes; proxy apps/2 has"
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

// external is a stream of an external proxy that reports requests for clusters, as deltas.
type external struct {
	*metrics.Stream

	s *fixture
}

// openExternal opens the stream of the external proxy at an address.
func (s *fixture) openExternal(address string) external {
	return external{s.meter.Open(s.now, metrics.ExternalFleet, address), s}
}

// report reports requests for clusters, a second after the last report.
func (e external) report(requests float64, clusters ...string) {
	e.s.t.Helper()
	e.s.now = e.s.now.Add(time.Second)
	batch := metrics.Batch{Time: e.s.now.UnixMilli(), HasZero: true, Samples: []metrics.Sample{
		{Cluster: "x", Measure: metrics.RequestsActive, Value: 1},
	}}
	for _, cluster := range clusters {
		batch.Samples = append(batch.Samples,
			metrics.Sample{Cluster: cluster, Measure: metrics.RequestsTotal, Value: requests},
			metrics.Sample{Cluster: cluster, Measure: metrics.RequestsActive, Value: requests})
	}
	if _, err := e.Apply(e.s.now, batch); err != nil {
		e.s.t.Fatal(err)
	}
}

// rate returns the demand for an object.
func (s *fixture) rate(object model.Key) (float64, error) {
	value, err := metrics.Merge(object, []metrics.Report{s.meter.Report(s.now, "a")}, nil)
	return value.Amount(), err
}

// key is an external key.
const key = "outbound|80||shop.apps.svc.cluster.local"

func TestExternalProxies(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "1")
	s.meter.SetObject(s.now, shop, shopObject(key))
	s.run(5, "1")
	s.want(-1, "fleet (external) apps has no proxy that serves")
	stream := s.openExternal("192.0.2.1")
	for range 20 {
		stream.report(7, key, "apps/shop/stable") // The second one is not its own cluster.
	}
	s.want(7, "")
	silent := s.openExternal("192.0.2.2")
	s.want(7, "") // An external proxy without metrics is not missing,
	silent.report(0, "x")
	s.want(7, "") // nor is one with clusters that no object names.
	silent.report(0, key)
	for range 30 {
		stream.report(7, key)
	}
	s.want(-1, "proxy (external) apps/192.0.2.2 sends no metrics")
	silent.Close()
	s.want(7, "")
	stream.Close()
	s.want(-1, "fleet (external) apps has no proxy that serves")
}

// TestOneExternalKeyInANamespace has two objects of a namespace with the same key.
func TestOneExternalKeyInANamespace(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "1")
	second, younger := model.Key{Namespace: "apps", Name: "a"}, shopObject(key)
	younger.Created = epoch.Add(time.Second)
	s.meter.SetObject(s.now, second, younger)
	s.meter.SetObject(s.now, shop, shopObject(key))
	for _, owner := range []model.Key{shop, second} {
		if got := s.meter.ExternalKeys()[key]; !slices.Equal(got, []model.Key{owner}) {
			t.Errorf("the owners of the key are %s, want %s", got, owner)
		}
		const want = "belongs to apps/shop"
		if _, err := s.rate(second); owner == shop && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("the second object with the key: %v, want %q", err, want)
		}
		s.meter.RemoveObject(owner)
	}
	if got := s.meter.ExternalNamespaces(netip.MustParseAddr("192.0.2.1")); len(got) > 0 {
		t.Errorf("without objects, namespaces %s accept external proxies", got)
	}
}

// TestExternalKeysOfTwoNamespaces has a namespace with the key and the proxies of another one, and a namespace with the
// key and proxies of its own.
func TestExternalKeysOfTwoNamespaces(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "1")
	squatter, other := model.Key{Namespace: "a", Name: "shop"}, model.Key{Namespace: "other", Name: "shop"}
	elsewhere := shopObject(key)
	elsewhere.Spec.ExternalSources = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	s.meter.SetObject(s.now, squatter, shopObject(key))
	s.meter.SetObject(s.now, shop, shopObject(key))
	s.meter.SetObject(s.now, other, elsewhere)
	first, second := s.openExternal("192.0.2.1"), s.openExternal("198.51.100.1")
	for range 20 {
		first.report(7, key)
		second.s.now = second.s.now.Add(-time.Second) // at the same time
		second.report(3, key)
	}
	for object, want := range map[model.Key]float64{shop: 7, squatter: 7, other: 3} {
		if got, err := s.rate(object); got != want || err != nil {
			t.Errorf("%s: got %v, %v; want %v", object, got, err, want)
		}
	}
	for range 60 { // The second proxy is silent.
		first.report(7, key)
	}
	if got, err := s.rate(shop); got != 7 || err != nil {
		t.Errorf("while a proxy of another namespace is silent: got %v, %v", got, err)
	}
	if _, err := s.rate(other); !errors.Is(err, metrics.ErrUnknown) {
		t.Errorf("while its proxy is silent: %v", err)
	}
}

// TestExternalSourcesChange removes the address of a proxy while it reports.
func TestExternalSourcesChange(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "1")
	s.meter.SetObject(s.now, shop, shopObject(key))
	stream := s.openExternal("192.0.2.1")
	for range 20 {
		stream.report(7, key)
	}
	changed := shopObject(key)
	changed.Spec.ExternalSources = []netip.Prefix{netip.MustParsePrefix("192.0.2.2/32")}
	s.meter.SetObject(s.now, shop, changed)
	for range 20 {
		stream.report(1000, key)
	}
	if got := s.meter.Report(s.now, "a").Objects[shop.String()]; got.RequestRate > 7 || got.Concurrency > 0 {
		t.Errorf("a removed address counts with %v requests a second and %v in flight", got.RequestRate, got.Concurrency)
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
