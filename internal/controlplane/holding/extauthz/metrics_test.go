package extauthz_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/page"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit/samples"
)

// TestCountersStartAtZero: each outcome has a series before the first request. Otherwise Prometheus sees no increase when
// the first request has it, and an alert would miss the first failure.
func TestCountersStartAtZero(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	if _, err := extauthz.New(extauthz.Options{Registerer: registry}); err != nil {
		t.Fatal(err)
	}
	outcomes := samples.ByLabel(t, registry, "kedify_hold_requests_total", "outcome")
	want := []string{
		"canceled", "deadline", "failover", "limit", "passed", "paused", "placeholder", "probe", "served", "unknown", "waiting-page",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(outcomes))); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	for outcome, count := range outcomes {
		if count != 0 {
			t.Errorf("outcome %s: %v requests, want none", outcome, count)
		}
	}
}

// TestLongestWaiting: the metric is the time since an application with queued requests was served. Another application
// that is served does not change it, and neither do requests that reach their deadline while others wait.
func TestLongestWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		server, err := extauthz.New(extauthz.Options{
			Limits:     holding.Limits{Object: 10, Namespace: 10, Proxy: 10, Total: 10},
			Registerer: registry, Notify: func(model.Key, holding.Reason) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := &fixture{Server: server, t: t, stream: &stream{number: 1, fleet: "apps"}}
		broken := workload()
		broken.Clusters = []string{"apps/broken/broken"}
		key := model.Key{Namespace: "apps", Name: "broken"}
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: workload(), key: broken})
		s.Opened(proxy, s.stream)
		expect := func(want time.Duration) {
			t.Helper()
			synctest.Wait()
			if got := samples.Value(t, registry, "kedify_hold_longest_waiting_seconds"); got != want.Seconds() {
				t.Errorf("%v seconds, want %v", got, want)
			}
		}
		expect(0)
		for range 10 { // Each request waits for a minute.
			s.callFrom(t.Context(), proxy, "apps/broken/broken")
			s.stream.serves.Store(false)
			s.call(t.Context())
			time.Sleep(40 * time.Second)
			s.stream.serves.Store(true)
			s.EndpointsAcked(proxy)
		}
		expect(400 * time.Second)
		s.SetWorkloads(map[model.Key]*holding.Workload{key: nil})
		expect(0)

		// A released page view counts as served, while a request at another proxy still waits.
		withPage := workload()
		withPage.Page = new(page.Default())
		s.SetWorkloads(map[model.Key]*holding.Workload{shop: withPage})
		s.Opened(proxy.Next(), &stream{number: 2, fleet: "apps"})
		s.stream.serves.Store(false)
		s.callFrom(t.Context(), proxy.Next(), cluster)
		s.expect(s.view(), result{status: 503, reason: extauthz.ReasonPage})
		time.Sleep(5 * time.Second)
		expect(5 * time.Second)
		s.stream.serves.Store(true)
		s.EndpointsAcked(proxy)
		expect(0)
		time.Sleep(time.Second)
		expect(time.Second)
		s.Close()
	})
}
