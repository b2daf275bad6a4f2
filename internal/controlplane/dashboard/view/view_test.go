package view_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/dashboard/view"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// canary returns an object at 20 %, which two proxies have acknowledged, and its configuration.
func canary() (*httpv1alpha1.HTTPScaledObject, model.Config) {
	object := &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{
			httpv1alpha1.AnnotationWeightedBackends: `[{service: web-stable, weight: 80}, {service: web-canary, weight: 20}]`,
		}},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts:          []string{"shop.example.com"},
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Kind: "Rollout", Name: "web", Service: "web-stable", Port: 80},
		},
		Status: httpv1alpha1.HTTPScaledObjectStatus{
			Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Serving"}},
			DataPlane: &httpv1alpha1.DataPlaneStatus{
				Proxies: httpv1alpha1.ProxyCounts{Ready: 2, Acked: 2}, Effective: true, ReportedBy: "interceptor-1",
			},
		},
	}
	stable, other := model.Key{Namespace: "shop", Name: "web-stable"}, model.Key{Namespace: "shop", Name: "web-canary"}
	route := model.Route{
		Owner: model.Key{Namespace: "shop", Name: "web"}, Fleet: "shop",
		Backends: []model.Backend{
			{Service: stable, Port: 80, Weight: 80, Protocol: model.HTTP1},
			{Service: other, Port: 80, Weight: 20, Protocol: model.HTTP1},
		},
		Managed: []managedroute.Route{
			{Name: "testers", Matches: []managedroute.Match{{Headers: []managedroute.HeaderMatch{
				{Name: "x-team", StringMatch: managedroute.StringMatch{Type: managedroute.Exact, Value: "qa"}},
			}}}},
			{Name: "copies", MirrorPercent: 10, Matches: []managedroute.Match{{}}},
		},
	}
	return object, model.Config{
		Routes: []model.Route{route},
		Services: map[model.ServicePort]model.Endpoints{
			{Service: stable, Port: 80}: {Ready: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:8080")}},
			{Service: other, Port: 80}:  {Ready: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.2:8080")}},
		},
	}
}

// TestState has a change of a served canary, and the state of its row.
func TestState(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*httpv1alpha1.HTTPScaledObject, *model.Config)
		want   view.State
	}{
		"a canary": {func(*httpv1alpha1.HTTPScaledObject, *model.Config) {}, view.Canary},
		"no canary": {func(object *httpv1alpha1.HTTPScaledObject, config *model.Config) {
			object.Annotations = nil
			config.Routes[0].Backends = config.Routes[0].Backends[:1]
		}, view.OK},
		"a proxy without the ACK": {func(object *httpv1alpha1.HTTPScaledObject, _ *model.Config) {
			object.Status.DataPlane.Proxies.Acked = 1
		}, view.Progressing},
		"no report": {func(object *httpv1alpha1.HTTPScaledObject, _ *model.Config) {
			object.Status.DataPlane = nil
		}, view.Progressing},
		"no proxy": {func(object *httpv1alpha1.HTTPScaledObject, _ *model.Config) {
			object.Status.DataPlane.Proxies = httpv1alpha1.ProxyCounts{}
		}, view.Unserved},
		"no endpoint": {func(object *httpv1alpha1.HTTPScaledObject, config *model.Config) {
			object.Annotations, config.Services = nil, nil
			config.Routes[0].Backends = config.Routes[0].Backends[:1]
		}, view.Idle},
		"a conflict": {func(object *httpv1alpha1.HTTPScaledObject, _ *model.Config) {
			object.Status.Conditions = []metav1.Condition{{Type: "Accepted", Status: metav1.ConditionFalse, Reason: "RouteConflict"}}
		}, view.Failed},
		"unrouted": {func(object *httpv1alpha1.HTTPScaledObject, config *model.Config) {
			object.Annotations = map[string]string{httpv1alpha1.AnnotationRouting: httpv1alpha1.RoutingNone}
			object.Status.DataPlane, config.Routes = nil, nil
		}, view.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object, config := canary()
			test.change(object, &config)
			if got := view.Row(view.NewSource(object, "shop", config), view.Demand{}).State; got != test.want {
				t.Errorf("state %q, want %q", got, test.want)
			}
		})
	}
}

// TestDetails has a canary with requests on both sides, reported by two interceptors.
func TestDetails(t *testing.T) {
	t.Parallel()
	object, config := canary()
	times := metrics.Times{Count: 10, Sum: 100}
	for i, bound := range metrics.TimeBounds() {
		if bound >= 10 {
			times.Cumulative[i] = 10
		}
	}
	report := func(replica string, reporting []string, stable, other float64) metrics.Report {
		return metrics.Report{
			Replica: replica,
			Fleets:  map[model.Fleet]metrics.FleetReport{"shop": {Serving: []string{"p1", "p2"}, Reporting: reporting}},
			Objects: map[string]metrics.ObjectReport{"shop/web": {
				Fleet: "shop", Metric: metrics.RequestRate, Target: 10, RequestRate: stable / 10,
				Backends: map[string]metrics.Totals{
					"web-stable": {Requests: stable, Times: times}, "web-canary": {Requests: other, Errors: 1, Times: times},
				},
			}},
		}
	}
	both := []metrics.Report{report("a", []string{"p1"}, 30, 10), report("b", []string{"p2"}, 50, 10)}
	demand, totals := view.DemandOf(model.Key{Namespace: "shop", Name: "web"}, both, nil)
	detail := view.Details(view.NewSource(object, "shop", config), view.Facts{
		Demand: demand, Totals: totals, Workload: view.Workload{Desired: map[string]int32{"web-stable": 80, "web-canary": 20}},
	})
	if demand.RequestRate != 8 || !demand.IsActive || demand.Unknown != "" {
		t.Errorf("demand %+v", demand)
	}
	if len(detail.Backends) != 2 {
		t.Fatalf("%d backends", len(detail.Backends))
	}
	desired := int32(20)
	want := view.Backend{
		Weight: view.Weight{Service: "web-canary", Written: 20, Active: 20}, Role: view.RoleCanary, Port: 80,
		Protocol: "HTTP/1.1", Endpoints: []string{"10.0.0.2:8080"}, Ready: 1, Desired: &desired,
		Observed: &view.Observed{Requests: 20, Errors: 2, Percent: 20, P50: 7.5, P95: 9.75, P99: 9.95},
	}
	if diff := cmp.Diff(want, detail.Backends[1]); diff != "" {
		t.Errorf("the canary (-want +got):\n%s", diff)
	}
	wantRoutes := []view.ManagedRoute{
		{Name: "testers", Matches: []string{`header x-team exact "qa"`}},
		{Name: "copies", MirrorPercent: 10, Matches: []string{"every request"}},
	}
	if diff := cmp.Diff(wantRoutes, detail.Routes); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

// TestDemandOfAnAbsentInterceptor has the reports of one of two interceptors: the values are a lower bound.
func TestDemandOfAnAbsentInterceptor(t *testing.T) {
	t.Parallel()
	report := metrics.Report{
		Replica: "a",
		Fleets:  map[model.Fleet]metrics.FleetReport{"shop": {Serving: []string{"p1", "p2"}, Reporting: []string{"p1"}}},
		Objects: map[string]metrics.ObjectReport{"shop/web": {Fleet: "shop", Metric: metrics.Concurrency, Target: 10, Concurrency: 3}},
	}
	demand, _ := view.DemandOf(model.Key{Namespace: "shop", Name: "web"}, []metrics.Report{report}, []string{"b"})
	if demand.Concurrency != 3 || demand.Unknown == "" {
		t.Errorf("demand %+v", demand)
	}
}

// TestHistory has the changes of a canary from 20 % to its end.
func TestHistory(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0).UTC()
	var history view.History
	add := func(seconds int, change func(*httpv1alpha1.HTTPScaledObject, *model.Config)) {
		object, config := canary()
		change(object, &config)
		now := start.Add(time.Duration(seconds) * time.Second)
		if point, isSplit := view.PointOf(view.NewSource(object, "shop", config), now); isSplit {
			history = history.Add(point)
		} else {
			history = history.End(view.NewSource(object, "shop", config), now)
		}
	}
	add(0, func(object *httpv1alpha1.HTTPScaledObject, _ *model.Config) {
		object.Status.DataPlane.Proxies.Acked, object.Status.DataPlane.Effective = 1, false
	})
	add(1, func(*httpv1alpha1.HTTPScaledObject, *model.Config) {})
	add(2, func(*httpv1alpha1.HTTPScaledObject, *model.Config) {}) // no change
	add(3, func(object *httpv1alpha1.HTTPScaledObject, config *model.Config) {
		object.Annotations = nil
		config.Routes[0].Backends = config.Routes[0].Backends[:1]
	})
	all := view.Proxies{Ready: 2, Acked: 2}
	want := []view.Point{
		{Time: start, Written: 20, Active: 20, Proxies: view.Proxies{Ready: 2, Acked: 1}},
		{Time: start.Add(time.Second), Written: 20, Active: 20, Proxies: all, IsEffective: true},
		{Time: start.Add(3 * time.Second), Proxies: all, IsEffective: true},
	}
	if diff := cmp.Diff(view.History{Points: want, Ended: start.Add(3 * time.Second)}, history); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	for i := range 2 * view.MaxPoints {
		history = history.Add(view.Point{Written: float64(i + 1)})
	}
	if last := history.Last().Written; len(history.Points) != view.MaxPoints || last != 2*view.MaxPoints || !history.Ended.IsZero() {
		t.Errorf("%d points, the last one has %v, ended %v", len(history.Points), last, history.Ended)
	}
}

// TestRowHasFewHosts has an object with the maximum number of hosts.
func TestRowHasFewHosts(t *testing.T) {
	t.Parallel()
	object, config := canary()
	object.Spec.Hosts = slices.Repeat([]string{"shop.example.com"}, 256)
	source := view.NewSource(object, "shop", config)
	if row, detail := view.Row(source, view.Demand{}), view.Details(source, view.Facts{}); len(row.Hosts) > 10 || len(detail.Hosts) != 256 {
		t.Errorf("%d hosts in the row, %d in the detail", len(row.Hosts), len(detail.Hosts))
	}
}
