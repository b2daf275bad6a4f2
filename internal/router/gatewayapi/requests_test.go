package gatewayapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

func TestRequestsOfSetWeight(t *testing.T) {
	t.Parallel()
	nothing := func(*routertest.RoutesServer) {}
	type step struct {
		name       string
		before     func(*routertest.RoutesServer)
		weight     int32
		gets, puts int
	}
	forbidden := routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no rule")))
	anotherWrites := func(api *routertest.RoutesServer) {
		api.Fail(func(http.ResponseWriter, *http.Request) {
			api.Change("httproutes", "shop", "web", func(route map[string]any) {
				route["metadata"].(map[string]any)["labels"] = map[string]any{"touched": "yes"}
			})
		})
	}
	revert := func(api *routertest.RoutesServer) {
		api.Change("httproutes", "shop", "web", func(route map[string]any) {
			route["spec"] = map[string]any{"rules": []any{map[string]any{"backendRefs": []any{
				map[string]any{"name": "web-stable", "weight": int64(100)},
				map[string]any{"name": "web-canary", "weight": int64(0)},
			}}}}
		})
	}
	tests := map[string][]step{
		"one write where something changes, no request where nothing does": {
			{"the first call of all", nothing, 20, 1, 1}, // the watch is opening
			{"again", nothing, 20, 0, 0},
			{"next step", nothing, 50, 0, 1},
			{"end", nothing, 0, 0, 1},
			{"idle", nothing, 0, 0, 0},
		},
		"a concurrent write costs one more of each": {
			{"first step", nothing, 20, 1, 1},
			{"conflict", anotherWrites, 50, 1, 2},
			{"again", nothing, 50, 0, 0},
		},
		"a GitOps revert is healed by the next call": {
			{"first step", nothing, 20, 1, 1},
			{"reverted", revert, 20, 0, 1},
			{"again", nothing, 20, 0, 0},
		},
		"without the right to watch, each call reads": {
			{"first step", func(api *routertest.RoutesServer) { api.Unlisted(forbidden) }, 20, 1, 1},
			{"again", nothing, 20, 1, 0},
			{"next step", nothing, 50, 1, 1},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"))
				router, rollout := watching(t, api), routertest.Rollout(gatewayapi.Type, config)
				for _, step := range steps {
					step.before(api)
					synctest.Wait()
					gets, puts := len(api.Requests(http.MethodGet, "/httproutes/")), len(api.Requests(http.MethodPut, ""))
					if err := router.SetWeight(deadlined(t), rollout, step.weight, nil); err != nil {
						t.Fatalf("%s: %v", step.name, err)
					}
					rollout.Status = weighing(step.weight, config).Status // as the controller writes it after the call
					gets, puts = len(api.Requests(http.MethodGet, "/httproutes/"))-gets, len(api.Requests(http.MethodPut, ""))-puts
					if gets != step.gets || puts != step.puts {
						t.Errorf("%s: %d reads and %d writes, want %d and %d", step.name, gets, puts, step.gets, step.puts)
					}
					if got, want := weights(api, "httproutes", "web"),
						fmt.Sprintf("%d/%d", 100-step.weight, step.weight); got != want {
						t.Errorf("%s: weights %s, want %s", step.name, got, want)
					}
					synctest.Wait()
				}
				for _, request := range api.Requests(http.MethodPut, "") {
					if request.FieldManager != gatewayapi.FieldManager {
						t.Errorf("written by field manager %q", request.FieldManager)
					}
				}
			})
		})
	}
}

// TestListsAreRareWithoutWatchPermission has the permissions of the argoproj-labs plugin's ClusterRole: each list
// returns all routes of the cluster.
func TestListsAreRareWithoutWatchPermission(t *testing.T) {
	t.Parallel()
	forbidden := routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no rule")))
	for name, test := range map[string]struct {
		unlisted http.HandlerFunc
		most     int // lists in an hour
	}{
		"list, and no watch": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("watch") {
				forbidden(w, r)
			}
		}, 7},
		"both": {nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"))
				api.Unlisted(test.unlisted)
				router := watching(t, api)
				for range 120 { // the controller's reconciles of an hour, of a Rollout in a canary
					if err := router.SetWeight(deadlined(t), weighing(20, config), 20, nil); err != nil {
						t.Fatal(err)
					}
					<-time.After(30 * time.Second)
				}
				lists, watches := api.Lists()
				t.Logf("%d lists and %d watches in an hour, at most %d lists", lists, watches, test.most)
				if lists > test.most {
					t.Errorf("%d lists in an hour, want at most %d", lists, test.most)
				}
			})
		})
	}
}

func TestServedVersionIsDiscovered(t *testing.T) {
	t.Parallel()
	rollout := routertest.Rollout(gatewayapi.Type, `{"tcpRoute":"web"}`)
	for _, version := range []string{"v1", "v1alpha2"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			api := routertest.NewRoutesServer(t, routertest.Schema{Version: version}, routeOf("TCPRoute", "web"))
			if err := newRouter(api).SetWeight(t.Context(), rollout, 20, nil); err != nil ||
				weights(api, "tcproutes", "web") != "80/20" {
				t.Errorf("%v; weights %s", err, weights(api, "tcproutes", "web"))
			}
		})
	}
	t.Run("one that replaces it", func(t *testing.T) {
		t.Parallel()
		api := routertest.NewRoutesServer(t, routertest.Schema{Version: "v1alpha2"}, routeOf("TCPRoute", "web"))
		router := newRouter(api)
		first := router.SetWeight(t.Context(), rollout, 20, nil)
		api.Publish(newest())
		second := router.SetWeight(t.Context(), rollout, 50, nil)
		if err := errors.Join(first, second); err != nil || weights(api, "tcproutes", "web") != "50/50" {
			t.Errorf("%v; weights %s", err, weights(api, "tcproutes", "web"))
		}
	})
	t.Run("one whose schema comes later", func(t *testing.T) {
		t.Parallel()
		early := newest()
		early.IsUnpublished = true
		api := routertest.NewRoutesServer(t, early, routeOf("TCPRoute", "web"))
		router := newRouter(api)
		const want = "the API server has not published its schema yet"
		if err := router.SetWeight(t.Context(), rollout, 20, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %s", err, want)
		}
		api.Publish(newest())
		if err := router.SetWeight(t.Context(), rollout, 20, nil); err != nil || weights(api, "tcproutes", "web") != "80/20" {
			t.Errorf("%v; weights %s", err, weights(api, "tcproutes", "web"))
		}
	})
	t.Run("an unknown version", func(t *testing.T) {
		t.Parallel()
		api := routertest.NewRoutesServer(t, routertest.Schema{Version: "v9"}, routeOf("TCPRoute", "web"))
		const want = `TCPRoute "shop/web" of rollout "shop/web": the cluster does not serve it in a supported version (v1, ` +
			`v1beta1, v1alpha3, v1alpha2): ` +
			`install the CustomResourceDefinition tcproutes.gateway.networking.k8s.io, or correct ` +
			`spec.strategy.canary.trafficRouting.plugins["argoproj-labs/gatewayAPI"].tcpRoute`
		if err := newRouter(api).SetWeight(t.Context(), rollout, 20, nil); err == nil || err.Error() != want {
			t.Errorf("error is\n%v, want\n%s", err, want)
		}
	})
}

func TestRouteSelectors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		other := strings.ReplaceAll(httpRoute("other"), "labels: {app: web}", "labels: {app: other}")
		api := routertest.NewRoutesInMemory(t, newest(), httpRoute("web"), httpRoute("api"), other)
		router := watching(t, api)
		rollout := routertest.Rollout(gatewayapi.Type, `{"httpRouteSelector":{"matchLabels":{"app":"web"}}}`)
		for _, weight := range []int32{20, 50} { // the second time by the watch alone
			reads := len(api.Requests(http.MethodGet, "/namespaces/shop/httproutes"))
			if err := router.SetWeight(deadlined(t), rollout, weight, nil); err != nil {
				t.Fatal(err)
			}
			if reads = len(api.Requests(http.MethodGet, "/namespaces/shop/httproutes")) - reads; weight == 50 && reads > 0 {
				t.Errorf("%d reads in addition to the watch", reads)
			}
			want := fmt.Sprintf("%d/%d", 100-weight, weight)
			got := map[string]string{
				"web": weights(api, "httproutes", "web"), "api": weights(api, "httproutes", "api"),
				"other": weights(api, "httproutes", "other"),
			}
			if diff := cmp.Diff(map[string]string{"web": want, "api": want, "other": "<nil>/<nil>"}, got); diff != "" {
				t.Errorf("weights (-want +got):\n%s", diff)
			}
			synctest.Wait()
		}
		none := routertest.Rollout(gatewayapi.Type, `{"httpRouteSelector":{"matchLabels":{"app":"none"}}}`)
		if err := router.SetWeight(deadlined(t), none, 20, nil); err == nil ||
			!strings.Contains(err.Error(), `no HTTPRoute in namespace "shop" has these labels (app=none)`) {
			t.Errorf("error is %v", err)
		}
		if err := router.SetWeight(deadlined(t), none, 0, nil); err != nil {
			t.Errorf("no canary weight: %v", err)
		}
	})
}
