package metrics_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

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
