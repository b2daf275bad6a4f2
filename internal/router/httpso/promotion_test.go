package httpso_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// ready sets the ready addresses of a Service's Endpoints, which also have one that is not ready.
func ready(api *routertest.APIServer, service string, addresses ...string) {
	type address = map[string]string
	list := []address{}
	for _, ip := range addresses {
		list = append(list, address{"ip": ip})
	}
	api.PutOther("/api/v1/namespaces/shop/endpoints/"+service, map[string]any{
		"subsets": []any{map[string]any{"addresses": list, "notReadyAddresses": []address{{"ip": "10.9.9.9"}}}},
	})
}

// promoted returns the Rollout after the last step, with replicas.
func promoted(given string) *v1alpha1.Rollout {
	rollout := routertest.Rollout(httpso.Type, given)
	rollout.Spec.Replicas = new(int32(2))
	return rollout
}

// withHashes returns a report with the hashes of the stable Service's Pods.
func withHashes(hashes ...string) *httpv1alpha1.DataPlaneStatus {
	report := ackedReport(at100, 1)
	report.StableHashes = hashes
	return report
}

func TestPromotionWaitsForTheStableService(t *testing.T) {
	t.Parallel()
	move := func(api *routertest.APIServer) { ready(api, "web-stable", "10.0.0.2", "10.0.0.3") }
	report := func(hashes ...string) func(*routertest.APIServer) {
		return func(api *routertest.APIServer) { api.Report("shop", "web", withHashes(hashes...)) }
	}
	tests := map[string]struct {
		stable []string                    // ready addresses of the stable Service; those of the canary are 10.0.0.2 and 3
		hashes []string                    // those in the report
		lease  func(*routertest.APIServer) // instead of an interceptor that renews its Lease
		later  func(*routertest.APIServer) // what happens after 500 ms
		want   bool
		atOnce bool
	}{
		"its endpoints are the promoted Pods": {stable: []string{"10.0.0.2", "10.0.0.3"}, want: true, atOnce: true},
		"some of them":                        {stable: []string{"10.0.0.3"}, want: true, atOnce: true},
		"old Pods for ever":                   {stable: []string{"10.0.0.1"}},
		"old and new Pods":                    {stable: []string{"10.0.0.1", "10.0.0.2"}},
		"none for ever":                       {},
		"old Pods, then the promoted ones":    {stable: []string{"10.0.0.1"}, later: move, want: true},
		"none, then the promoted Pods":        {later: move, want: true},
		"the interceptor has the promoted Pods": {
			stable: []string{"10.0.0.1"}, hashes: []string{"new"}, want: true,
			atOnce: true,
		},
		"the interceptor still has the old ones": {stable: []string{"10.0.0.2"}, hashes: []string{"old"}},
		"the interceptor has both":               {stable: []string{"10.0.0.2"}, hashes: []string{"new", "old"}},
		"the interceptor gets the promoted Pods": {hashes: []string{"old"}, later: report("new"), want: true},
		"the proxies keep the endpoints of a stopped interceptor": {
			stable: []string{"10.0.0.2"}, hashes: []string{"old"}, lease: noLease,
		},
		"an uninstalled interceptor is not used": {
			stable: []string{"10.0.0.2"}, hashes: []string{"old"}, lease: uninstall,
			want: true, atOnce: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewInMemory(t, reported(at100, withHashes(test.hashes...)))
				ready(api, "web-canary", "10.0.0.2", "10.0.0.3")
				ready(api, "web-stable", test.stable...)
				if test.lease == nil {
					beat(t, api)
				} else {
					test.lease(api)
				}
				if test.later != nil {
					time.AfterFunc(500*time.Millisecond, func() { test.later(api) })
				}
				router, begin := watching(t, api), time.Now()
				err := router.UpdateHash(deadlined(t), promoted(config), "new", "new", nil)
				took := time.Since(begin)
				if (err == nil) != test.want || took > 2*time.Second || test.atOnce && took > 0 || test.want &&
					took > 750*time.Millisecond {
					t.Errorf("UpdateHash: %v after %v; want success: %v", err, took, test.want)
				}
				if err != nil && (!strings.Contains(err.Error(), `rollout "shop/web": the promotion waits for Service `+
					`"web-stable"`) ||
					!strings.Contains(err.Error(), "safePromotion: false")) {
					t.Errorf("error is %q", err)
				}
				if writes := len(api.Requests(http.MethodPatch)); writes > 0 {
					t.Errorf("%d writes", writes)
				}
			})
		})
	}
}

func TestPromotionsThatDoNotWait(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rollout func(*v1alpha1.Rollout)
		config  string
		text    string
		hash    string // of the canary; the stable one is "new"
	}{
		"mid-canary":               {text: at20, hash: "newer"},
		"the canary has no weight": {text: "", hash: "new"},
		"another Rollout's weight": {text: byAPI, hash: "new"},
		"aborted":                  {rollout: func(r *v1alpha1.Rollout) { r.Status.Abort = true }, text: at100, hash: "new"},
		"scaled to zero":           {rollout: func(r *v1alpha1.Rollout) { r.Spec.Replicas = nil }, text: at100, hash: "new"},
		"opted out":                {config: `{"httpScaledObjectName":"web","safePromotion":false}`, text: at100, hash: "new"},
		"a field is wrong":         {config: `{"httpScaledObjectName":7}`, text: at100, hash: "new"},
		"no such object":           {config: `{"httpScaledObjectName":"none"}`, text: at100, hash: "new"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewInMemory(t, reported(test.text, nil))
				rollout := promoted(config)
				if test.config != "" {
					rollout = promoted(test.config)
				}
				if test.rollout != nil {
					test.rollout(rollout)
				}
				begin := time.Now()
				if err := watching(t, api).UpdateHash(deadlined(t), rollout, test.hash, "new", nil); err != nil ||
					time.Since(begin) > 0 {
					t.Errorf("UpdateHash: %v after %v", err, time.Since(begin))
				}
			})
		})
	}
}

func TestPromotionWaitsThirtySecondsInTotal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewInMemory(t, reported(at100, nil))
		ready(api, "web-canary", "10.0.0.2")
		router, rollout := watching(t, api), promoted(config)
		for round := range 2 {
			begin, calls := time.Now(), 0
			for router.UpdateHash(deadlined(t), rollout, "new", "new", nil) != nil {
				if calls++; calls > 100 {
					t.Fatal("it never ends")
				}
				pass(500 * time.Millisecond)
			}
			if took := time.Since(begin); took < 30*time.Second || took > 32*time.Second {
				t.Errorf("round %d: the promotion waited %v", round, took)
			}
			if err := router.UpdateHash(deadlined(t), rollout, "new", "new", nil); err != nil {
				t.Errorf("round %d: after the limit: %v", round, err)
			}
			// The weights go back, and the next canary begins.
			api.Put(reported("", nil))
			synctest.Wait()
			if err := router.UpdateHash(deadlined(t), rollout, "new", "new", nil); err != nil {
				t.Error(err)
			}
			api.Put(reported(at100, nil))
			synctest.Wait()
		}
		events := api.Events()
		if len(events) != 2 || events[0].Reason != "PromotionWaits" || events[1].Reason != "PromotionNotSafe" ||
			!strings.Contains(events[1].Message, `Service "web-stable"`) {
			t.Errorf("events: %+v; want two, not two a round within ten minutes", events)
		}
	})
}

func TestDynamicStableScaleGetsAWarning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewInMemory(t, reported(at100, nil))
		ready(api, "web-canary", "10.0.0.2")
		ready(api, "web-stable", "10.0.0.2")
		rollout := promoted(config)
		rollout.Spec.Strategy.Canary.DynamicStableScale = true
		if err := watching(t, api).UpdateHash(deadlined(t), rollout, "new", "new", nil); err != nil {
			t.Error(err)
		}
		if events := api.Events(); len(events) != 1 || !strings.Contains(events[0].Message, "dynamicStableScale") {
			t.Errorf("events: %+v", events)
		}
	})
}

func TestPromotionIgnoresForbiddenEndpoints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewInMemory(t, reported(at100, nil))
		api.PutOther("/api/v1/namespaces/shop/endpoints/web-stable",
			routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{Resource: "endpoints"}, "web-stable",
				errors.New("no rule"))))
		if err := watching(t, api).UpdateHash(deadlined(t), promoted(config), "new", "new", nil); err != nil {
			t.Error(err)
		}
		if events := api.Events(); len(events) != 1 || events[0].Reason != "PromotionNotChecked" {
			t.Errorf("events: %+v", events)
		}
	})
}

func TestPromotionWaitsWhileEndpointsAreUnreadable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewInMemory(t, reported(at100, nil))
		api.Unlisted(routertest.RespondError(apierrors.NewServiceUnavailable("starting")))
		router := watching(t, api)
		api.Fail(routertest.CloseConnection)
		if err := router.UpdateHash(deadlined(t), promoted(config), "new", "new", nil); err == nil {
			t.Error("UpdateHash succeeded although the weights could not be read")
		}
	})
}
