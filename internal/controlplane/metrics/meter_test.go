package metrics_test

import (
	"errors"
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
	const wantErr = "HTTPScaledObject apps/shop: demand is unknown: " +
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
