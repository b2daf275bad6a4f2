package httpso_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// TestLeaseShowsWhetherReportsCome verifies an annotation that no report confirms: true means that the annotation alone
// was enough.
func TestLeaseShowsWhetherReportsCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewInMemory(t, reported(at20, nil))
		router := watching(t, api)
		expect := func(when string, want bool) {
			t.Helper()
			verified, err := router.VerifyWeight(deadlined(t), routertest.Rollout(httpso.Type, config), 20, nil)
			if err != nil || verified != want {
				t.Errorf("%s: %v, %v; want %v", when, verified, err, want)
			}
		}
		expect("without a Lease", true)
		for _, step := range []struct {
			name   string
			do     func(*routertest.APIServer)
			passes time.Duration
			want   bool
		}{
			{"made manually, and never renewed", func(api *routertest.APIServer) {
				api.PutOther(leasePath, map[string]any{"spec": map[string]any{"holderIdentity": ""}})
			}, 5 * time.Second, true},
			{"at the first read, whatever its clock", crash, 5 * time.Second, false},
			{"unchanged for 15 s", nil, 15 * time.Second, false},
			{"unchanged for a day", nil, 24 * time.Hour, false},
			{"renewed", renew, 5 * time.Second, false},
			{"released by its holder", shutDown, 5 * time.Second, false},
			{"no new holder for an hour", nil, time.Hour, false},
			{"deleted", noLease, 5 * time.Second, false},
			{"deleted an hour ago", nil, time.Hour, false},
			{"uninstalled", uninstall, 5 * time.Second, true},
			{"deleted after the uninstall", noLease, 5 * time.Second, true},
			{"installed again", renew, 5 * time.Second, false},
			{"unreadable", func(api *routertest.APIServer) { api.PutOther(leasePath, leaseUnavailable) }, time.Hour, false},
		} {
			if step.do != nil {
				step.do(api)
			}
			pass(step.passes)
			expect(step.name, step.want)
		}
	})
}

// leaseUnavailable and leaseForbidden are responses to a read of the Lease.
var (
	leaseUnavailable = routertest.RespondError(apierrors.NewServiceUnavailable("starting"))
	leaseForbidden   = routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "",
		errors.New("no rule")))
)

// TestWeightsWithoutAnInterceptor: what the proxies have reported counts, and nothing else does, until an interceptor
// runs again. Only a cluster that never had one, or has none any more, is judged by the annotation.
func TestWeightsWithoutAnInterceptor(t *testing.T) {
	t.Parallel()
	earlier, exact := ackedReport("", 2), ackedReport(at20, 2)
	tests := map[string]struct {
		lease  func(*routertest.APIServer)
		report *httpv1alpha1.DataPlaneStatus
		want   bool
		cause  string // in the Event
	}{
		"crashed":                        {crash, earlier, false, "no interceptor renews its Lease"},
		"crashed, the proxies have it":   {crash, exact, true, ""},
		"crashed, nothing reported":      {crash, nil, false, "no interceptor has reported on it"},
		"crashed, no proxy was Ready":    {crash, ackedReport(at20, 0), false, "no proxy is Ready"},
		"shut down":                      {shutDown, earlier, false, "no interceptor renews its Lease"},
		"shut down, nothing reported":    {shutDown, nil, false, "run kubectl -n keda patch lease kedify-http-interceptor"},
		"no Lease":                       {noLease, earlier, false, "does not exist: start an interceptor"},
		"no Lease, the proxies have it":  {noLease, exact, true, ""},
		"no Lease, nothing reported":     {noLease, nil, true, ""},
		"no answer":                      {answer(leaseUnavailable), earlier, false, "cannot be read"},
		"no answer, the proxies have it": {answer(leaseUnavailable), exact, true, ""},
		"no answer, nothing reported":    {answer(leaseUnavailable), nil, false, "cannot be read"},
		"no permission":                  {answer(leaseForbidden), earlier, false, "to get leases"},
		"no permission, they have it":    {answer(leaseForbidden), exact, true, ""},
		"no permission, nothing":         {answer(leaseForbidden), nil, false, "verifyDataPlane: false"},
		"uninstalled":                    {uninstall, earlier, true, ""},
		"uninstalled, nothing reported":  {uninstall, nil, true, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewInMemory(t, reported(at20, test.report))
				test.lease(api)
				router, rollout := watching(t, api), weighing(20)
				verify := func() bool {
					t.Helper()
					verified, err := router.VerifyWeight(deadlined(t), rollout, 20, nil)
					if err != nil {
						t.Error(err)
					}
					return verified
				}
				for begin := time.Now(); time.Since(begin) < 5*time.Minute; pass(10 * time.Second) {
					if verified := verify(); verified != test.want {
						t.Fatalf("after %v: %v, want %v", time.Since(begin), verified, test.want)
					}
				}
				expectWaiting(t, api, test.cause)
				beat(t, api)
				api.Report("shop", "web", exact)
				pass(6 * time.Second)
				if !verify() {
					t.Error("the Rollout does not go on with an interceptor")
				}
			})
		})
	}
}

// answer returns a function that has the API server respond to reads of the Lease.
func answer(response http.HandlerFunc) func(*routertest.APIServer) {
	return func(api *routertest.APIServer) { api.PutOther(leasePath, response) }
}

// expectWaiting expects one Event with cause, or none for an empty cause.
func expectWaiting(t *testing.T, api *routertest.APIServer, cause string) {
	t.Helper()
	events := api.Events()
	if cause == "" {
		if len(events) > 0 {
			t.Errorf("events: %+v", events)
		}
		return
	}
	if len(events) != 1 || events[0].Reason != "WeightNotVerified" || events[0].Type != corev1.EventTypeWarning ||
		!strings.Contains(events[0].Message, cause) {
		t.Errorf("events: %+v; want one, WeightNotVerified, with %q", events, cause)
	}
}

// TestRestartedPluginStillWaits kills the plugin while no interceptor runs and the Lease is deleted.
func TestRestartedPluginStillWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewInMemory(t, reported(at20, ackedReport("", 1)))
		for range 3 {
			for range 3 {
				verified, err := watching(t, api).VerifyWeight(deadlined(t), weighing(20), 20, nil)
				if err != nil || verified {
					t.Errorf("VerifyWeight: %v, %v", verified, err)
				}
				pass(10 * time.Second)
			}
		}
	})
}

// TestFullWeightWaitsWithoutAnInterceptor: a report without Ready proxies may be outdated.
func TestFullWeightWaitsWithoutAnInterceptor(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]*httpv1alpha1.DataPlaneStatus{
		"no proxy was Ready": ackedReport(at100, 0), "a proxy was Ready": ackedReport(at20, 1), "nothing reported": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewInMemory(t, reported(at100, report))
				crash(api)
				router := watching(t, api)
				for range 30 {
					pass(10 * time.Second)
					if verified, err := router.VerifyWeight(deadlined(t), weighing(100), 100, nil); err != nil || verified {
						t.Fatalf("VerifyWeight: %v, %v", verified, err)
					}
				}
			})
		})
	}
}

// TestAbortDoesNotWaitForAnInterceptor: the weight is removed, and once the Rollout's status contains that, no call
// waits.
func TestAbortDoesNotWaitForAnInterceptor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewInMemory(t, reported(at20, ackedReport(at20, 2)))
		crash(api)
		ready(api, "web-stable", "10.0.0.1")
		router, rollout := watching(t, api), weighing(20)
		if verified, err := router.VerifyWeight(deadlined(t), rollout, 20, nil); err != nil || !verified {
			t.Errorf("VerifyWeight of what the proxies have: %v, %v", verified, err)
		}
		pass(time.Minute)
		begin := time.Now()
		rollout.Status.Abort = true
		if err := router.RemoveManagedRoutes(deadlined(t), rollout); err != nil || annotationOf(api, "web") != "" {
			t.Errorf("RemoveManagedRoutes: %v, annotation %q", err, annotationOf(api, "web"))
		}
		if err := router.SetWeight(deadlined(t), rollout, 0, nil); err != nil {
			t.Error(err)
		}
		verified, err := router.VerifyWeight(deadlined(t), weighing(0), 0, nil)
		if err != nil || !verified || time.Since(begin) > 0 {
			t.Errorf("VerifyWeight: %v, %v after %v", verified, err, time.Since(begin))
		}
	})
}
