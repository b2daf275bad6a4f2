package agent_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// scaled is what tests read of a ScaledObject.
type scaled struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct{ Triggers []map[string]any } `json:"spec"`
}

// shop is a ScaledObject of a Deployment with a trigger's metadata.
func shop(metadata string) string {
	return `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: shop},
		spec: {scaleTargetRef: {name: shop}, triggers: [{type: kedify-http, metadata: ` + metadata + `}]}}`
}

const simple = `{hosts: shop.test, port: "80", service: shop}`

// TestWaitForKEDA starts the agent before KEDA is installed, and checks its readiness message.
func TestWaitForKEDA(t *testing.T) {
	t.Parallel()
	if want := "kind ScaledObject: install KEDA"; !strings.Contains(shared.waited, want) {
		t.Errorf("the agent waited for %q, want something with %q", shared.waited, want)
	}
}

// TestGuide applies the guide's manifests unchanged. The ScaledObject has no Service; the Rollout has.
func TestGuide(t *testing.T) {
	t.Parallel()
	team := namespace(t, "guide")
	applyFiles(t, team, example+"scaledobject.yaml") // before the Rollout that names the Service
	await.True(t, "the missing Rollout is named", func() bool {
		return strings.Contains(problemsOf(t, team, "rollouts-demo"),
			`Rollout "rollouts-demo", which defines the Service, does not exist`)
	})
	applyFiles(t, team, example+"manifests.yaml")
	found := awaitObject(t, team, "rollouts-demo", "made", there)

	var want httpv1alpha1.HTTPScaledObjectSpec
	if err := yaml.UnmarshalStrict([]byte(`
hosts: [rollouts-demo.example.com]
pathPrefixes: [/]
scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: rollouts-demo, service: rollouts-demo-stable, port: 80}
replicas: {min: 2, max: 10}
scalingMetric: {requestRate: {targetValue: 5, window: 1m, granularity: 1s}}
`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, found.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	annotations := map[string]string{
		"http.kedify.io/traffic-autowire": "ingress", "httpscaledobject.keda.sh/skip-scaledobject-creation": "true",
	}
	if diff := cmp.Diff(annotations, found.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	var owner scaled
	get(t, scaledObject(team, "rollouts-demo"), &owner)
	owners := []metav1.OwnerReference{
		{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: "rollouts-demo", UID: owner.UID, Controller: new(true)},
	}
	if diff := cmp.Diff(owners, found.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	awaitObject(t, team, "rollouts-demo", "conditions", func(object *httpv1alpha1.HTTPScaledObject) bool {
		return meta.IsStatusConditionTrue(object.Status.Conditions, httpv1alpha1.ConditionTriggerAccepted)
	})
	awaitWiring(t, team, "rollouts-demo", httpv1alpha1.ReasonProxyUnavailable)
	await.True(t, "nothing is wrong any more", func() bool { return problemsOf(t, team, "rollouts-demo") == "" })

	// The plugin's weights stay, even when the Rollout and the trigger change.
	patch(t, httpScaledObject(team, "rollouts-demo"),
		`{"metadata": {"annotations": {"http.kedify.io/weighted-backends": "weights"}}}`)
	patch(t, "/apis/argoproj.io/v1alpha1/namespaces/"+team+"/rollouts/rollouts-demo",
		`{"spec": {"strategy": {"canary": {"stableService": "renamed"}}}}`)
	found = awaitObject(t, team, "rollouts-demo", "the new stable Service",
		func(object *httpv1alpha1.HTTPScaledObject) bool {
			return object.Spec.ScaleTargetRef.Service == "renamed"
		})
	if found.Annotations["http.kedify.io/weighted-backends"] != "weights" {
		t.Errorf("the weights are gone: %v", found.Annotations)
	}
}

// TestRevertUserChanges deletes and edits the HTTPScaledObject manually.
func TestRevertUserChanges(t *testing.T) {
	t.Parallel()
	team := namespace(t, "edits")
	apply(t, team, shop(simple))
	before := awaitObject(t, team, "shop", "its conditions", func(object *httpv1alpha1.HTTPScaledObject) bool {
		return len(object.Status.Conditions) > 0
	})

	// Only the watch can bring it back: no earlier event is left, and the agent's cache resyncs every 10 hours.
	awaitHandled(t, "edits-last")
	remove(t, httpScaledObject(team, "shop"))
	after := awaitObject(t, team, "shop", "made again",
		func(object *httpv1alpha1.HTTPScaledObject) bool { return object.UID != before.UID })
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("spec (-before +after):\n%s", diff)
	}

	patch(t, httpScaledObject(team, "shop"),
		`{"metadata": {"annotations": {"team": "a"}}, "spec": {"hosts": ["mine.test"], "timeouts": {"conditionWait": "9s"}}}`)
	found := awaitObject(t, team, "shop", "the trigger's host again", func(object *httpv1alpha1.HTTPScaledObject) bool {
		return slices.Equal(object.Spec.Hosts, []string{"shop.test"})
	})
	if found.Annotations["team"] != "a" || found.Spec.Timeouts == nil {
		t.Errorf("what the user added is gone: %v, %v", found.Annotations, found.Spec.Timeouts)
	}
}

// awaitHandled waits until the agent has received every earlier event of HTTPScaledObjects: in a namespace of its own,
// it waits until the agent reverts an edit, whose event comes after them in the same watch.
func awaitHandled(t *testing.T, name string) {
	t.Helper()
	team := namespace(t, name)
	apply(t, team, shop(simple))
	awaitObject(t, team, "shop", "made", there)
	patch(t, httpScaledObject(team, "shop"), `{"spec": {"hosts": ["mine.test"]}}`)
	awaitObject(t, team, "shop", "the trigger's host again", func(object *httpv1alpha1.HTTPScaledObject) bool {
		return slices.Equal(object.Spec.Hosts, []string{"shop.test"})
	})
}

// TestRemoveUserAdditions adds values that the trigger lacks to fields that the agent owns. A server-side apply
// keeps such additions.
func TestRemoveUserAdditions(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"paths":           `{"spec": {"pathPrefixes": ["/mine"]}}`,
		"headers":         `{"spec": {"headers": [{"name": "X-Mine"}]}}`,
		"a port's name":   `{"spec": {"scaleTargetRef": {"port": null, "portName": "mine"}}}`,
		"another measure": `{"spec": {"scalingMetric": {"requestRate": null, "concurrency": {"targetValue": 7}}}}`,
		"both measures":   `{"spec": {"scalingMetric": {"concurrency": {"targetValue": 7}}}}`,
		"a key's own":     `{"metadata": {"annotations": {"http.kedify.io/healthcheck-path": "/mine"}}}`,
		"everything":      `{"spec": {"hosts": ["mine.test"], "pathPrefixes": ["/mine"], "scaleTargetRef": {"port": null, "portName": "mine"}, "replicas": {"max": 7}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			team := namespaceOf(t, "adds", name)
			apply(t, team, shop(simple))
			before := awaitObject(t, team, "shop", "its conditions", func(object *httpv1alpha1.HTTPScaledObject) bool {
				return len(object.Status.Conditions) > 0
			})
			patch(t, httpScaledObject(team, "shop"),
				`{"metadata": {"annotations": {"team": "a"}}, "spec": {"scaledownPeriod": 7}}`)
			patch(t, httpScaledObject(team, "shop"), body)
			after := awaitObject(t, team, "shop", "restored, except the user's fields",
				func(object *httpv1alpha1.HTTPScaledObject) bool {
					want := before.DeepCopy()
					want.Spec.ScaledownPeriod, want.Annotations["team"] = new(int32(7)), "a"
					return object.Generation > before.Generation && cmp.Equal(want.Spec, object.Spec) && cmp.Equal(want.Annotations,
						object.Annotations)
				})
			// Changes of the trigger still apply, regardless of the previous field manager.
			apply(t, team, shop(`{hosts: shop.test, portName: web, service: shop, scalingMetric: concurrency}`))
			awaitObject(t, team, "shop", "the port's name", func(object *httpv1alpha1.HTTPScaledObject) bool {
				metric := object.Spec.ScalingMetric
				return object.UID == after.UID && object.Spec.ScaleTargetRef.Port == 0 &&
					object.Spec.ScaleTargetRef.PortName == "web" &&
					metric.RequestRate == nil && metric.Concurrency != nil
			})
		})
	}
}

// TestAddAndRemoveTriggers changes a ScaledObject from one trigger to several and back, and deletes it.
func TestAddAndRemoveTriggers(t *testing.T) {
	t.Parallel()
	team := namespace(t, "triggers")
	two := `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: shop}, spec: {scaleTargetRef: {name: shop}, triggers: [
		{type: cpu, metricType: Utilization, metadata: {value: "50"}},
		{type: kedify-http, metadata: {hosts: a.test, port: "80", service: shop, tlsSecretName: tls}},
		{type: kedify-http, name: api, metadata: {hosts: b.test, portName: http, service: shop}}]}}`
	apply(t, team, two)
	first := awaitObject(t, team, "shop", "made", there)
	second := awaitObject(t, team, "shop-api", "made", there)
	if first.Annotations["http.kedify.io/tls-secret-name"] != "tls" || second.Spec.ScaleTargetRef.PortName != "http" {
		t.Errorf("objects: %+v and %+v", first, second)
	}

	apply(t, team, strings.Replace(two, "portName: http", `port: "81"`, 1))
	found := awaitObject(t, team, "shop-api", "its new port",
		func(object *httpv1alpha1.HTTPScaledObject) bool { return object.Spec.ScaleTargetRef.Port == 81 })
	if found.Spec.ScaleTargetRef.PortName != "" {
		t.Errorf("the port's name is still %q", found.Spec.ScaleTargetRef.PortName)
	}

	apply(t, team, shop(simple))
	awaitGone(t, team, "shop-api")
	if same := awaitObject(t, team, "shop", "still there", there); same.UID != first.UID {
		t.Error("the first trigger's object was created again")
	}

	remove(t, scaledObject(team, "shop"))
	awaitGone(t, team, "shop")
}

// TestNameTaken has a user's HTTPScaledObject with the name of a trigger's.
func TestNameTaken(t *testing.T) {
	t.Parallel()
	team := namespace(t, "taken")
	mine := `{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: shop}, spec: {hosts: [mine.test], scaleTargetRef: {service: mine, port: 80}}}`
	apply(t, team, mine, shop(simple))
	const says = `HTTPScaledObject "shop" already exists and belongs to another owner; delete it, or set a different httpScaledObject in the trigger's metadata`
	awaitEvent(t, team, httpv1alpha1.ReasonNameInUse, says)
	found := awaitObject(t, team, "shop", "there", there)
	if len(found.OwnerReferences) > 0 || found.Spec.ScaleTargetRef.Service != "mine" {
		t.Errorf("it was taken over: %+v", found)
	}
	if got := problemsOf(t, team, "shop"); got != says {
		t.Errorf("annotation %q, want %q", got, says)
	}
	remove(t, httpScaledObject(team, "shop"))
	awaitObject(t, team, "shop", "made once the name is free", func(object *httpv1alpha1.HTTPScaledObject) bool {
		return object.Spec.ScaleTargetRef.Service == "shop"
	})
	await.True(t, "nothing is wrong any more", func() bool { return problemsOf(t, team, "shop") == "" })
}

// TestReportProblems has validation errors in the metadata, before and after the object exists.
func TestReportProblems(t *testing.T) {
	t.Parallel()
	team := namespace(t, "problems")
	const says = `spec.triggers[0].metadata.port "0": use a whole number from 1 to 65535, or portName for a name`
	apply(t, team, shop(`{hosts: shop.test, port: "0", service: shop}`))
	awaitEvent(t, team, httpv1alpha1.ReasonInvalidTrigger, says)
	if get(t, httpScaledObject(team, "shop"), new(httpv1alpha1.HTTPScaledObject)) {
		t.Error("an object was made all the same")
	}
	apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, pathPrefix: /a}`))
	found := awaitObject(t, team, "shop", "made without the unknown key",
		func(object *httpv1alpha1.HTTPScaledObject) bool {
			return meta.IsStatusConditionTrue(object.Status.Conditions, httpv1alpha1.ConditionTriggerAccepted)
		})
	accepted := meta.FindStatusCondition(found.Status.Conditions, httpv1alpha1.ConditionTriggerAccepted)
	if want := "did you mean pathPrefixes?"; accepted.Reason != httpv1alpha1.ReasonKeyIgnored ||
		!strings.HasSuffix(accepted.Message, want) {
		t.Errorf("condition %+v, want one that ends with %q", accepted, want)
	}
	apply(t, team, shop(`{hosts: other.test, port: "0", service: shop, targetValue: "7"}`))
	found = awaitObject(t, team, "shop", "the problem is reported", func(object *httpv1alpha1.HTTPScaledObject) bool {
		return meta.IsStatusConditionFalse(object.Status.Conditions, httpv1alpha1.ConditionTriggerAccepted)
	})
	if accepted := meta.FindStatusCondition(found.Status.Conditions,
		httpv1alpha1.ConditionTriggerAccepted); accepted.Message != says {
		t.Errorf("condition %+v, want %q", accepted, says)
	}
	if spec := found.Spec; spec.ScaleTargetRef.Port != 80 || !slices.Equal(spec.Hosts, []string{"other.test"}) ||
		spec.ScalingMetric.RequestRate.TargetValue != 7 {
		t.Errorf("the object lacks the port that it had, or the new valid values: %+v", spec)
	}
}

// TestPartlyInvalidTriggers has new triggers with values that are invalid, but clear, and without hosts. There is an
// object, so that the application is scaled.
func TestPartlyInvalidTriggers(t *testing.T) {
	t.Parallel()
	const own = ", an existing one keeps its own"
	for name, c := range map[string]struct{ metadata, warning string }{
		"a name in port": {
			`{hosts: shop.test, port: http, service: shop}`,
			`port "http": not a number from 1 to 65535: use portName for a name; a new object gets portName http` + own,
		},
		"a number in port name": {
			`{hosts: shop.test, portName: "80", service: shop}`,
			`portName "80": not a name: use port for a number; a new object gets port 80` + own,
		},
		"both ports": {
			`{hosts: shop.test, port: "80", portName: http, service: shop}`,
			`portName "http": set exactly one of port and portName; a new object gets port 80` + own,
		},
		"a field of a header": {
			`{hosts: shop.test, port: "80", service: shop, headers: "[{name: X-A, value: b, regex: c}]"}`,
			`headers "[{name: X-A, value: b, regex: c}]": [0]: unknown field "regex": use name, and one of value, ` +
				`valueWildcard and valueRegex; ignored, the other elements apply`,
		},
		"no hosts": {
			`{port: "80", service: shop}`,
			`hosts: missing: a new object gets all hosts of the namespace` + own +
				`; name them, such as shop.example.com, or "*" for all`,
		},
		"misspelled hosts": {
			`{host: shop.test, port: "80", service: shop}`, `host "shop.test": unknown key, ignored; did you mean hosts?`,
		},
	} {
		team := namespaceOf(t, "partly", name)
		apply(t, team, shop(c.metadata))
		found := awaitObject(t, team, "shop", "made", func(object *httpv1alpha1.HTTPScaledObject) bool {
			return meta.IsStatusConditionTrue(object.Status.Conditions, httpv1alpha1.ConditionTriggerAccepted)
		})
		accepted := meta.FindStatusCondition(found.Status.Conditions, httpv1alpha1.ConditionTriggerAccepted)
		if accepted.Reason != httpv1alpha1.ReasonKeyIgnored {
			t.Errorf("%s: condition %+v", name, accepted)
		}
		awaitEvent(t, team, httpv1alpha1.ReasonKeyIgnored, "spec.triggers[0].metadata."+c.warning)
	}
}

// TestLiveObjectKeepsItsValues edits the trigger of an object so that its values are missing, ambiguous or misspelled.
// The object keeps them, and the valid edit applies.
func TestLiveObjectKeepsItsValues(t *testing.T) {
	t.Parallel()
	const headers = `headers: "[{name: X-A, value: b}]"`
	for name, metadata := range map[string]string{
		"no hosts":              `{port: "80", service: shop, ` + headers,
		"a typo in port":        `{hosts: shop.test, port: 80a, service: shop, ` + headers,
		"a name in port":        `{hosts: shop.test, port: http, service: shop, ` + headers,
		"a port name":           `{hosts: shop.test, portName: "8080", service: shop, ` + headers,
		"a typo in service":     `{hosts: shop.test, port: "80", service: shop_, ` + headers,
		"a typo in a header":    `{hosts: shop.test, port: "80", service: shop, headers: "[{name: X-A, val: b}]"`,
		"headers in a comment":  `{hosts: shop.test, port: "80", service: shop, headers: "# [{name: X-A}]"`,
		"a misspelled header":   `{hosts: shop.test, port: "80", service: shop, header: "[{name: X-A, value: b}]"`,
		"several at once":       `{host: shop.test, port: http, service: "", headers: "X-A: b"`,
		"a list for two values": `{hosts: " ", port: "80", portName: http, service: "a,b", ` + headers,
	} {
		team := namespaceOf(t, "live", name)
		apply(t, team, shop(`{hosts: shop.test, port: "80", service: shop, `+headers+`}`))
		before := awaitObject(t, team, "shop", "made", there)
		apply(t, team, shop(metadata+`, targetValue: "7"}`))
		after := awaitObject(t, team, "shop", "the target value", func(object *httpv1alpha1.HTTPScaledObject) bool {
			return object.Spec.ScalingMetric.RequestRate.TargetValue == 7
		})
		before.Spec.ScalingMetric.RequestRate.TargetValue = 7
		if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
			t.Errorf("%s: spec (-want +got):\n%s", name, diff)
		}
	}
}

// TestManualExternalPush has a trigger of type external-push with the scaler's address, which needs no webhook and
// no conversion.
func TestManualExternalPush(t *testing.T) {
	t.Parallel()
	team := namespace(t, "by-hand")
	apply(t, team, strings.Replace(shop(`{hosts: shop.test, port: "80", service: shop, scalerAddress: "keda-add-ons-http-external-scaler.keda.svc:9090"}`),
		"kedify-http", "external-push", 1))
	awaitObject(t, team, "shop", "made", there)
	var found scaled
	get(t, scaledObject(team, "shop"), &found)
	if len(found.Annotations) > 0 || len(found.ManagedFields) != 1 || found.ManagedFields[0].Manager != "test" {
		t.Errorf("the ScaledObject was written to: %+v", found.ObjectMeta)
	}
}

// problemsOf returns the validation errors that the agent reports on a ScaledObject.
func problemsOf(t *testing.T, namespace, name string) string {
	t.Helper()
	var found scaled
	get(t, scaledObject(namespace, name), &found)
	return found.Annotations[httpv1alpha1.AnnotationTriggerProblems]
}

// awaitEvent waits for a Warning on the ScaledObject shop.
func awaitEvent(t *testing.T, namespace, reason, message string) {
	t.Helper()
	await.True(t, "a warning "+reason, func() bool {
		var list corev1.EventList
		get(t, "/api/v1/namespaces/"+namespace+"/events", &list)
		return slices.ContainsFunc(list.Items, func(event corev1.Event) bool {
			return event.Type == corev1.EventTypeWarning && event.Reason == reason && event.Message == message &&
				event.InvolvedObject.Kind == "ScaledObject" && event.InvolvedObject.Name == "shop" &&
				event.InvolvedObject.UID != types.UID("")
		})
	})
}
