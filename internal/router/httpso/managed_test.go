package httpso_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

const (
	at0    = "- service: web-stable\n  weight: 100\n- service: web-canary\n  weight: 0\n"
	qa     = `{"name":"qa","matches":[{"headers":[{"type":"Exact","value":"qa","name":"role"}]}]}`
	shadow = `{"name":"copy","mirrorPercent":20,"matches":[{"path":{"type":"Prefix","value":"/"}}]}`
)

// inCanary returns a Rollout in its second revision, at the step with that index.
func inCanary(index int32, steps ...v1alpha1.CanaryStep) *v1alpha1.Rollout {
	rollout := routertest.Rollout(httpso.Type, config)
	rollout.Annotations = map[string]string{"rollout.argoproj.io/revision": "2"}
	rollout.Status.StableRS, rollout.Status.CurrentPodHash = "old", "new"
	rollout.Spec.Strategy.Canary.Steps = steps
	rollout.Spec.Strategy.Canary.TrafficRouting.ManagedRoutes = []v1alpha1.MangedRoutes{{Name: "copy"}, {Name: "qa"}}
	if index > 0 {
		rollout.Status.CurrentStepIndex = &index // zero arrives as nil
	}
	return rollout
}

// headerStep and mirrorStep are steps that set the routes qa and copy; setWeight sets weight 20.
func headerStep() v1alpha1.CanaryStep {
	return v1alpha1.CanaryStep{SetHeaderRoute: &v1alpha1.SetHeaderRoute{Name: "qa", Match: []v1alpha1.HeaderRoutingMatch{
		{HeaderName: "role", HeaderValue: &v1alpha1.StringMatch{Exact: "qa"}},
	}}}
}

func mirrorStep() v1alpha1.CanaryStep {
	return v1alpha1.CanaryStep{SetMirrorRoute: &v1alpha1.SetMirrorRoute{
		Name: "copy", Percentage: new(int32(20)),
		Match: []v1alpha1.RouteMatch{
			{Path: &v1alpha1.StringMatch{Prefix: "/"}},
		},
	}}
}

// play is a sequence of the controller's calls.
type play func(*testing.T, *httpso.Router, *v1alpha1.Rollout) error

func weigh(weight int32) play {
	return func(t *testing.T, r *httpso.Router, rollout *v1alpha1.Rollout) error {
		t.Helper()
		return r.SetWeight(t.Context(), rollout, weight, nil)
	}
}

func setHeader(t *testing.T, r *httpso.Router, rollout *v1alpha1.Rollout) error {
	t.Helper()
	return r.SetHeaderRoute(t.Context(), rollout, headerStep().SetHeaderRoute)
}

func setMirror(t *testing.T, r *httpso.Router, rollout *v1alpha1.Rollout) error {
	t.Helper()
	return r.SetMirrorRoute(t.Context(), rollout, mirrorStep().SetMirrorRoute)
}

func remove(t *testing.T, r *httpso.Router, rollout *v1alpha1.Rollout) error {
	t.Helper()
	return r.RemoveManagedRoutes(t.Context(), rollout)
}

func verify(weight int32) play {
	return func(t *testing.T, r *httpso.Router, rollout *v1alpha1.Rollout) error {
		t.Helper()
		if verified, err := r.VerifyWeight(t.Context(), rollout, weight, nil); err != nil || !verified {
			t.Errorf("VerifyWeight: %v, %v; want true", verified, err)
		}
		return nil
	}
}

func TestManagedRoutes(t *testing.T) {
	t.Parallel()
	weight := v1alpha1.CanaryStep{SetWeight: new(int32(20))}
	atHeader, behind := inCanary(0, headerStep(), weight), inCanary(1, headerStep(), weight)
	aborted := inCanary(0, headerStep(), weight)
	aborted.Status.Abort = true
	promoted := inCanary(2, headerStep(), weight)
	promoted.Status.StableRS = "new"
	plain := routertest.Rollout(httpso.Type, config)
	removing := inCanary(1, headerStep(), v1alpha1.CanaryStep{SetHeaderRoute: &v1alpha1.SetHeaderRoute{Name: "qa"}})
	tests := map[string]struct {
		rollout     *v1alpha1.Rollout
		weights     string // the annotation before; empty means none
		managed     string // as well
		plays       []play
		wantWeights string
		wantManaged string
		writes      int
	}{
		"a header step, at weight 0": {
			rollout: atHeader, plays: []play{setHeader, weigh(0), verify(0)}, wantWeights: at0, wantManaged: "[" + qa + "]",
			writes: 1,
		},
		"a header step that the controller skipped": {
			rollout: behind, plays: []play{weigh(20), verify(20)}, wantWeights: at20, wantManaged: "[" + qa + "]", writes: 1,
		},
		"a header step at a weight leaves it": {
			rollout: atHeader, weights: at20, plays: []play{setHeader}, wantWeights: at20, wantManaged: "[" + qa + "]",
			writes: 1,
		},
		"the next weight keeps the route": {
			rollout: behind, weights: at0, managed: "[" + qa + "]", plays: []play{weigh(20), verify(20)}, wantWeights: at20,
			wantManaged: "[" + qa + "]", writes: 1,
		},
		"both sorts, in the order of managedRoutes": {
			rollout: inCanary(1, headerStep(), mirrorStep()), weights: at0, managed: "[" + qa + "]",
			plays:       []play{setMirror, weigh(0), verify(0)},
			wantWeights: at0, wantManaged: "[" + shadow + "," + qa + "]", writes: 1,
		},
		"nothing to do": {
			rollout: behind, weights: at20, managed: "[" + qa + "]", plays: []play{weigh(20), verify(20)},
			wantWeights: at20, wantManaged: "[" + qa + "]",
		},
		"another notation of it": {
			rollout: behind, weights: at20, managed: "[ " + qa + "]", plays: []play{weigh(20)}, wantWeights: at20,
			wantManaged: "[" + qa + "]", writes: 1,
		},
		"a step removes it": {
			rollout: removing, weights: at0, managed: "[" + qa + "]", plays: []play{weigh(0), verify(0)}, writes: 1,
		},
		"a dip: removed, and set again once the canary is back": {
			rollout: behind, weights: at20, managed: "[" + qa + "]",
			plays: []play{remove, weigh(0), verify(0), weigh(20), verify(20)}, wantWeights: at20, wantManaged: "[" + qa + "]",
			writes: 3,
		},
		"removed in this reconcile, and the current step sets it": {
			rollout: atHeader, weights: at0, managed: "[" + qa + "]", plays: []play{remove, setHeader, weigh(0), verify(0)},
			writes: 2,
		},
		"a removal leaves the weights": {
			rollout: behind, weights: at20, managed: "[" + qa + "]", plays: []play{remove},
			wantWeights: at20, writes: 1,
		},
		"aborted": {
			rollout: aborted, weights: at20, managed: "[" + qa + "]",
			plays: []play{remove, setHeader, weigh(0), verify(0)}, writes: 2,
		},
		"promoted": {
			rollout: promoted, weights: at20, managed: "[" + qa + "]",
			plays: []play{remove, weigh(0), verify(0)}, writes: 2,
		},
		"the steps are others by now": {
			rollout: plain, weights: at20, managed: "[" + qa + "]",
			plays: []play{remove, weigh(0), verify(0)}, writes: 1,
		},
		"a leftover without weights is removed": {
			rollout: plain, managed: "[" + qa + "]", plays: []play{weigh(0), verify(0)},
			writes: 1,
		},
		"a Rollout without such steps": {
			rollout: plain, weights: at20, plays: []play{remove, weigh(20), verify(20)},
			wantWeights: at20,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			annotations := func(weights, managed string) map[string]string {
				set := map[string]string{foreign: "stays"}
				if weights != "" {
					set = weighted(weights)
				}
				if managed != "" {
					set[httpv1alpha1.AnnotationManagedRoutes] = managed
				}
				return set
			}
			api := routertest.NewAPIServer(t, routertest.ScaledObject(annotations(test.weights, test.managed)))
			router := newRouter(api)
			for _, call := range test.plays {
				if err := call(t, router, test.rollout); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(annotations(test.wantWeights, test.wantManaged),
				api.Object("shop", "web").Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if writes := len(api.Requests(http.MethodPatch)); writes != test.writes {
				t.Errorf("%d writes, want %d", writes, test.writes)
			}
		})
	}
}

// TestRemovingNothingSendsNoRequest: the controller removes the managed routes of a Rollout at rest in each reconcile,
// and most Rollouts have none.
func TestRemovingNothingSendsNoRequest(t *testing.T) {
	t.Parallel()
	api := routertest.NewAPIServer(t, routertest.ScaledObject(nil))
	if err := newRouter(api).RemoveManagedRoutes(t.Context(), routertest.Rollout(httpso.Type, config)); err != nil {
		t.Fatal(err)
	}
	if reads := len(api.Requests(http.MethodGet)); reads != 0 {
		t.Errorf("%d reads, want none", reads)
	}
}

// TestReportCoversBothAnnotations: a report on the weights alone does not verify a step that sets a header route.
func TestReportCoversBothAnnotations(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hash string
		want bool
	}{
		"about both":                {split.Hash(at0, "["+qa+"]"), true},
		"about the weights":         {split.Hash(at0, ""), false},
		"about other header routes": {split.Hash(at0, "["+shadow+"]"), false},
		"about other weights":       {split.Hash(at20, "["+qa+"]"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				report := ackedReport(at0, 2)
				report.AnnotationHash = test.hash
				object := reported(at0, report)
				object.Annotations[httpv1alpha1.AnnotationManagedRoutes] = "[" + qa + "]"
				api := routertest.NewInMemory(t, object)
				beat(t, api)
				verified, err := watching(t, api).VerifyWeight(deadlined(t), inCanary(0, headerStep()), 0, nil)
				if err != nil || verified != test.want {
					t.Errorf("VerifyWeight: %v, %v; want %v", verified, err, test.want)
				}
			})
		})
	}
}

func TestConditionsThatEnvoyRejectsAreErrors(t *testing.T) {
	t.Parallel()
	header := func(name string, value v1alpha1.StringMatch) v1alpha1.CanaryStep {
		return v1alpha1.CanaryStep{SetHeaderRoute: &v1alpha1.SetHeaderRoute{
			Name:  "qa",
			Match: []v1alpha1.HeaderRoutingMatch{{HeaderName: name, HeaderValue: &value}},
		}}
	}
	mirror := func(percent int32, match v1alpha1.RouteMatch) v1alpha1.CanaryStep {
		return v1alpha1.CanaryStep{SetMirrorRoute: &v1alpha1.SetMirrorRoute{
			Name: "copy", Percentage: &percent,
			Match: []v1alpha1.RouteMatch{match},
		}}
	}
	for name, test := range map[string]struct {
		step v1alpha1.CanaryStep
		want []string
	}{
		"no regular expression": {
			header("role", v1alpha1.StringMatch{Regex: "qa("}),
			[]string{`route "qa"`, `header "role"`, `"qa("`, "missing closing )"},
		},
		"one that is too large": {
			header("role", v1alpha1.StringMatch{Regex: "[a-z]{200}"}),
			[]string{"instructions", "at most 100", "exact or prefix"},
		},
		"no header name": {
			header("my role", v1alpha1.StringMatch{Exact: "qa"}),
			[]string{`header "my role"`, "letters, digits"},
		},
		"a path without a slash": {
			mirror(10, v1alpha1.RouteMatch{Path: &v1alpha1.StringMatch{Exact: "v1"}}),
			[]string{`route "copy"`, "path", "must begin with /"},
		},
		"more than all": {mirror(101, v1alpha1.RouteMatch{}), []string{`route "copy"`, "101", "1 to 100"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewAPIServer(t, routertest.ScaledObject(nil))
			err := newRouter(api).SetWeight(t.Context(), inCanary(0, test.step), 0, nil)
			if err == nil {
				t.Fatal("SetWeight succeeded")
			}
			for _, want := range append(test.want, `rollout "shop/web"`, "spec.strategy.canary.steps") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
			if writes := len(api.Requests(http.MethodPatch)); writes != 0 {
				t.Errorf("%d writes, want none", writes)
			}
		})
	}
}
