package httpso_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

const (
	config  = `{"httpScaledObjectName":"web"}`
	at20    = "- service: web-stable\n  weight: 80\n- service: web-canary\n  weight: 20\n"
	foreign = "example.com/not-ours"
)

// lease is the name of the interceptors' Lease.
var lease = types.NamespacedName{
	Namespace: httpv1alpha1.DefaultInterceptorNamespace,
	Name:      httpv1alpha1.DefaultInterceptorLease,
}

// newRouter returns a router on the API server, without a watch.
func newRouter(api *routertest.APIServer) *httpso.Router {
	connect := func() (*rest.Config, error) { return api.Config(), nil }
	return httpso.New(httpso.NewClient(connect), lease, slog.New(slog.DiscardHandler))
}

func weighted(text string) map[string]string {
	return map[string]string{
		httpv1alpha1.AnnotationWeightedBackends: text, httpv1alpha1.AnnotationWeightedBackendsOwner: routertest.Mark,
		foreign: "stays",
	}
}

func TestSetWeight(t *testing.T) {
	t.Parallel()
	pingPong := func(stable v1alpha1.PingPongType) func(*v1alpha1.Rollout) {
		return func(rollout *v1alpha1.Rollout) {
			canary := rollout.Spec.Strategy.Canary
			canary.StableService, canary.CanaryService = "", ""
			canary.PingPong = &v1alpha1.PingPongSpec{PingService: "web-stable", PongService: "web-other"}
			rollout.Status.Canary.StablePingPong = stable
		}
	}
	tests := map[string]struct {
		rollout func(*v1alpha1.Rollout)
		weight  int32
		others  []v1alpha1.WeightDestination
		have    string // the annotation before; empty means none
		want    string // the annotation after; empty means none
		writes  int
	}{
		"the first step": {weight: 20, want: at20, writes: 1},
		"the next step": {
			weight: 50, have: at20,
			want: "- service: web-stable\n  weight: 50\n- service: web-canary\n  weight: 50\n", writes: 1,
		},
		"100 keeps the stable entry": {
			weight: 100, have: at20,
			want: "- service: web-stable\n  weight: 0\n- service: web-canary\n  weight: 100\n", writes: 1,
		},
		"0 removes the annotation": {weight: 0, have: at20, want: "", writes: 1},
		"unchanged":                {weight: 20, have: at20, want: at20, writes: 0},
		"0 where there is none":    {weight: 0, want: "", writes: 0},
		"another notation of it": {weight: 20, have: "[{service: web-stable, weight: 80}, {service: web-canary, weight: " +
			"20}]", want: at20, writes: 1},
		"something broken": {weight: 20, have: "{{{", want: at20, writes: 1},
		"an experiment has weight": {
			weight: 20, others: []v1alpha1.WeightDestination{{ServiceName: "web-try", Weight: 10}},
			want: "- service: web-stable\n  weight: 70\n- service: web-canary\n  weight: 20\n- service: web-try\n  weight: " +
				"10\n",
			writes: 1,
		},
		"an experiment alone": {
			weight: 0, others: []v1alpha1.WeightDestination{{ServiceName: "web-try", Weight: 10}},
			want: "- service: web-stable\n  weight: 90\n- service: web-canary\n  weight: 0\n- service: web-try\n  weight: " +
				"10\n",
			writes: 1,
		},
		"maxTrafficWeight 1000": {
			rollout: func(r *v1alpha1.Rollout) {
				r.Spec.Strategy.Canary.TrafficRouting.MaxTrafficWeight = new(int32(1000))
			},
			weight: 1, want: "- service: web-stable\n  weight: 999\n- service: web-canary\n  weight: 1\n", writes: 1,
		},
		"ping-pong, ping is stable": {
			rollout: pingPong(v1alpha1.PPPing), weight: 20,
			want: "- service: web-stable\n  weight: 80\n- service: web-other\n  weight: 20\n", writes: 1,
		},
		"ping-pong, pong is stable": {
			rollout: pingPong(v1alpha1.PPPong), weight: 20,
			want: "- service: web-other\n  weight: 80\n- service: web-stable\n  weight: 20\n", writes: 1,
		},
		"ping-pong, 0 on the own name": {rollout: pingPong(v1alpha1.PPPing), weight: 0, have: at20, want: "", writes: 1},
		"ping-pong, 0 on the other name": {
			rollout: pingPong(v1alpha1.PPPong), weight: 0, have: at20,
			want: "- service: web-other\n  weight: 100\n", writes: 1,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			annotations := map[string]string{foreign: "stays"}
			if test.have != "" {
				annotations = weighted(test.have)
			}
			api := routertest.NewAPIServer(t, routertest.ScaledObject(annotations))
			router := newRouter(api)
			rollout := routertest.Rollout(httpso.Type, config)
			if test.rollout != nil {
				test.rollout(rollout)
			}

			if err := router.SetWeight(t.Context(), rollout, test.weight, test.others); err != nil {
				t.Fatal(err)
			}

			want := map[string]string{foreign: "stays"}
			if test.want != "" {
				want = weighted(test.want)
			}
			if diff := cmp.Diff(want, api.Object("shop", "web").Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if writes := len(api.Requests(http.MethodPatch)); writes != test.writes {
				t.Errorf("%d writes, want %d", writes, test.writes)
			}
			verified, err := router.VerifyWeight(t.Context(), rollout, test.weight, test.others)
			if err != nil || !verified {
				t.Errorf("VerifyWeight after it: %v, %v; want true", verified, err)
			}
		})
	}
}

func TestSetWeightChangesOnlyItsAnnotations(t *testing.T) {
	t.Parallel()
	const backends, owner = "/metadata/annotations/http.kedify.io~1weighted-backends",
		"/metadata/annotations/http.kedify.io~1weighted-backends-owner"
	tests := map[string]struct {
		have   map[string]string
		weight int32
		want   string
	}{
		"where nothing is annotated": {nil, 20, `[["test","/metadata/annotations",null],["add","/metadata/annotations",{}],["add","` + backends + `","AT20"],["add","` + owner + `","MARK"]]`},
		"with other annotations": {map[string]string{foreign: "stays"}, 20, `[["test","` + backends + `",null],["test","` +
			owner + `",null],["add","` + backends + `","AT20"],["add","` +
			owner + `","MARK"]]`},
		"over what is there": {weighted("old"), 20, `[["test","` + backends + `","old"],["test","` + owner +
			`","MARK"],["add","` + backends + `","AT20"],["add","` + owner + `","MARK"]]`},
		"to remove them": {weighted("old"), 0, `[["test","` + backends + `","old"],["test","` + owner +
			`","MARK"],["remove","` + backends + `",null],["remove","` + owner + `",null]]`},
		"to remove one": {map[string]string{httpv1alpha1.AnnotationWeightedBackends: "old"}, 0, `[["test","` + backends +
			`","old"],["test","` + owner + `",null],["remove","` + backends +
			`",null]]`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewAPIServer(t, routertest.ScaledObject(test.have))
			if err := newRouter(api).SetWeight(t.Context(), routertest.Rollout(httpso.Type, config), test.weight,
				nil); err != nil {
				t.Fatal(err)
			}
			writes := api.Requests(http.MethodPatch)
			if len(writes) != 1 {
				t.Fatalf("%d writes, want 1", len(writes))
			}
			var operations []struct {
				Op, Path string
				Value    any
			}
			if err := json.Unmarshal([]byte(writes[0].Body), &operations); err != nil {
				t.Fatal(err)
			}
			var got, want any
			list := make([]any, 0, len(operations))
			for _, one := range operations {
				list = append(list, []any{one.Op, one.Path, one.Value})
			}
			got = list
			quoted, err := json.Marshal(at20)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.NewReplacer(`"AT20"`, string(quoted), "MARK", routertest.Mark).Replace(test.want)
			if err := json.Unmarshal([]byte(text), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			if got := writes[0]; got.FieldManager != httpso.FieldManager || got.ContentType != "application/json-patch+json" {
				t.Errorf("written by field manager %q as %q", got.FieldManager, got.ContentType)
			}
		})
	}
}

// TestSetWeightIsNotStarvedByOtherWriters has a writer that always wins the race. It changes nothing that this router
// owns.
func TestSetWeightIsNotStarvedByOtherWriters(t *testing.T) {
	t.Parallel()
	api := routertest.NewAPIServer(t, routertest.ScaledObject(nil))
	other := func(http.ResponseWriter, *http.Request) {
		object := api.Object("shop", "web")
		object.Labels = map[string]string{"touched-at": object.ResourceVersion}
		api.Put(object)
	}
	api.Fail(routertest.Pass, other, routertest.Pass, other)

	if err := newRouter(api).SetWeight(t.Context(), routertest.Rollout(httpso.Type, config), 20, nil); err != nil {
		t.Fatal(err)
	}

	if got := api.Object("shop", "web"); got.Annotations[httpv1alpha1.AnnotationWeightedBackends] != at20 ||
		got.Labels["touched-at"] != "1" {
		t.Errorf("object after it has annotations %v and labels %v", got.Annotations, got.Labels)
	}
	if writes := len(api.Requests(http.MethodPatch)); writes != 1 {
		t.Errorf("%d writes, want 1: a label is no conflict", writes)
	}
}

func TestSetWeightOverwritesForeignChanges(t *testing.T) {
	t.Parallel()
	api := routertest.NewAPIServer(t, routertest.ScaledObject(nil))
	api.PutOther(apiPath, apiRollout("web"))
	api.Fail(routertest.Pass, func(http.ResponseWriter, *http.Request) {
		api.Put(routertest.ScaledObject(map[string]string{
			httpv1alpha1.AnnotationWeightedBackends: byAPI, httpv1alpha1.AnnotationWeightedBackendsOwner: apiMark,
		}))
	})
	err := newRouter(api).SetWeight(t.Context(), routertest.Rollout(httpso.Type, config), 20, nil)
	if err == nil || !strings.Contains(err.Error(), `rollout "shop/api"`) ||
		api.Object("shop", "web").Annotations[httpv1alpha1.AnnotationWeightedBackends] != byAPI {
		t.Errorf("SetWeight: %v, annotation %q", err, api.Object("shop", "web").Annotations)
	}
}

func TestSetWeightRetriesPassingErrors(t *testing.T) {
	t.Parallel()
	for name, faults := range routertest.PassingFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewAPIServer(t, routertest.ScaledObject(nil))
			api.Fail(faults...)
			if err := newRouter(api).SetWeight(t.Context(), routertest.Rollout(httpso.Type, config), 20, nil); err != nil {
				t.Fatal(err)
			}
			if got := api.Object("shop", "web").Annotations[httpv1alpha1.AnnotationWeightedBackends]; got != at20 {
				t.Errorf("annotation is %q", got)
			}
		})
	}
}

func TestSetWeightEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	api := routertest.NewAPIServer(t, routertest.ScaledObject(nil))
	api.Fail(api.Hang)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) //testbounds:allow it is there to expire
	defer cancel()
	err := newRouter(api).SetWeight(ctx, routertest.Rollout(httpso.Type, config), 20, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want the deadline's", err)
	}
}

func TestMissingObject(t *testing.T) {
	t.Parallel()
	router := newRouter(routertest.NewAPIServer(t))
	rollout := routertest.Rollout(httpso.Type, config)
	if err := router.SetWeight(t.Context(), rollout, 0, nil); err != nil {
		t.Errorf("SetWeight(0): %v; want success, there is no annotation to remove", err)
	}
	if verified, err := router.VerifyWeight(t.Context(), rollout, 0, nil); err != nil || !verified {
		t.Errorf("VerifyWeight(0): %v, %v; want true", verified, err)
	}
	if err := router.RemoveManagedRoutes(t.Context(), rollout); err != nil {
		t.Errorf("RemoveManagedRoutes: %v", err)
	}
	if err := router.SetWeight(t.Context(), rollout, 20, nil); err == nil {
		t.Error("SetWeight(20) succeeded without an HTTPScaledObject")
	}
	if verified, err := router.VerifyWeight(t.Context(), rollout, 20, nil); err != nil || verified {
		t.Errorf("VerifyWeight(20): %v, %v; want false without an error", verified, err)
	}
}

func TestVerifyWeightIsFalseForAnyDifference(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		annotations map[string]string
		weight      int32
	}{
		"no annotation": {nil, 20},
		"another weight": {
			weighted("- service: web-stable\n  weight: 50\n- service: web-canary\n  weight: 50\n"),
			20,
		},
		"the Services swapped": {
			weighted("- service: web-canary\n  weight: 80\n- service: web-stable\n  weight: 20\n"),
			20,
		},
		"an annotation at 0":       {weighted(at20), 0},
		"an empty annotation at 0": {weighted(""), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewAPIServer(t, routertest.ScaledObject(test.annotations))
			verified, err := newRouter(api).VerifyWeight(t.Context(), routertest.Rollout(httpso.Type, config), test.weight, nil)
			if err != nil || verified {
				t.Errorf("VerifyWeight: %v, %v; want false", verified, err)
			}
		})
	}
}

func TestVerifyWeightIsFalseWhileTheObjectIsUnreadable(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]http.HandlerFunc{
		"cut":         routertest.CloseConnection,
		"unavailable": routertest.RespondError(apierrors.NewServiceUnavailable("starting")),
		"forbidden":   routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{}, "web", errors.New("no rule"))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewAPIServer(t, routertest.ScaledObject(weighted(at20)))
			api.Fail(slices.Repeat([]http.HandlerFunc{fault}, 20)...)
			verified, err := newRouter(api).VerifyWeight(t.Context(), routertest.Rollout(httpso.Type, config), 20, nil)
			if err != nil || verified {
				t.Errorf("VerifyWeight: %v, %v; want false without an error", verified, err)
			}
		})
	}
}

func TestRemoveManagedRoutesAndUpdateHashKeepTheWeights(t *testing.T) {
	t.Parallel()
	api := routertest.NewAPIServer(t, routertest.ScaledObject(weighted(at20)))
	router, rollout := newRouter(api), routertest.Rollout(httpso.Type, config)
	if err := errors.Join(router.RemoveManagedRoutes(t.Context(), rollout),
		router.UpdateHash(t.Context(), rollout, "b", "a", nil)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(weighted(at20), api.Object("shop", "web").Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestOtherFieldsOfTheObjectStay(t *testing.T) {
	t.Parallel()
	object := routertest.ScaledObject(nil)
	object.Labels = map[string]string{"team": "shop"}
	object.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: "web",
		UID: "1",
	}}
	api := routertest.NewAPIServer(t, object)
	before := api.Object("shop", "web")
	if err := newRouter(api).SetWeight(t.Context(), routertest.Rollout(httpso.Type, config), 20, nil); err != nil {
		t.Fatal(err)
	}
	after := api.Object("shop", "web")
	before.ResourceVersion, before.Annotations = after.ResourceVersion, after.Annotations
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("object (-before +after):\n%s", diff)
	}
}
