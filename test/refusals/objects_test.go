package refusals_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/refusals"
)

// accepted returns the conditions of a valid object.
func accepted() []metav1.Condition {
	return []metav1.Condition{
		{
			Type: httpv1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: httpv1alpha1.ReasonAccepted,
			Message: "Accepted; all referenced Services were resolved.",
		},
		{
			Type: httpv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: httpv1alpha1.ReasonServing,
			Message: "The route is published to the proxies.",
		},
		{
			Type: httpv1alpha1.ConditionProgrammed, Status: metav1.ConditionTrue, Reason: httpv1alpha1.ReasonProgrammed,
			Message: "Every Ready proxy has acknowledged the object.",
		},
	}
}

// notAccepted returns the conditions of an invalid object. routed is the sentence about the requests.
func notAccepted(reason, message, routed string) []metav1.Condition {
	return []metav1.Condition{
		{Type: httpv1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: reason, Message: message},
		{
			Type: httpv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: httpv1alpha1.ReasonNotAccepted,
			Message: "See the condition Accepted. " + routed,
		},
		{
			Type: httpv1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse, Reason: httpv1alpha1.ReasonNotReady,
			Message: "See the condition Ready.",
		},
	}
}

// expectConditions waits until an object has these conditions, observed in its present generation.
func (s *environment) expectConditions(t *testing.T, namespace, name string, want []metav1.Condition) {
	t.Helper()
	var last string
	t.Cleanup(func() {
		if t.Failed() && last != "" {
			t.Logf("conditions of %s/%s (-want +got):\n%s", namespace, name, last)
		}
	})
	ignored := cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime", "ObservedGeneration")
	await.True(t, fmt.Sprintf("%s/%s is %s", namespace, name, want[0].Reason), func() bool {
		object := read[httpv1alpha1.HTTPScaledObject](t, s, objectPath(namespace, name))
		last = gocmp.Diff(want, object.Status.Conditions, ignored)
		return last == "" &&
			!slices.ContainsFunc(object.Status.Conditions,
				func(c metav1.Condition) bool { return c.ObservedGeneration != object.Generation })
	})
}

// expectEvent waits for the Event with the condition's message, and checks that there is exactly one since an instant.
// Earlier Events may exist because the interceptor may see an object before its Services.
func (s *environment) expectEvent(t *testing.T, since time.Time, namespace, name, kind, reason, note string) {
	t.Helper()
	want := eventsv1.Event{
		ReportingController: "kedify.io/http-interceptor", ReportingInstance: "interceptor-0", Action: "Route",
		Type: kind, Reason: reason, Note: note,
	}
	await.True(t, "the Event "+reason, func() bool {
		var events []eventsv1.Event
		for _, event := range read[eventsv1.EventList](t, s, "/apis/events.k8s.io/v1/namespaces/"+namespace+"/events").Items {
			isRegarding := event.Regarding.Kind == httpv1alpha1.Kind && event.Regarding.Name == name
			if isRegarding && event.Reason == reason && event.Note == note && !event.EventTime.Time.Before(since) {
				events = append(events, event)
			}
		}
		if len(events) == 0 {
			return false
		}
		ignored := cmpopts.IgnoreFields(eventsv1.Event{}, "TypeMeta", "ObjectMeta", "EventTime", "Regarding")
		if diff := gocmp.Diff([]eventsv1.Event{want}, events, ignored); diff != "" {
			t.Errorf("Events of %s/%s (-want +got):\n%s", namespace, name, diff)
		}
		return true
	})
}

// awaitActive waits until every proxy splits the requests for shop as an annotation requests.
func (s *environment) awaitActive(t *testing.T, namespace, annotation string) {
	t.Helper()
	await.True(t, "the valid split is active", func() bool {
		report := read[httpv1alpha1.HTTPScaledObject](t, s, objectPath(namespace, "shop")).Status.DataPlane
		return report != nil && report.AnnotationHash == split.Hash(annotation, "") && report.Effective
	})
}

// restore replaces the annotations and the spec of an HTTPScaledObject with those of its manifest.
func (s *environment) restore(t *testing.T, namespace, name, manifest string) {
	t.Helper()
	var object struct {
		Metadata struct{ Annotations any } `json:"metadata"`
		Spec     any                       `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
		t.Fatal(err)
	}
	operations, err := json.Marshal([]map[string]any{
		{"op": "add", "path": "/metadata/annotations", "value": object.Metadata.Annotations},
		{"op": "replace", "path": "/spec", "value": object.Spec},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.admin.Patch(types.JSONPatchType).AbsPath(objectPath(namespace,
		name)).Body(operations).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
}

// invalidate applies the error of a row.
func (s *environment) invalidate(t *testing.T, namespace string, row refusals.InvalidObject) {
	t.Helper()
	if row.Objects != "" {
		s.apply(t, namespace, row.Objects)
	}
	if row.Removed != "" {
		s.remove(t, "/api/v1/namespaces/"+namespace+"/"+row.Removed)
	}
	patch := map[string]any{}
	if err := yaml.Unmarshal([]byte(row.Patch), &patch); err != nil {
		t.Fatal(err)
	}
	switch row.Annotation {
	case "":
	case "-":
		annotate(patch, httpv1alpha1.AnnotationWeightedBackends, nil)
	default:
		annotate(patch, httpv1alpha1.AnnotationWeightedBackends, row.Annotation)
	}
	text, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	if !row.New {
		s.patch(t, objectPath(namespace, "shop"), string(text))
		return
	}
	s.remove(t, objectPath(namespace, "shop"))
	await.True(t, "the old object is not served",
		func() bool { return answers(t, hostName(namespace, "shop"), 1)["404"] == 1 })
	s.apply(t, namespace, merged(t, scaledObject("shop", hostName(namespace, "shop"), allToCanary), text))
}

// merged returns a manifest after a merge patch (RFC 7386).
func merged(t *testing.T, manifest string, patch []byte) string {
	t.Helper()
	var object, change map[string]any
	if err := cmp.Or(yaml.Unmarshal([]byte(manifest), &object), json.Unmarshal(patch, &change)); err != nil {
		t.Fatal(err)
	}
	mergeInto(object, change)
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// mergeInto applies a merge patch to object.
func mergeInto(object, change map[string]any) {
	for key, value := range change {
		changedMap, isChangedMap := value.(map[string]any)
		presentMap, isPresentMap := object[key].(map[string]any)
		switch {
		case value == nil:
			delete(object, key)
		case isChangedMap && isPresentMap:
			mergeInto(presentMap, changedMap)
		default:
			object[key] = value
		}
	}
}

// checkObject applies one validation error and then corrects it.
func (s *environment) checkObject(t *testing.T, namespace string, row refusals.InvalidObject) {
	t.Helper()
	host, isApp := hostName(namespace, "shop"), row.Answers == "stable" || row.Answers == "canary"
	before := cmp.Or(row.Before, allToCanary)
	good := scaledObject("shop", host, before)
	s.createNamespace(t, namespace)
	s.apply(t, namespace, good)
	s.awaitActive(t, namespace, before)
	stop := func() {}
	if isApp && !row.New {
		stop = startLoad(t, host)
	}
	defer func() { stop() }()

	began := time.Now()
	s.invalidate(t, namespace, row)

	message := strings.ReplaceAll(row.Message, `"shop"`, `"`+namespace+`"`)
	routed := "Requests are routed as last published."
	if row.Answers == "404" {
		routed = "No request is routed to the object."
	}
	s.expectConditions(t, namespace, "shop", notAccepted(row.Reason, message, routed))
	s.expectEvent(t, began, namespace, "shop", "Warning", row.Reason, message)
	expectAnswers(t, host, row.Answers)
	s.checkNeighbour(t, namespace)
	expectAnswers(t, host, row.Answers)

	if row.Removed != "" {
		s.apply(t, namespace, s.app("shop-canary"))
	}
	s.restore(t, namespace, "shop", good)
	s.expectConditions(t, namespace, "shop", accepted())
	s.expectEvent(t, began, namespace, "shop", "Normal", httpv1alpha1.ReasonAccepted, accepted()[0].Message)
	s.awaitActive(t, namespace, before)
	if before == allToCanary {
		expectAnswers(t, host, "canary")
	}
}

// annotate adds an annotation to those of a patch; nil removes it from the object.
func annotate(patch map[string]any, name string, value any) {
	metadata, _ := patch["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	merged := map[string]any{name: value}
	maps.Copy(merged, annotations)
	patch["metadata"] = map[string]any{"annotations": merged}
}
