package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/samples"
)

// TestSamples applies each public sample of Kedify, and checks the statements of its row in
// docs/reference/kedify-samples.md.
func TestSamples(t *testing.T) {
	t.Parallel()
	for _, sample := range samples.All() {
		if sample.File == "" {
			continue
		}
		t.Run(sample.File, func(t *testing.T) {
			t.Parallel()
			team := namespace(t, "sample-"+strings.TrimSuffix(sample.File, ".yaml"))
			applyFiles(t, team, "../samples/testdata/"+sample.File)
			for _, object := range sample.Objects {
				checkSampleObject(t, team, object)
			}
			slice(t, team)
			for _, object := range sample.Objects {
				followFallback(t, team, object)
			}
			for _, object := range sample.Objects { // a backend of several objects waits for all of them
				acknowledged(t, team, object.Name, "")
			}
			for _, object := range sample.Objects {
				awaitSampleWiring(t, team, object)
			}
			for path, want := range sample.Backends {
				checkSampleBackends(t, team, path, want)
			}
		})
	}
}

// checkSampleObject waits for the HTTPScaledObject of a sample, and checks it and the warnings about its trigger.
func checkSampleObject(t *testing.T, namespace string, want samples.Object) {
	t.Helper()
	isMade := func(object *httpv1alpha1.HTTPScaledObject) bool {
		return want.ScaledObject == "" ||
			meta.IsStatusConditionTrue(object.Status.Conditions, httpv1alpha1.ConditionTriggerAccepted)
	}
	object := awaitObject(t, namespace, want.Name, "made", isMade)
	var spec httpv1alpha1.HTTPScaledObjectSpec
	if err := yaml.UnmarshalStrict([]byte(want.Spec), &spec); err != nil {
		t.Fatal(err)
	}
	target := object.Spec.ScaleTargetRef
	target.APIVersion, target.Kind, target.Name = "", "", ""
	routing := httpv1alpha1.HTTPScaledObjectSpec{
		Hosts: object.Spec.Hosts, PathPrefixes: object.Spec.PathPrefixes, Headers: object.Spec.Headers, ScaleTargetRef: target,
	}
	if diff := cmp.Diff(spec, routing); diff != "" {
		t.Errorf("HTTPScaledObject %s (-want +got):\n%s", want.Name, diff)
	}
	for name, value := range want.Annotations {
		if object.Annotations[name] != value {
			t.Errorf("HTTPScaledObject %s: annotation %s is %q, want %q", want.Name, name, object.Annotations[name], value)
		}
	}
	if want.ScaledObject == "" {
		if _, isManaged := object.Labels[httpv1alpha1.LabelManagedBy]; isManaged {
			t.Errorf("the agent manages HTTPScaledObject %s", want.Name)
		}
		return
	}
	checkSampleProblems(t, namespace, object, want)
}

// checkSampleProblems checks condition TriggerAccepted, and waits for an Event for each problem.
func checkSampleProblems(t *testing.T, namespace string, object *httpv1alpha1.HTTPScaledObject, want samples.Object) {
	t.Helper()
	accepted := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionTriggerAccepted)
	if len(want.Problems) == 0 {
		if accepted.Reason != httpv1alpha1.ReasonTriggerAccepted {
			t.Errorf("HTTPScaledObject %s: %+v", want.Name, accepted)
		}
		return
	}
	var messages []string
	for _, problem := range want.Problems {
		messages = append(messages, "spec.triggers[0].metadata."+problem)
	}
	if text := strings.Join(messages, "; "); accepted.Reason != httpv1alpha1.ReasonKeyIgnored || accepted.Message != text {
		t.Errorf("HTTPScaledObject %s: %+v, want the message %s", want.Name, accepted, text)
	}
	for _, message := range messages {
		await.True(t, "a warning about "+message, func() bool {
			var list corev1.EventList
			get(t, "/api/v1/namespaces/"+namespace+"/events", &list)
			return slices.ContainsFunc(list.Items, func(event corev1.Event) bool {
				return event.Type == corev1.EventTypeWarning && event.Reason == httpv1alpha1.ReasonKeyIgnored &&
					event.Message == message && event.InvolvedObject.Kind == "ScaledObject" &&
					event.InvolvedObject.Name == want.ScaledObject
			})
		})
	}
}

// followFallback gives the fallback Service of an HTTPScaledObject an EndpointSlice, and waits until the object forwards
// to it.
func followFallback(t *testing.T, namespace string, want samples.Object) {
	t.Helper()
	fallback := want.Annotations[httpv1alpha1.AnnotationFallbackService]
	if fallback == "" {
		return
	}
	endpointsOf(t, namespace, fallback, application)
	awaitObject(t, namespace, want.Name, "forwards to "+fallback, func(object *httpv1alpha1.HTTPScaledObject) bool {
		return object.Spec.ScaleTargetRef.Service == fallback
	})
}

// awaitSampleWiring acknowledges the settings of an HTTPScaledObject as the interceptor does, and waits for the reason of
// condition Autowired.
func awaitSampleWiring(t *testing.T, namespace string, want samples.Object) {
	t.Helper()
	if want.Wiring == "" {
		return
	}
	settings := ""
	object := awaitObject(t, namespace, want.Name, "Autowired because "+want.Wiring, func(object *httpv1alpha1.HTTPScaledObject) bool {
		if text := object.Annotations[httpv1alpha1.AnnotationAutowireSettings]; text != settings {
			settings = text
			acknowledged(t, namespace, want.Name, text)
		}
		found := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired)
		return found != nil && found.Reason == want.Wiring
	})
	message := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired).Message
	if strings.Contains(message, "requests that match no trigger get status 404") != want.IsPartial {
		t.Errorf("HTTPScaledObject %s: condition Autowired says %q", want.Name, message)
	}
}

// checkSampleBackends waits until an Ingress, an HTTPRoute or a VirtualService has backends.
func checkSampleBackends(t *testing.T, namespace, path, want string) {
	t.Helper()
	slash := strings.LastIndexByte(path, '/')
	version := strings.LastIndexByte(path[:slash], '/')
	full := fmt.Sprintf("/apis/%s/namespaces/%s/%s", path[:version], namespace, path[version+1:])
	await.True(t, full+" has the backends "+want, func() bool {
		var found web
		return get(t, full, &found) && (found.backends() == want || destinations(found) == want)
	})
}

// destinations returns the hosts and ports of the destinations in a VirtualService.
func destinations(service web) string {
	var found []string
	for _, rule := range all(service["spec"], "http") {
		for _, route := range all(rule, "route") {
			destination, _ := route["destination"].(map[string]any)
			port, _ := destination["port"].(map[string]any)
			found = append(found, fmt.Sprintf("%v:%v", destination["host"], port["number"]))
		}
	}
	return strings.Join(found, " ")
}
