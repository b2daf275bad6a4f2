package router_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
)

// header returns a step that sets a header route, or removes it if value is empty.
func header(name, value string) v1alpha1.CanaryStep {
	step := v1alpha1.CanaryStep{SetHeaderRoute: &v1alpha1.SetHeaderRoute{Name: name}}
	if value != "" {
		step.SetHeaderRoute.Match = []v1alpha1.HeaderRoutingMatch{{
			HeaderName:  "role",
			HeaderValue: &v1alpha1.StringMatch{Exact: value},
		}}
	}
	return step
}

// mirror returns a step that sets a mirror route, or removes it if path is empty.
func mirror(name, path string) v1alpha1.CanaryStep {
	step := v1alpha1.CanaryStep{SetMirrorRoute: &v1alpha1.SetMirrorRoute{Name: name}}
	if path != "" {
		step.SetMirrorRoute.Match = []v1alpha1.RouteMatch{{Path: &v1alpha1.StringMatch{Prefix: path}}}
	}
	return step
}

// inTheMiddle returns a Rollout in its second revision, at the step with that index, with the managed routes a, b and
// c.
func inTheMiddle(index int32, steps ...v1alpha1.CanaryStep) *v1alpha1.Rollout {
	rollout := &v1alpha1.Rollout{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "uid-of-web", Annotations: map[string]string{"rollout.argoproj.io/revision": "2"},
	}}
	rollout.Spec.Strategy.Canary = &v1alpha1.CanaryStrategy{Steps: steps, TrafficRouting: &v1alpha1.RolloutTrafficRouting{
		ManagedRoutes: []v1alpha1.MangedRoutes{{Name: "a"}, {Name: "b"}, {Name: "c"}},
	}}
	rollout.Status.StableRS, rollout.Status.CurrentPodHash = "old", "new"
	if index > 0 {
		rollout.Status.CurrentStepIndex = &index
	}
	return rollout
}

func TestManagedRoutesDependOnTheRolloutOnly(t *testing.T) {
	t.Parallel()
	weight := v1alpha1.CanaryStep{SetWeight: new(int32(20))}
	set := func(name, value string) managedroute.Route {
		return managedroute.Route{Name: name, Matches: []managedroute.Match{{Headers: []managedroute.HeaderMatch{
			{Name: "role", StringMatch: managedroute.StringMatch{Type: managedroute.Exact, Value: value}},
		}}}}
	}
	copies := func(name, path string) managedroute.Route {
		return managedroute.Route{Name: name, MirrorPercent: 100, Matches: []managedroute.Match{
			{Path: managedroute.StringMatch{Type: managedroute.Prefix, Value: path}},
		}}
	}
	changed := func(change func(*v1alpha1.Rollout), index int32, steps ...v1alpha1.CanaryStep) *v1alpha1.Rollout {
		rollout := inTheMiddle(index, steps...)
		change(rollout)
		return rollout
	}
	tests := map[string]struct {
		rollout *v1alpha1.Rollout
		want    []managedroute.Route
	}{
		"no step": {inTheMiddle(0), nil},
		"the current step, which is the first": {
			inTheMiddle(0, header("a", "qa"), weight),
			[]managedroute.Route{set("a", "qa")},
		},
		"an earlier step": {
			inTheMiddle(2, header("a", "qa"), weight, weight),
			[]managedroute.Route{set("a", "qa")},
		},
		"a later step": {inTheMiddle(1, weight, weight, header("a", "qa")), nil},
		"rolled back within the window, without any step": {changed(func(r *v1alpha1.Rollout) {
			r.Spec.RollbackWindow = &v1alpha1.RollbackWindowSpec{Revisions: 3}
		}, 2, header("a", "qa"), weight), nil},
		"in the steps of one that could be rolled back": {changed(func(r *v1alpha1.Rollout) {
			r.Spec.RollbackWindow = &v1alpha1.RollbackWindowSpec{Revisions: 3}
		}, 1, header("a", "qa"), weight), []managedroute.Route{set("a", "qa")}},
		"behind the last step": {
			inTheMiddle(2, header("a", "qa"), weight),
			[]managedroute.Route{set("a", "qa")},
		},
		"the last step of a name wins": {
			inTheMiddle(1, header("a", "qa"), header("a", "dev")),
			[]managedroute.Route{set("a", "dev")},
		},
		"one without a match removes it": {inTheMiddle(1, header("a", "qa"), header("a", "")), nil},
		"one of the other sort replaces it": {
			inTheMiddle(1, header("a", "qa"), mirror("a", "/")),
			[]managedroute.Route{copies("a", "/")},
		},
		"one of the other sort removes it": {inTheMiddle(1, header("a", "qa"), mirror("a", "")), nil},
		"the order is that of managedRoutes": {
			inTheMiddle(2, mirror("c", "/"), header("a", "qa"), header("b", "qa")),
			[]managedroute.Route{set("a", "qa"), set("b", "qa"), copies("c", "/")},
		},
		"names beyond managedRoutes come last": {
			inTheMiddle(2, header("z", "1"), header("y", "1"), header("b", "qa")),
			[]managedroute.Route{set("b", "qa"), set("z", "1"), set("y", "1")},
		},
		"aborted": {changed(func(r *v1alpha1.Rollout) { r.Status.Abort = true }, 0,
			header("a", "qa")), nil},
		"promoted in full": {changed(func(r *v1alpha1.Rollout) { r.Status.PromoteFull = true }, 1,
			header("a", "qa"), weight), nil},
		"promoted": {changed(func(r *v1alpha1.Rollout) { r.Status.StableRS = "new" }, 2,
			header("a", "qa"), weight), nil},
		"never stable": {changed(func(r *v1alpha1.Rollout) { r.Status.StableRS = "" }, 0,
			header("a", "qa")), nil},
		"the first revision": {changed(func(r *v1alpha1.Rollout) { r.Annotations["rollout.argoproj.io/revision"] = "1" }, 0,
			header("a", "qa")), nil},
		"no revision": {changed(func(r *v1alpha1.Rollout) { r.Annotations = nil }, 0,
			header("a", "qa")), nil},
		"no canary":                              {&v1alpha1.Rollout{}, nil},
		"no traffic routing":                     {changed(func(r *v1alpha1.Rollout) { r.Spec.Strategy.Canary.TrafficRouting = nil }, 0, header("a", "qa")), nil},
		"an index beyond all steps, as by a bug": {inTheMiddle(9, header("a", "qa")), []managedroute.Route{set("a", "qa")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, router.ManagedRoutes(test.rollout), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("managed routes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestManagedRouteConditions: of several fields of a StringMatch, exact wins over prefix and prefix over regex; the
// headers of a map get a fixed order.
func TestManagedRouteConditions(t *testing.T) {
	t.Parallel()
	match := func(exact, prefix, regex string) *v1alpha1.StringMatch {
		return &v1alpha1.StringMatch{Exact: exact, Prefix: prefix, Regex: regex}
	}
	condition := func(kind managedroute.MatchType, value string) managedroute.StringMatch {
		return managedroute.StringMatch{Type: kind, Value: value}
	}
	steps := []v1alpha1.CanaryStep{
		{SetHeaderRoute: &v1alpha1.SetHeaderRoute{Name: "a", Match: []v1alpha1.HeaderRoutingMatch{
			{HeaderName: "role", HeaderValue: match("qa", "q", "q.")},
			{HeaderName: "X-Team", HeaderValue: match("", "shop-", "s.*")},
			{HeaderName: "empty"},
		}}},
		{SetMirrorRoute: &v1alpha1.SetMirrorRoute{Name: "b", Percentage: new(int32(30)), Match: []v1alpha1.RouteMatch{
			{
				Method: match("GET", "", ""), Path: match("", "", "/v[12]/.*"),
				Headers: map[string]v1alpha1.StringMatch{"y": *match("1", "", ""), "x": *match("", "2", "")},
			}, {},
		}}},
		{SetMirrorRoute: &v1alpha1.SetMirrorRoute{Name: "c", Percentage: new(int32(0)), Match: []v1alpha1.RouteMatch{{}}}},
	}
	want := []managedroute.Route{
		{Name: "a", Matches: []managedroute.Match{{Headers: []managedroute.HeaderMatch{
			{Name: "role", StringMatch: condition(managedroute.Exact, "qa")},
			{Name: "X-Team", StringMatch: condition(managedroute.Prefix, "shop-")},
			{Name: "empty"},
		}}}},
		{Name: "b", MirrorPercent: 30, Matches: []managedroute.Match{{
			Method: condition(managedroute.Exact, "GET"), Path: condition(managedroute.Regex, "/v[12]/.*"),
			Headers: []managedroute.HeaderMatch{
				{Name: "x", StringMatch: condition(managedroute.Prefix, "2")},
				{Name: "y", StringMatch: condition(managedroute.Exact, "1")},
			},
		}, {}}},
		{Name: "c", MirrorPercent: 100, Matches: []managedroute.Match{{}}}, // zero travels as a missing number
	}
	if diff := cmp.Diff(want, router.ManagedRoutes(inTheMiddle(2, steps...))); diff != "" {
		t.Errorf("managed routes (-want +got):\n%s", diff)
	}
}

func TestRemovalLastsUntilTheReconcileEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rollout, other, removals := inTheMiddle(0), inTheMiddle(0), router.NewRemovalTracker()
		other.UID = "uid-of-another"
		expect := func(when string, want bool) {
			t.Helper()
			if got := removals.IsRemoved(rollout); got != want {
				t.Errorf("%s: IsRemoved = %v", when, got)
			}
		}
		expect("at first", false)
		removals.Record(rollout)
		removals.Record(other)
		expect("after RemoveManagedRoutes", true)
		removals.Clear(other)
		expect("after VerifyWeight of another Rollout", true)
		removals.Clear(rollout)
		expect("after VerifyWeight", false)
		removals.Record(rollout)
		<-time.After(21 * time.Second)
		expect("in a reconcile that ended without VerifyWeight", false)
	})
}
