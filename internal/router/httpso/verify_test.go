package httpso_test

import (
	"encoding/json"
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
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

const at100 = "- service: web-stable\n  weight: 0\n- service: web-canary\n  weight: 100\n"

func TestVerifyWeightChecksTheDataPlane(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text   string
		weight int32
		report *httpv1alpha1.DataPlaneStatus
		config string
		want   bool
	}{
		"every proxy ACKed it":             {text: at20, weight: 20, report: ackedReport(at20, 2), want: true},
		"every proxy ACKed the removal":    {text: "", weight: 0, report: ackedReport("", 2), want: true},
		"nothing is reported yet":          {text: at20, weight: 20},
		"the report is about another text": {text: at20, weight: 20, report: ackedReport(at100, 2)},
		"the report is about no text":      {text: at20, weight: 20, report: ackedReport("", 2)},
		"one proxy of two did not": {text: at20, weight: 20, report: &httpv1alpha1.DataPlaneStatus{
			AnnotationHash: split.Hash(at20, ""), Proxies: httpv1alpha1.ProxyCounts{Ready: 2, Acked: 1}, Effective: true,
		}},
		"a weight is redirected": {text: at20, weight: 20, report: &httpv1alpha1.DataPlaneStatus{
			AnnotationHash: split.Hash(at20, ""), Proxies: httpv1alpha1.ProxyCounts{Ready: 2, Acked: 2},
		}},
		"no proxy is Ready": {text: at20, weight: 20, report: ackedReport(at20, 0)},
		"no proxy is Ready, whatever else is reported": {text: at20, weight: 20, report: &httpv1alpha1.DataPlaneStatus{
			AnnotationHash: split.Hash(at20, ""), Effective: true,
		}},
		"they ACKed another weight": {text: at100, weight: 20, report: ackedReport(at100, 2)},
		"the Rollout opted out": {
			text: at20, weight: 20, want: true,
			config: `{"httpScaledObjectName":"web","verifyDataPlane":false}`,
		},
		"it opted out, the text is wrong": {
			text: at100, weight: 20,
			config: `{"httpScaledObjectName":"web","verifyDataPlane":false}`,
		},
	}
	for name, test := range tests {
		for _, watch := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", watched", false: ", read"}[watch], func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					api := routertest.NewInMemory(t, reported(test.text, test.report))
					beat(t, api)
					if !watch {
						api.Unlisted(routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no rule"))))
					}
					router := watching(t, api)
					given := test.config
					if given == "" {
						given = config
					}
					begin := time.Now()
					verified, err := router.VerifyWeight(deadlined(t), routertest.Rollout(httpso.Type, given), test.weight, nil)
					if err != nil || verified != test.want {
						t.Errorf("VerifyWeight: %v, %v; want %v", verified, err, test.want)
					}
					if took := time.Since(begin); took > 200*time.Millisecond || test.want && took > 0 {
						t.Errorf("it took %v", took)
					}
				})
			})
		}
	}
}

// TestVerifyWeightReadsTheAnnotation reads the report from an annotation, because the installed CRD has no field for
// it.
func TestVerifyWeightReadsTheAnnotation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		annotated, inStatus *httpv1alpha1.DataPlaneStatus
		of                  string
		want                bool
	}{
		"of this object":            {annotated: ackedReport(at20, 2), of: "uid-of-web", want: true},
		"of another text":           {annotated: ackedReport(at100, 2), of: "uid-of-web"},
		"of another object":         {annotated: ackedReport(at20, 2), of: "uid-of-copy"},
		"the status is newer":       {annotated: ackedReport(at100, 2), inStatus: ackedReport(at20, 2), of: "uid-of-web", want: true},
		"the status does not agree": {annotated: ackedReport(at20, 2), inStatus: ackedReport(at100, 2), of: "uid-of-web"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				object := reported(at20, test.inStatus)
				object.UID = "uid-of-web"
				text, err := json.Marshal(map[string]any{"uid": test.of, "dataPlane": test.annotated})
				if err != nil {
					t.Fatal(err)
				}
				object.Annotations[httpv1alpha1.AnnotationStatus] = string(text)
				api := routertest.NewInMemory(t, object)
				beat(t, api)
				verified, err := watching(t, api).VerifyWeight(deadlined(t), routertest.Rollout(httpso.Type, config), 20, nil)
				if err != nil || verified != test.want {
					t.Errorf("VerifyWeight: %v, %v; want %v", verified, err, test.want)
				}
			})
		})
	}
}

func TestVerifyWeightWaitsForTheReport(t *testing.T) {
	t.Parallel()
	forbidden := routertest.RespondError(apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no rule")))
	tests := map[string]struct {
		unlisted http.HandlerFunc
		after    time.Duration
		want     bool
		took     time.Duration
	}{
		"it comes in time":  {after: 120 * time.Millisecond, want: true, took: 120 * time.Millisecond},
		"it comes too late": {after: 300 * time.Millisecond, took: 200 * time.Millisecond},
		"it comes in time, no watch": {
			unlisted: forbidden, after: 120 * time.Millisecond, want: true,
			took: 150 * time.Millisecond,
		},
		"it comes too late, no watch": {unlisted: forbidden, after: 300 * time.Millisecond, took: 200 * time.Millisecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewInMemory(t, reported(at20, ackedReport("", 2)))
				api.Unlisted(test.unlisted)
				beat(t, api)
				router := watching(t, api)
				time.AfterFunc(test.after, func() { api.Report("shop", "web", ackedReport(at20, 2)) })
				begin := time.Now()
				verified, err := router.VerifyWeight(deadlined(t), routertest.Rollout(httpso.Type, config), 20, nil)
				if err != nil || verified != test.want || time.Since(begin) != test.took {
					t.Errorf("VerifyWeight: %v, %v after %v; want %v after %v", verified, err, time.Since(begin), test.want, test.took)
				}
				pass(test.after)
			})
		})
	}
}

func TestFullCanaryWeightWaitsForAProxyForALimitedTime(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text   string
		weight int32
		report *httpv1alpha1.DataPlaneStatus
		want   bool // after a minute
	}{
		"no Ready proxy":                 {at100, 100, ackedReport(at100, 0), true},
		"no report":                      {at100, 100, nil, false},
		"an earlier report":              {at100, 100, ackedReport(at20, 0), false},
		"a Ready proxy that stalls":      {at100, 100, ackedReport(at20, 1), false},
		"no Ready proxy, a lower weight": {at20, 20, ackedReport(at20, 0), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := routertest.NewInMemory(t, reported(test.text, test.report))
				beat(t, api)
				router, rollout, begin := watching(t, api), routertest.Rollout(httpso.Type, config), time.Now()
				for time.Since(begin) < 2*time.Minute {
					asked := time.Since(begin)
					verified, err := router.VerifyWeight(deadlined(t), rollout, test.weight, nil)
					if want := test.want && time.Since(begin) >= time.Minute; err != nil || verified != want {
						t.Fatalf("after %v: %v, %v; want %v", asked, verified, err, want)
					}
					pass(10 * time.Second)
				}
				events := api.Events()
				reason, text := "WeightNotVerified", "weights not verified for 1m1s: "
				if test.want {
					reason, text = "DataPlaneNotVerified", `"shop/web" has had no Ready proxy for 1m0s`
				}
				if len(events) != 1 {
					t.Fatalf("events: %v", events)
				}
				if event := events[0]; event.Type != corev1.EventTypeWarning || event.Reason != reason ||
					event.InvolvedObject.UID != rollout.UID ||
					event.InvolvedObject.Kind != "Rollout" || !strings.Contains(event.Message, text) {
					t.Errorf("event: %+v", event)
				}
			})
		})
	}
}

func TestFullCanaryWeightIsReadLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewInMemory(t, reported(at100, ackedReport(at100, 1)))
		beat(t, api)
		router := watching(t, api)
		if verified, err := router.VerifyWeight(deadlined(t), routertest.Rollout(httpso.Type, config), 100,
			nil); err != nil || !verified {
			t.Fatalf("VerifyWeight: %v, %v", verified, err)
		}
		if got := requests(api); got != 1 {
			t.Errorf("%d requests, want one read: the old Pods are scaled down after it", got)
		}
	})
}

func TestCachedDifferenceIsConfirmedLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := routertest.NewInMemory(t, reported("", nil))
		router := watching(t, api)
		api.HoldEvents()
		api.Put(reported(at20, nil)) // by another process of the controller
		if verified, err := router.VerifyWeight(deadlined(t), routertest.Rollout(httpso.Type, config), 20, nil); err != nil ||
			!verified {
			t.Errorf("VerifyWeight before the watch event: %v, %v; want true, false would cost 10 s", verified, err)
		}
	})
}

// pass lets time pass in a bubble.
func pass(duration time.Duration) { <-time.After(duration) }
