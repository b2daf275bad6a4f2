package events_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/kube/events"
)

func event() events.Event {
	return events.Event{
		Object: corev1.ObjectReference{Kind: "Rollout", Namespace: "shop", Name: "web", UID: "1"},
		Type:   corev1.EventTypeWarning, Reason: "Odd", Note: "it is odd", Controller: "kedify.io/test",
		Action: "Route", Instance: "pod-1", Since: time.Unix(1e9, 0),
	}
}

// TestNamesIdentifyOccurrences expects one name for one occurrence, whichever replica reports it.
func TestNamesIdentifyOccurrences(t *testing.T) {
	t.Parallel()
	first := event().V1()
	if first.Namespace != "shop" || !strings.HasPrefix(first.Name, "web.") {
		t.Errorf("the Event is %s/%s", first.Namespace, first.Name)
	}
	for name, test := range map[string]struct {
		change   func(*events.Event)
		wantSame bool
	}{
		"another replica": {func(e *events.Event) { e.Instance = "pod-2" }, true},
		"another object":  {func(e *events.Event) { e.Object.UID = "2" }, false},
		"another time":    {func(e *events.Event) { e.Since = e.Since.Add(time.Second) }, false},
		"another reason":  {func(e *events.Event) { e.Reason = "Even" }, false},
		"another note":    {func(e *events.Event) { e.Note = "it is even" }, false},
	} {
		e := event()
		test.change(&e)
		if got := e.V1().Name == first.Name; got != test.wantSame {
			t.Errorf("%s: the same name: %v, want %v", name, got, test.wantSame)
		}
	}
}

func TestTextsAreCutToTheLimitsOfTheAPI(t *testing.T) {
	t.Parallel()
	e := event()
	e.Note, e.Instance, e.Object.Name = strings.Repeat("n", 2000), strings.Repeat("i", 200), strings.Repeat("o", 250)
	got := e.V1()
	if len(got.Note) != 1024 || len(got.ReportingInstance) != 128 || len(got.Name) > 253 {
		t.Errorf("note of %d bytes, instance of %d, name of %d", len(got.Note), len(got.ReportingInstance),
			len(got.Name))
	}
}

func TestCoreForm(t *testing.T) {
	t.Parallel()
	got := event().Core()
	if got.Name != "" || got.GenerateName != "web-" || got.Namespace != "shop" || got.InvolvedObject.Name != "web" {
		t.Errorf("the Event is %s/%s%s about %s", got.Namespace, got.Name, got.GenerateName, got.InvolvedObject.Name)
	}
	if got.Message != "it is odd" || got.Reason != "Odd" || got.Source.Component != "kedify.io/test" || got.Count != 1 {
		t.Errorf("the Event contains %q, %q, %q, %d", got.Message, got.Reason, got.Source.Component, got.Count)
	}
}
