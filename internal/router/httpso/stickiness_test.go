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
	stickyConfig = `{"httpScaledObjectName":"web","stickiness":{"cookie":{"name":"side"}}}`
	byCookie     = `{"cookie":{"name":"side","path":"/","secure":false,"httpOnly":true,"sameSite":"Lax"}}`
	byUser       = `{"header":"x-user"}`
)

// TestStickiness: the router writes stickiness with the weights of a canary and removes both together, each in one
// request.
func TestStickiness(t *testing.T) {
	t.Parallel()
	withConfig := func(rollout *v1alpha1.Rollout, config string) *v1alpha1.Rollout {
		plugins := rollout.Spec.Strategy.Canary.TrafficRouting.Plugins
		plugins[httpso.Type] = []byte(config)
		return rollout
	}
	plain := routertest.Rollout(httpso.Type, config)
	sticky := routertest.Rollout(httpso.Type, stickyConfig)
	byHeader := routertest.Rollout(httpso.Type, `{"httpScaledObjectName":"web","stickiness":{"header":"x-user"}}`)
	atHeader := withConfig(inCanary(0, headerStep()), stickyConfig)
	aborted := withConfig(inCanary(0, headerStep()), stickyConfig)
	aborted.Status.Abort = true
	tests := map[string]struct {
		rollout        *v1alpha1.Rollout
		weights, stick string // the annotations before; empty means none
		plays          []play
		wantWeights    string
		wantStick      string
		wantManaged    string
		writes         int
	}{
		"the first weight": {
			rollout: sticky, plays: []play{weigh(20), verify(20)}, wantWeights: at20, wantStick: byCookie, writes: 1,
		},
		"the next weight": {
			rollout: sticky, weights: routertest.At100, stick: byCookie, plays: []play{weigh(20), verify(20)},
			wantWeights: at20, wantStick: byCookie, writes: 1,
		},
		"nothing to do": {
			rollout: sticky, weights: at20, stick: byCookie, plays: []play{weigh(20), verify(20)},
			wantWeights: at20, wantStick: byCookie,
		},
		"by a header": {
			rollout: byHeader, plays: []play{weigh(20), verify(20)}, wantWeights: at20, wantStick: byUser, writes: 1,
		},
		"another one in the middle of a canary": {
			rollout: byHeader, weights: at20, stick: byCookie, plays: []play{weigh(20), verify(20)},
			wantWeights: at20, wantStick: byUser, writes: 1,
		},
		"another notation": {
			rollout: byHeader, weights: at20, stick: "header: x-user", plays: []play{weigh(20)},
			wantWeights: at20, wantStick: byUser, writes: 1,
		},
		"no longer configured": {
			rollout: plain, weights: at20, stick: byCookie, plays: []play{weigh(20), verify(20)},
			wantWeights: at20, writes: 1,
		},
		"the end of the canary": {
			rollout: sticky, weights: at20, stick: byCookie, plays: []play{weigh(0), verify(0)}, writes: 1,
		},
		"no canary": {rollout: sticky, plays: []play{weigh(0), verify(0)}},
		"a leftover": {
			rollout: plain, stick: byCookie, plays: []play{weigh(0), verify(0)}, writes: 1,
		},
		"a header route, at weight 0": {
			rollout: atHeader, plays: []play{setHeader, weigh(0), verify(0)},
			wantWeights: at0, wantStick: byCookie, wantManaged: "[" + qa + "]", writes: 1,
		},
		"a removal of managed routes leaves it": {
			rollout: atHeader, weights: at20, stick: byCookie, plays: []play{remove}, wantWeights: at20, wantStick: byCookie,
		},
		"aborted": {
			rollout: aborted, weights: at20, stick: byCookie, plays: []play{remove, weigh(0), verify(0)}, writes: 1,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			annotations := func(weights, stick, managed string) map[string]string {
				set := map[string]string{foreign: "stays"}
				if weights != "" {
					set = weighted(weights)
				}
				if stick != "" {
					set[httpv1alpha1.AnnotationStickiness] = stick
				}
				if managed != "" {
					set[httpv1alpha1.AnnotationManagedRoutes] = managed
				}
				return set
			}
			api := routertest.NewAPIServer(t, routertest.ScaledObject(annotations(test.weights, test.stick, "")))
			router := newRouter(api)
			for _, call := range test.plays {
				if err := call(t, router, test.rollout); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(annotations(test.wantWeights, test.wantStick, test.wantManaged),
				api.Object("shop", "web").Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if writes := len(api.Requests(http.MethodPatch)); writes != test.writes {
				t.Errorf("%d writes, want %d", writes, test.writes)
			}
		})
	}
}

// TestReportCoversStickiness: a report without the stickiness does not verify a weight, because it is from before the
// stickiness, or of an interceptor that does not know the annotation.
func TestReportCoversStickiness(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config, stick, hash string
		want                bool
	}{
		"about both":               {stickyConfig, byCookie, split.Hash(at20, "", byCookie), true},
		"about the weights":        {stickyConfig, byCookie, split.Hash(at20), false},
		"about another stickiness": {stickyConfig, byCookie, split.Hash(at20, "", byUser), false},
		"without stickiness":       {config, "", split.Hash(at20), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				report := ackedReport(at20, 2)
				report.AnnotationHash = test.hash
				object := reported(at20, report)
				if test.stick != "" {
					object.Annotations[httpv1alpha1.AnnotationStickiness] = test.stick
				}
				api := routertest.NewInMemory(t, object)
				beat(t, api)
				rollout := routertest.Rollout(httpso.Type, test.config)
				verified, err := watching(t, api).VerifyWeight(deadlined(t), rollout, 20, nil)
				if err != nil || verified != test.want {
					t.Errorf("VerifyWeight: %v, %v; want %v", verified, err, test.want)
				}
			})
		})
	}
}

// TestStickinessIsPartOfThePatchConditions: a concurrent write of the stickiness is a conflict, after which the router
// decides again.
func TestStickinessIsPartOfThePatchConditions(t *testing.T) {
	t.Parallel()
	api := routertest.NewAPIServer(t, routertest.ScaledObject(weighted(at20)))
	if err := newRouter(api).SetWeight(t.Context(), routertest.Rollout(httpso.Type, stickyConfig), 20, nil); err != nil {
		t.Fatal(err)
	}
	writes := api.Requests(http.MethodPatch)
	const condition = `{"op":"test","path":"/metadata/annotations/http.kedify.io~1stickiness","value":null}`
	if len(writes) != 1 || !strings.Contains(writes[0].Body, condition) {
		t.Errorf("writes %+v, want one with %s", writes, condition)
	}
}

// TestInvalidStickinessWritesNothing: an error names the field, the problem and the fix.
func TestInvalidStickinessWritesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ stickiness, want string }{
		"null":                    {`null`, "not a mapping with one of the keys"},
		"a text":                  {`"cookie"`, "write {cookie: {}} or {header: <name>} there"},
		"nothing":                 {`{}`, "0 of them are set: write exactly one"},
		"a misspelled key":        {`{"cokie":{}}`, `unknown key "cokie": remove it`},
		"a lifetime that is text": {`{"cookie":{"maxAge":"1d"}}`, `invalid cookie: maxAge "1d"`},
		"a name with a space":     {`{"cookie":{"name":"a b"}}`, `invalid cookie: name "a b"`},
		"the header Cookie":       {`{"header":"cookie"}`, "write {cookie: {name: …}}"},
		"a huge one":              {`{"header":"` + strings.Repeat("a", 5000) + `"}`, "at most 1024 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewAPIServer(t, routertest.ScaledObject(weighted(at20)))
			rollout := routertest.Rollout(httpso.Type, `{"httpScaledObjectName":"web","stickiness":`+test.stickiness+`}`)
			err := newRouter(api).SetWeight(t.Context(), rollout, 50, nil)
			const field = `spec.strategy.canary.trafficRouting.plugins["kedify/http"].stickiness: `
			if err == nil || !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is\n%v, want\n%s…%s", err, field, test.want)
			}
			_, _, err = httpso.ObjectOf(rollout)
			if err == nil || !strings.HasPrefix(err.Error(), `rollout "shop/web": `+field) {
				t.Errorf("ObjectOf: error is\n%v, want\n%s", err, field)
			}
			if writes := len(api.Requests(http.MethodPatch)); writes != 0 {
				t.Errorf("%d writes, want none", writes)
			}
		})
	}
}

// TestInvalidStickinessBlocksOnlyHigherWeights: the controller evaluates analyses after SetWeight, so an error at the
// weight of the current step would keep a failing canary from being aborted. Until it is corrected, the stickiness of
// the object stays.
func TestInvalidStickinessBlocksOnlyHigherWeights(t *testing.T) {
	t.Parallel()
	at := func(weight string) string { return strings.NewReplacer("80", "90", "20", weight).Replace(at20) }
	for name, test := range map[string]struct {
		weight   int32
		change   func(*v1alpha1.Rollout)
		want     map[string]string
		verified bool
	}{
		"the same weight": {
			weight: 20, change: func(*v1alpha1.Rollout) {},
			want: map[string]string{httpv1alpha1.AnnotationWeightedBackends: at20, httpv1alpha1.AnnotationStickiness: byCookie},
		},
		"a lower weight": {
			weight: 10, change: func(*v1alpha1.Rollout) {},
			want: map[string]string{
				httpv1alpha1.AnnotationWeightedBackends: at("10"), httpv1alpha1.AnnotationStickiness: byCookie,
			},
		},
		"an abort in several steps": {
			weight: 10, verified: true,
			change: func(rollout *v1alpha1.Rollout) {
				rollout.Status.Abort, rollout.Spec.Strategy.Canary.DynamicStableScale = true, true
			},
			want: map[string]string{
				httpv1alpha1.AnnotationWeightedBackends: at("10"), httpv1alpha1.AnnotationStickiness: byCookie,
			},
		},
		"a rollback in several steps": {
			weight: 10, verified: true,
			change: func(rollout *v1alpha1.Rollout) { rollout.Status.StableRS, rollout.Status.CurrentPodHash = "old", "old" },
			want: map[string]string{
				httpv1alpha1.AnnotationWeightedBackends: at("10"), httpv1alpha1.AnnotationStickiness: byCookie,
			},
		},
		"an abort": {
			weight: 0, change: func(rollout *v1alpha1.Rollout) { rollout.Status.Abort = true }, verified: true,
			want: map[string]string{httpv1alpha1.AnnotationWeightedBackends: "", httpv1alpha1.AnnotationStickiness: ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			annotations := weighted(at20)
			annotations[httpv1alpha1.AnnotationStickiness] = byCookie
			api := routertest.NewAPIServer(t, routertest.ScaledObject(annotations))
			rollout := routertest.Rollout(httpso.Type,
				`{"httpScaledObjectName":"web","verifyDataPlane":false,"stickiness":{"cookie":{"sameSite":"None"}}}`)
			test.change(rollout)
			router := newRouter(api)
			if err := router.RemoveManagedRoutes(t.Context(), rollout); err != nil {
				t.Errorf("RemoveManagedRoutes: %v", err)
			}
			if err := router.SetWeight(t.Context(), rollout, test.weight, nil); err != nil {
				t.Errorf("SetWeight(%d): %v", test.weight, err)
			}
			for annotation, want := range test.want {
				if got := api.Object("shop", "web").Annotations[annotation]; got != want {
					t.Errorf("%s is %s, want %s", annotation, got, want)
				}
			}
			verified, err := router.VerifyWeight(t.Context(), rollout, test.weight, nil)
			if err != nil || verified != test.verified {
				t.Errorf("VerifyWeight: %v, %v; want %v", verified, err, test.verified)
			}
		})
	}
}
