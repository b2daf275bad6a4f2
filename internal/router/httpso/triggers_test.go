package httpso_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// namespacePath is the API path to list the HTTPScaledObjects of the namespace.
const namespacePath = "/apis/http.keda.sh/v1alpha1/namespaces/shop/httpscaledobjects"

// ofTrigger returns the HTTPScaledObject of a trigger of a ScaledObject, or one without a ScaledObject if scaled is
// empty.
func ofTrigger(scaled, name string, annotations map[string]string) *httpv1alpha1.HTTPScaledObject {
	object := routertest.ScaledObject(annotations)
	object.Name = name
	if scaled != "" {
		object.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: scaled, UID: "uid-of-scaled", Controller: new(true),
		}}
	}
	return object
}

// twoTriggers returns the HTTPScaledObjects of ScaledObject web, that of another ScaledObject, and one that a user
// created.
func twoTriggers(annotations map[string]string) []*httpv1alpha1.HTTPScaledObject {
	return []*httpv1alpha1.HTTPScaledObject{
		ofTrigger("web", "web", annotations), ofTrigger("web", "web-api", annotations), ofTrigger("next", "next", nil),
		ofTrigger("", "by-hand", nil),
	}
}

// annotationsOf returns the router's annotations of each object that has any: weights, followed by managed routes.
func annotationsOf(api *routertest.APIServer) map[string]string {
	found := map[string]string{}
	for _, name := range []string{"web", "web-api", "next", "by-hand"} {
		set := annotations(api.Object("shop", name))
		if text := set[httpv1alpha1.AnnotationWeightedBackends] + set[httpv1alpha1.AnnotationManagedRoutes]; text != "" {
			found[name] = text
		}
	}
	return found
}

// TestEveryTriggerGetsTheSplit has a ScaledObject with two triggers; the Rollout names the HTTPScaledObject of one of
// them.
func TestEveryTriggerGetsTheSplit(t *testing.T) {
	t.Parallel()
	weight := v1alpha1.CanaryStep{SetWeight: new(int32(20))}
	atHeader, atMirror := inCanary(0, headerStep(), weight), inCanary(1, headerStep(), mirrorStep())
	plain, aborted := weighing(0), weighing(20)
	aborted.Status.Abort = true
	both := func(text string) map[string]string { return map[string]string{"web": text, "web-api": text} }
	none := map[string]string{}
	tests := map[string]struct {
		rollout *v1alpha1.Rollout
		have    map[string]string // annotations of both before
		plays   []play
		want    map[string]string
		writes  int
	}{
		"a weight":        {plain, nil, []play{weigh(20), weigh(20), verify(20)}, both(at20), 2},
		"the full weight": {weighing(20), weighted(at20), []play{weigh(100), verify(100)}, both(at100), 2},
		"the end":         {weighing(100), weighted(at100), []play{weigh(0), verify(0)}, none, 2},
		"an abort":        {aborted, weighted(at20), []play{remove}, none, 2},
		"a header route":  {atHeader, nil, []play{setHeader, weigh(0), verify(0)}, both(at0 + "[" + qa + "]"), 2},
		"a mirror route as well": {
			atMirror, nil,
			[]play{setMirror, weigh(20), verify(20)},
			both(at20 + "[" + shadow + "," + qa + "]"), 4,
		},
		"their removal":     {plain, withRoutes(at20), []play{weigh(20)}, both(at20), 2},
		"a Rollout at rest": {plain, nil, []play{weigh(0), verify(0)}, none, 0},
	}
	for name, test := range tests {
		for watched, connect := range map[string]func(*testing.T, *routertest.APIServer) *httpso.Router{
			"watched": watching,
			"read":    reading,
		} {
			t.Run(name+", "+watched, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					api := routertest.NewInMemory(t, twoTriggers(test.have)...)
					ready(api, "web-stable", "10.0.0.1")
					router := connect(t, api)
					for _, call := range test.plays {
						if err := call(t, router, test.rollout); err != nil {
							t.Fatal(err)
						}
					}
					if diff := cmp.Diff(test.want, annotationsOf(api)); diff != "" {
						t.Errorf("splits (-want +got):\n%s", diff)
					}
					if writes := len(api.Requests(http.MethodPatch)); writes != test.writes {
						t.Errorf("%d writes, want %d", writes, test.writes)
					}
				})
			})
		}
	}
}

// reading returns a router on an in-memory API server, without a watch.
func reading(_ *testing.T, api *routertest.APIServer) *httpso.Router { return newRouter(api) }

// withRoutes returns weights and the header route qa.
func withRoutes(weights string) map[string]string {
	set := weighted(weights)
	set[httpv1alpha1.AnnotationManagedRoutes] = "[" + qa + "]"
	return set
}

// TestVerifyWeightCoversEveryTrigger: a step completes when the proxies have ACKed the split of all objects.
func TestVerifyWeightCoversEveryTrigger(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text   string // of the second one
		report *httpv1alpha1.DataPlaneStatus
		want   bool
	}{
		"ACKed":            {at20, ackedReport(at20, 2), true},
		"not ACKed":        {at20, ackedReport(at100, 2), false},
		"not reported":     {at20, nil, false},
		"not written":      {"", ackedReport("", 2), false},
		"written manually": {at100, ackedReport(at100, 2), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				objects := twoTriggers(weighted(at20))
				objects[0].Status.DataPlane, objects[1].Status.DataPlane = ackedReport(at20, 2), test.report
				objects[1].Annotations = weighted(test.text)
				if test.text == "" {
					objects[1].Annotations = nil
				}
				api := routertest.NewInMemory(t, objects...)
				beat(t, api)
				verified, err := watching(t, api).VerifyWeight(deadlined(t), weighing(20), 20, nil)
				if err != nil || verified != test.want {
					t.Errorf("VerifyWeight: %v, %v; want %v", verified, err, test.want)
				}
			})
		})
	}
}

// TestAddedAndRemovedTriggers changes the triggers of a ScaledObject during a canary.
func TestAddedAndRemovedTriggers(t *testing.T) {
	t.Parallel()
	fails := routertest.RespondError(apierrors.NewInternalError(errors.New("etcd")))
	tests := map[string]struct {
		happens func(*routertest.APIServer)
		err     string
		want    map[string]string
	}{
		"one more": {
			happens: func(api *routertest.APIServer) { api.Put(ofTrigger("web", "by-hand", nil)) },
			want:    map[string]string{"web": at20, "web-api": at20, "by-hand": at20},
		},
		"one less": {
			happens: func(api *routertest.APIServer) { api.Delete("shop", "web-api") },
			want:    map[string]string{"web": at20},
		},
		"one is no trigger's any more": {
			happens: func(api *routertest.APIServer) {
				object := api.Object("shop", "web-api")
				object.OwnerReferences = nil
				api.Put(object)
			},
			want: map[string]string{"web": at20},
		},
		"one loses its weights": {
			happens: func(api *routertest.APIServer) { api.Put(ofTrigger("web", "web-api", nil)) },
			want:    map[string]string{"web": at20, "web-api": at20},
		},
		"a ScaledObject of that name comes after it": {
			happens: func(api *routertest.APIServer) {
				object := api.Object("shop", "web-api")
				object.OwnerReferences[0].UID = "uid-of-the-next"
				api.Put(object)
			},
			want: map[string]string{"web": at20, "web-api": at20},
		},
		"the one that the Rollout names is gone for a moment": {
			happens: func(api *routertest.APIServer) { api.Delete("shop", "web") },
			err:     "not found",
			want:    map[string]string{"web-api": at20},
		},
		"a write fails": {
			happens: func(api *routertest.APIServer) {
				api.Put(ofTrigger("web", "web", nil))
				api.Put(ofTrigger("web", "web-api", nil))
				api.Fail(fails, fails, fails, fails, fails, fails, fails, fails)
			},
			err:  "etcd",
			want: map[string]string{},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewInMemory(t, twoTriggers(nil)...)
				router, rollout := watching(t, api), weighing(20)
				set := func() error { return router.SetWeight(deadlined(t), rollout, 20, nil) }
				if err := set(); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				test.happens(api)
				synctest.Wait()
				err := set()
				if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
					t.Errorf("error is %v, want %q", err, test.err)
				}
				if diff := cmp.Diff(test.want, annotationsOf(api)); diff != "" {
					t.Errorf("splits (-want +got):\n%s", diff)
				}
				if err != nil { // the controller asks again, once what was wrong has passed
					api.Put(ofTrigger("web", "web", nil))
					synctest.Wait()
					if err := set(); err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(map[string]string{"web": at20, "web-api": at20}, annotationsOf(api)); diff != "" {
						t.Errorf("splits after it (-want +got):\n%s", diff)
					}
				}
			})
		})
	}
}

// TestRequestsForTriggersWithoutAWatch: the other objects are listed only during a canary, and only if the object
// belongs to a ScaledObject.
func TestRequestsForTriggersWithoutAWatch(t *testing.T) {
	t.Parallel()
	forbidden := routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no rule")))
	for name, test := range map[string]struct {
		objects  []*httpv1alpha1.HTTPScaledObject
		unlisted http.HandlerFunc
		weight   int32
		lists    int // in two calls
		warns    bool
		want     map[string]string
	}{
		"a canary": {
			objects: twoTriggers(nil), weight: 20, lists: 2,
			want: map[string]string{"web": at20, "web-api": at20},
		},
		"at rest": {objects: twoTriggers(nil), weight: 0, want: map[string]string{}},
		"no ScaledObject": {
			objects: []*httpv1alpha1.HTTPScaledObject{ofTrigger("", "web", nil)}, weight: 20,
			want: map[string]string{"web": at20},
		},
		"the right to list is missing": {
			objects: twoTriggers(nil), weight: 20, unlisted: forbidden, lists: 2, warns: true,
			want: map[string]string{"web": at20},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewInMemory(t, test.objects...)
				api.Unlisted(test.unlisted)
				router := reading(t, api)
				for range 2 {
					if err := router.SetWeight(deadlined(t), weighing(test.weight), test.weight, nil); err != nil {
						t.Fatal(err)
					}
				}
				lists := 0
				for _, request := range api.Requests(http.MethodGet) {
					if request.Path == namespacePath {
						lists++
					}
				}
				if lists != test.lists {
					t.Errorf("%d lists, want %d", lists, test.lists)
				}
				if diff := cmp.Diff(test.want, annotationsOf(api)); diff != "" {
					t.Errorf("splits (-want +got):\n%s", diff)
				}
				if events := api.Events(); (len(events) == 1) != test.warns || test.warns &&
					(events[0].Reason != reasons.OtherTriggersNotListed ||
						!strings.Contains(events[0].Message, "list httpscaledobjects")) {
					t.Errorf("events are %+v; want a warning: %v", events, test.warns)
				}
			})
		})
	}
}

// TestSecondRolloutOfTheSameTriggersIsAnError: the owner mark of a Rollout that references another object of the same
// ScaledObject is no leftover.
func TestSecondRolloutOfTheSameTriggersIsAnError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		scaled string // of the object that the mark's Rollout names
		taken  bool
	}{
		"the same ScaledObject": {"web", false},
		"another ScaledObject":  {"next", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := map[string]string{
				httpv1alpha1.AnnotationWeightedBackends:      byAPI,
				httpv1alpha1.AnnotationWeightedBackendsOwner: apiMark,
			}
			api := routertest.NewAPIServer(t, ofTrigger("web", "web", shared), ofTrigger(test.scaled, "web-api", nil))
			api.PutOther(apiPath, apiRollout("web-api"))
			err := newRouter(api).SetWeight(await.Context(t), routertest.Rollout(httpso.Type, config), 20, nil)
			if (err == nil) != test.taken || !test.taken && !strings.Contains(err.Error(), "of its own") {
				t.Errorf("error is %v", err)
			}
			want := map[bool]string{true: at20, false: byAPI}[test.taken]
			if got := annotationOf(api, "web"); got != want {
				t.Errorf("weights are %q, want %q", got, want)
			}
		})
	}
}

// TestUnroutedTriggers: the object of a trigger of type kedify-envoy-http has no weights, and delays no step. If the
// Rollout names it, a weight is an error, and the end of a canary is none.
func TestUnroutedTriggers(t *testing.T) {
	t.Parallel()
	unrouted := ofTrigger("web", "web-envoy", map[string]string{httpv1alpha1.AnnotationRouting: httpv1alpha1.RoutingNone})
	for watched, connect := range map[string]func(*testing.T, *routertest.APIServer) *httpso.Router{
		"watched": watching, "read": reading,
	} {
		t.Run(watched, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewInMemory(t, ofTrigger("web", "web", nil), unrouted)
				ready(api, "web-stable", "10.0.0.1")
				router := connect(t, api)
				for _, call := range []play{weigh(20), verify(20)} {
					if err := call(t, router, weighing(0)); err != nil {
						t.Fatal(err)
					}
				}
				if set := annotations(api.Object("shop", "web-envoy")); set[httpv1alpha1.AnnotationWeightedBackends] != "" {
					t.Errorf("the unrouted object has %v", set)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		named := unrouted.DeepCopy()
		named.Name = "web"
		router := newRouter(routertest.NewInMemory(t, named))
		err := weigh(20)(t, router, weighing(0))
		if err == nil || !strings.Contains(err.Error(), "no request is routed to the object") {
			t.Errorf("a weight: %v", err)
		}
		if err := weigh(0)(t, router, weighing(0)); err != nil {
			t.Errorf("the end: %v", err)
		}
	})
}
