package status_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// noon is the time of the tests; later is another time.
func noon() time.Time  { return time.Date(2026, 1, 2, 12, 0, 0, 987654321, time.UTC) }
func later() time.Time { return noon().Add(time.Hour) }

// shop returns an HTTPScaledObject for a Rollout, in its third generation, without a status.
func shop() *httpv1alpha1.HTTPScaledObject {
	return &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "shop", UID: "u1", ResourceVersion: "7", Generation: 3},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts: []string{"shop.test"},
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{
				APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: "shop", Service: "shop-stable", Port: 80,
			},
		},
	}
}

func problem(reason, message string) model.Problem {
	return model.Problem{On: model.Key{Namespace: "apps", Name: "shop"}, Reason: reason, Message: message}
}

// condition is the part of a metav1.Condition that the tests compare.
type condition struct {
	status  metav1.ConditionStatus
	reason  string
	message string
	since   time.Time
}

func TestComputeConditions(t *testing.T) {
	const (
		fine  = "Accepted; all referenced Services were resolved."
		ready = "The route is published to the proxies."
	)
	atNoon := noon().Truncate(time.Second)
	tests := []struct {
		name            string
		seen            ingest.Outcome
		proxies         int32
		accepted, ready condition
	}{
		{
			name:     "valid",
			seen:     ingest.Outcome{Served: true},
			proxies:  1,
			accepted: condition{"True", "Accepted", fine, atNoon},
			ready:    condition{"True", "Serving", ready, atNoon},
		},
		{
			name:     "no proxy",
			seen:     ingest.Outcome{Served: true},
			accepted: condition{"True", "Accepted", fine, atNoon},
			ready: condition{
				"True", "Serving", "The route is published, but no proxy is Ready to serve it: Service kedify-proxy " +
					"of the namespace has no ready endpoint, or that of " +
					"the interceptor's namespace for an object with the annotation http.kedify.io/fleet: shared.",
				atNoon,
			},
		},
		{
			name: "invalid, with a last good route",
			seen: ingest.Outcome{Served: true, Problems: []model.Problem{
				problem(httpv1alpha1.ReasonInvalidWeightedBackends, "all weights are zero"),
				problem(httpv1alpha1.ReasonRouteConflict, "a.test is taken"),
			}},
			accepted: condition{"False", "InvalidWeightedBackends", "all weights are zero; a.test is taken", atNoon},
			ready: condition{
				"False", "NotAccepted",
				"See the condition Accepted. Requests are routed as last published.", atNoon,
			},
		},
		{
			name: "invalid from the start",
			seen: ingest.Outcome{Problems: []model.Problem{problem(httpv1alpha1.ReasonServiceNotFound,
				"no Service shop-stable")}},
			accepted: condition{"False", "ServiceNotFound", "no Service shop-stable", atNoon},
			ready: condition{
				"False", "NotAccepted",
				"See the condition Accepted. No request is routed to the object.", atNoon,
			},
		},
		{
			name:     "a failed publication is not a validation error",
			seen:     ingest.Outcome{Served: true, Failure: "cluster without a name"},
			accepted: condition{"True", "Accepted", fine, atNoon},
			ready: condition{
				"False", "PublishFailed",
				"The interceptor could not publish the route; this is a bug in the interceptor: cluster without a " +
					"name. Requests are routed as last published.", atNoon,
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := status.Compute(shop(), test.seen,
				status.Acks{Proxies: httpv1alpha1.ProxyCounts{Ready: test.proxies}}, "interceptor-0", noon())
			want := map[string]condition{"Accepted": test.accepted, "Ready": test.ready}
			if diff := cmp.Diff(want, conditions(t, got), cmp.AllowUnexported(condition{})); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestComputeProgrammed(t *testing.T) {
	fine := ingest.Outcome{Served: true}
	for _, test := range []struct {
		name         string
		seen         ingest.Outcome
		ready, acked int32
		refusal      string
		status       metav1.ConditionStatus
		reason       string
	}{
		{"every Ready proxy has it", fine, 2, 2, "", "True", "Programmed"},
		{"one of two has it", fine, 2, 1, "", "False", "NotAcknowledged"},
		{"no proxy is Ready", fine, 0, 0, "", "False", "NoReadyProxy"},
		{"a proxy rejected it", fine, 2, 1, "no", "False", "NotReady"},
		{
			"they have the last valid version",
			ingest.Outcome{Served: true, Problems: []model.Problem{problem("RouteConflict", "taken")}},
			2, 2, "",
			"False", "NotReady",
		},
		{
			"they have the last published version",
			ingest.Outcome{Served: true, Failure: "bug"},
			2, 2, "", "False",
			"NotReady",
		},
		{"it is not served", ingest.Outcome{}, 2, 2, "", "False", "NotReady"},
	} {
		taken := status.Acks{
			Proxies:   httpv1alpha1.ProxyCounts{Ready: test.ready, Acked: test.acked},
			Rejection: test.refusal,
		}
		got := meta.FindStatusCondition(status.Compute(shop(), test.seen, taken, "interceptor-0", noon()).Conditions,
			"Programmed")
		if got == nil || got.Status != test.status || got.Reason != test.reason || got.Message == "" ||
			got.ObservedGeneration != 3 {
			t.Errorf("%s: %+v, want %s because of %s", test.name, got, test.status, test.reason)
		}
	}
}

// TestComputeScalingMetric has an invalid spec.scalingMetric and its correction. Requests are routed in both cases.
func TestComputeScalingMetric(t *testing.T) {
	object := shop()
	look := func(now time.Time) *metav1.Condition {
		t.Helper()
		object.Status = status.Compute(object, ingest.Outcome{Served: true}, status.Acks{}, "interceptor-0", now)
		if !meta.IsStatusConditionTrue(object.Status.Conditions, "Ready") {
			t.Errorf("conditions %+v", object.Status.Conditions)
		}
		return meta.FindStatusCondition(object.Status.Conditions, "ScalingMetricAccepted")
	}
	if got := look(noon()); got != nil {
		t.Errorf("valid: %+v", got)
	}
	object.Spec.ScalingMetric = &httpv1alpha1.ScalingMetric{
		Concurrency: &httpv1alpha1.ConcurrencyMetric{TargetValue: -1},
	}
	const says = "spec.scalingMetric.concurrency.targetValue is -1; set it to 1 or more"
	got := look(noon())
	if got == nil || got.Status != "False" || got.Reason != "InvalidScalingMetric" ||
		!strings.Contains(got.Message, says) || got.ObservedGeneration != 3 {
		t.Errorf("%+v, want one with %q", got, says)
	}
	object.Spec.ScalingMetric.Concurrency.TargetValue = 1
	got = look(later())
	if got == nil || got.Status != "True" || !got.LastTransitionTime.Time.Equal(later().Truncate(time.Second)) {
		t.Errorf("after the correction: %+v", got)
	}
}

// TestComputeWaitingPage has an invalid ConfigMap, an unknown one, and its correction. Requests are routed in all
// cases.
func TestComputeWaitingPage(t *testing.T) {
	object := shop()
	look := func(page ingest.PageState, now time.Time) *metav1.Condition {
		t.Helper()
		object.Status = status.Compute(object, ingest.Outcome{Served: true, Page: page}, status.Acks{},
			"interceptor-0", now)
		if !meta.IsStatusConditionTrue(object.Status.Conditions, "Ready") {
			t.Errorf("conditions %+v", object.Status.Conditions)
		}
		return meta.FindStatusCondition(object.Status.Conditions, "WaitingPageAccepted")
	}
	missing := ingest.PageState{Reason: "WaitingPageNotFound", Message: "there is none"}
	unknown := missing
	unknown.IsUnknown = true
	if got := look(ingest.PageState{}, noon()); got != nil {
		t.Errorf("valid: %+v", got)
	}
	if got := look(unknown, noon()); got != nil {
		t.Errorf("unknown: %+v", got)
	}
	got := look(missing, noon())
	const says = "there is none. Until then the interceptor's own page is shown."
	if got == nil || got.Status != "False" || got.Reason != "WaitingPageNotFound" || got.Message != says {
		t.Errorf("%+v, want one with %q", got, says)
	}
	if got := look(ingest.PageState{IsUnknown: true}, later()); got.Status != "False" {
		t.Errorf("unknown again: %+v", got)
	}
	if got := look(ingest.PageState{}, later()); got.Status != "True" {
		t.Errorf("after the correction: %+v", got)
	}
}

// TestComputeEnvoySettings has an invalid ConfigMap and its correction. Requests are routed in both cases.
func TestComputeEnvoySettings(t *testing.T) {
	object := shop()
	look := func(problem string) *metav1.Condition {
		t.Helper()
		object.Status = status.Compute(object, ingest.Outcome{Served: true, EnvoySettings: problem}, status.Acks{},
			"interceptor-0", noon())
		if !meta.IsStatusConditionTrue(object.Status.Conditions, "Ready") {
			t.Errorf("conditions %+v", object.Status.Conditions)
		}
		return meta.FindStatusCondition(object.Status.Conditions, "EnvoySettingsAccepted")
	}
	if got := look(""); got != nil {
		t.Errorf("valid: %+v", got)
	}
	if got := look("a problem"); got == nil || got.Status != "False" || got.Reason != "InvalidEnvoySettings" ||
		got.Message != "a problem" {
		t.Errorf("%+v", got)
	}
	if got := look(""); got.Status != "True" || got.Reason != "EnvoySettingsAccepted" {
		t.Errorf("after the correction: %+v", got)
	}
}

func TestComputeNamesTheAnnotation(t *testing.T) {
	object := shop()
	for _, text := range []string{"", "{}"} {
		if text != "" {
			object.Annotations = map[string]string{httpv1alpha1.AnnotationStatus: text}
		}
		got := conditions(t, status.Compute(object, ingest.Outcome{Served: true}, status.Acks{}, "interceptor-0",
			noon()))["Ready"].message
		if isSaid := strings.Contains(got, "annotation http.kedify.io/status. To have them here, install "+
			"config/crd."); isSaid != (text != "") {
			t.Errorf("with the annotation %q condition Ready has %q", text, got)
		}
	}
}

// TestComputeReplacesForeignConditions has a condition in the format of older CRDs of the HTTP add-on.
func TestComputeReplacesForeignConditions(t *testing.T) {
	object := shop()
	object.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "HTTPScaledObjectIsReady"}}
	got := conditions(t, status.Compute(object, ingest.Outcome{Served: true}, status.Acks{}, "interceptor-0",
		noon()))["Ready"]
	if got.since != noon().Truncate(time.Second) {
		t.Errorf("condition Ready is %+v, want one with a time", got)
	}
}

// conditions returns the conditions Accepted and Ready of a status of shop by type.
func conditions(t *testing.T, of httpv1alpha1.HTTPScaledObjectStatus) map[string]condition {
	t.Helper()
	found := map[string]condition{}
	for _, c := range of.Conditions {
		if c.Type != httpv1alpha1.ConditionAccepted && c.Type != httpv1alpha1.ConditionReady {
			continue
		}
		if c.ObservedGeneration != 3 {
			t.Errorf("condition %s observed generation %d, want 3", c.Type, c.ObservedGeneration)
		}
		found[c.Type] = condition{c.Status, c.Reason, c.Message, c.LastTransitionTime.Time}
	}
	return found
}

func TestComputeTargets(t *testing.T) {
	tests := []struct {
		name              string
		ref               httpv1alpha1.ScaleTargetRef
		workload, service string
	}{
		{
			name: "a Rollout and a port number",
			ref: httpv1alpha1.ScaleTargetRef{
				APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout",
				Name: "rollouts-demo", Service: "rollouts-demo-stable", Port: 80,
			},
			workload: "argoproj.io/v1alpha1/Rollout/rollouts-demo", service: "rollouts-demo-stable:80",
		},
		{
			name:     "a name alone is a Deployment, and a port may have a name",
			ref:      httpv1alpha1.ScaleTargetRef{Name: "shop", Service: "shop", PortName: "web"},
			workload: "apps/v1/Deployment/shop", service: "shop:web",
		},
		{
			name:    "no workload",
			ref:     httpv1alpha1.ScaleTargetRef{Service: "shop", Port: 8080},
			service: "shop:8080",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			object := shop()
			object.Spec.ScaleTargetRef = test.ref
			got := status.Compute(object, ingest.Outcome{Served: true}, status.Acks{}, "interceptor-0", noon())
			if got.TargetWorkload != test.workload || got.TargetService != test.service {
				t.Errorf("targets %q and %q, want %q and %q", got.TargetWorkload, got.TargetService, test.workload,
					test.service)
			}
		})
	}
}

func TestComputeIsStable(t *testing.T) {
	foreign := metav1.Condition{
		Type: "Audited", Status: "True", Reason: "ByHand",
		LastTransitionTime: metav1.NewTime(noon().Truncate(time.Second)),
	}
	object := shop()
	object.Status.Conditions = []metav1.Condition{foreign}
	object.Status = status.Compute(object, ingest.Outcome{Served: true}, status.Acks{}, "interceptor-0", noon())
	before := object.DeepCopy()

	again := status.Compute(object, ingest.Outcome{Served: true}, status.Acks{}, "interceptor-0", later())
	if diff := cmp.Diff(before.Status, again); diff != "" {
		t.Errorf("nothing happened, but the status changed (-before +after):\n%s", diff)
	}
	broken := status.Compute(object, ingest.Outcome{
		Served:   true,
		Problems: []model.Problem{problem("RouteConflict", "taken")},
	}, status.Acks{}, "interceptor-0", later())
	got := conditions(t, status.Compute(&httpv1alpha1.HTTPScaledObject{
		ObjectMeta: object.ObjectMeta, Spec: object.Spec,
		Status: broken,
	},
		ingest.Outcome{Served: true, Problems: []model.Problem{problem("ServiceNotFound",
			"gone")}}, status.Acks{}, "interceptor-0", later().Add(time.Hour)))["Accepted"]
	if want := (condition{"False", "ServiceNotFound", "gone", later().Truncate(time.Second)}); got != want {
		t.Errorf("another reason for the same status gives %v, want %v: the transition was earlier", got, want)
	}
	if diff := cmp.Diff(before, object); diff != "" {
		t.Errorf("Compute changed its input (-before +after):\n%s", diff)
	}
}

func TestComputeTruncatesMessages(t *testing.T) {
	long := ingest.Outcome{Problems: []model.Problem{problem("InvalidHosts", strings.Repeat("ä", 100_000))}}
	message := conditions(t, status.Compute(shop(), long, status.Acks{}, "interceptor-0", noon()))["Accepted"].message
	if len(message) > 4096 || !utf8.ValidString(message) || !strings.HasSuffix(message, "ä…") {
		t.Errorf("a message of %d bytes, valid UTF-8: %v, ends in %q", len(message), utf8.ValidString(message),
			message[len(message)-8:])
	}
}
