package httpso_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// step is one call and its maximum number of requests.
type step struct {
	name    string
	before  func(api *routertest.APIServer)
	weight  int32
	gets    int
	patches int
	err     string
}

func TestRequestsOfSetWeight(t *testing.T) {
	t.Parallel()
	nothing := func(*routertest.APIServer) {}
	forbidden := routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no rule")))
	anotherWrites := func(api *routertest.APIServer) {
		api.Fail(func(http.ResponseWriter, *http.Request) {
			object := api.Object("shop", "web")
			object.Labels = map[string]string{"touched": "yes"}
			api.Put(object)
		})
	}
	revert := func(api *routertest.APIServer) { api.Put(routertest.ScaledObject(nil)) }
	remove := func(api *routertest.APIServer) { api.Delete("shop", "web") }
	tests := map[string][]step{
		"one write where something changes, no request where nothing does": {
			{"nothing to do", nothing, 0, 0, 0, ""},
			{"first step", nothing, 20, 0, 1, ""},
			{"again", nothing, 20, 0, 0, ""},
			{"next step", nothing, 50, 0, 1, ""},
			{"end", nothing, 0, 0, 1, ""},
			{"idle", nothing, 0, 0, 0, ""},
		},
		"a concurrent write costs no more requests": {
			{"a label", anotherWrites, 20, 0, 1, ""},
			{"again", nothing, 20, 0, 0, ""},
		},
		"a GitOps revert is healed by the next call": {
			{"first step", nothing, 20, 0, 1, ""},
			{"reverted", revert, 20, 0, 1, ""},
			{"again", nothing, 20, 0, 0, ""},
		},
		"a missing object is confirmed by the API server": {
			{"first step", nothing, 20, 0, 1, ""},
			{"deleted", remove, 20, 1, 0, "not found"},
			{"nothing to do without it", nothing, 0, 1, 0, ""},
			{"created again", revert, 20, 0, 1, ""},
		},
		"an expired watch continues from a new list": {
			{"first step", nothing, 20, 0, 1, ""},
			{"while there is none", (*routertest.APIServer).Expire, 20, 1, 0, ""},
			{"with the next one", func(*routertest.APIServer) { pass(time.Second) }, 20, 0, 0, ""},
			{"reverted", revert, 20, 0, 1, ""},
		},
		"a silent watch is not believed": {
			{"first step", nothing, 20, 0, 1, ""},
			{"after a minute", func(*routertest.APIServer) { pass(time.Minute) }, 20, 0, 0, ""},
			{"after two", func(*routertest.APIServer) { pass(time.Minute) }, 20, 1, 0, ""},
		},
		"without the right to watch, each call reads": {
			{"watch ends", func(api *routertest.APIServer) { api.Unlisted(forbidden); api.Expire() }, 20, 1, 1, ""},
			{"again", nothing, 20, 1, 0, ""},
			{"allowed again", func(api *routertest.APIServer) { api.Unlisted(nil); pass(6 * time.Second) }, 20, 0, 0, ""},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewInMemory(t, routertest.ScaledObject(nil))
				router, rollout := watching(t, api), routertest.Rollout(httpso.Type, config)
				for _, step := range steps {
					step.before(api)
					synctest.Wait()
					reads, writes := requests(api)-len(api.Requests(http.MethodPatch)), len(api.Requests(http.MethodPatch))
					err := router.SetWeight(deadlined(t), rollout, step.weight, nil)
					if (err != nil) != (step.err != "") || err != nil && !strings.Contains(err.Error(), step.err) {
						t.Fatalf("%s: %v, want %q", step.name, err, step.err)
					}
					if err == nil {
						rollout.Status = weighing(step.weight).Status // as the controller writes it after the call
					}
					patches := len(api.Requests(http.MethodPatch)) - writes
					if gets := requests(api) - writes - patches - reads; gets != step.gets || patches != step.patches {
						t.Errorf("%s: %d reads and %d writes, want %d and %d", step.name, gets, patches, step.gets, step.patches)
					}
					object := api.Object("shop", "web")
					if _, shared := annotations(object)[httpv1alpha1.AnnotationWeightedBackends]; err == nil &&
						shared != (step.weight > 0) {
						t.Errorf("%s: annotations are %v", step.name, object.Annotations)
					}
				}
			})
		})
	}
}

// annotations returns the annotations of an object that may be missing.
func annotations(object *httpv1alpha1.HTTPScaledObject) map[string]string {
	if object == nil {
		return nil
	}
	return object.Annotations
}

// TestListsAreRareWithoutWatchPermission has the permissions of the argoproj-labs plugin's ClusterRole: each list
// returns all objects of the cluster.
func TestListsAreRareWithoutWatchPermission(t *testing.T) {
	t.Parallel()
	forbidden := routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no rule")))
	tests := map[string]struct {
		unlisted http.HandlerFunc
		want     int // lists in an hour
	}{
		"neither list nor watch": {forbidden, 7},
		"list, and no watch": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("watch") {
				forbidden(w, r)
			}
		}, 7},
		"both": {nil, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewInMemory(t, reported(at20, nil))
				api.Unlisted(test.unlisted)
				watching(t, api)
				pass(time.Hour)
				lists, watches := 0, 0
				for _, request := range api.Requests(http.MethodGet) {
					switch {
					case request.Path != "/apis/http.keda.sh/v1alpha1/httpscaledobjects":
					case request.Watch:
						watches++
					default:
						lists++
					}
				}
				t.Logf("%d lists in an hour, at most %d", lists, test.want)
				if lists > test.want {
					t.Errorf("%d lists and %d watches in an hour, want at most %d lists", lists, watches, test.want)
				}
			})
		})
	}
}
