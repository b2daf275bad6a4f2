package testbed

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/e2e/envoyadmin"
	"github.com/kedify/argo-rollouts-plugin/e2e/inside"
	"github.com/kedify/argo-rollouts-plugin/e2e/kube"
	"github.com/kedify/argo-rollouts-plugin/e2e/trace"
)

// start is when the record of these tests begins.
func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// object is a version of the HTTPScaledObject, seen that many seconds after the
// start: with a canary's weight, and a report about another.
func object(t *testing.T, second, weight, reported, ready, acked int) inside.Version {
	t.Helper()
	text := func(weight int) string {
		if weight == 0 {
			return ""
		}
		return kube.WeightsText(stable, canary, weight) + "\n"
	}
	o := kube.HTTPScaledObject{Metadata: kube.Metadata{Name: App}}
	if weight > 0 {
		o.Metadata.Annotations = map[string]string{kube.WeightsAnnotation: text(weight)}
	}
	o.Status.DataPlane = &kube.DataPlane{AnnotationHash: kube.WeightsHash(text(reported))}
	o.Status.DataPlane.Proxies.Ready, o.Status.DataPlane.Proxies.Acked = ready, acked
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return inside.Version{Value: raw, Seen: start().Add(time.Duration(second) * time.Second)}
}

// Since includes the weight at the moment, and none before it.
func TestRecordSince(t *testing.T) {
	r := newRecord()
	for _, v := range []inside.Version{
		object(t, 1, 0, 0, 2, 2),
		object(t, 2, 20, 0, 2, 2),
		object(t, 3, 20, 20, 2, 1), // one proxy has not ACKed it
		object(t, 4, 20, 20, 2, 2),
		object(t, 5, 50, 20, 2, 2),
		object(t, 6, 50, 50, 2, 2),
		{Seen: start().Add(7 * time.Second)}, // the object is gone
	} {
		r.addObject(v)
	}
	moment := start().Add(4500 * time.Millisecond)
	want := []string{"annotation: 20 (-2.500 s), 50 (+0.500 s)", "status.dataPlane: 20 (-0.500 s), 50 (+1.500 s)"}
	if diff := cmp.Diff(want, r.Timeline(moment)); diff != "" {
		t.Errorf("timeline (-want +got):\n%s", diff)
	}
	if strays := r.UnexpectedWeights(moment, 20, 50); strays != nil {
		t.Errorf("strays %q", strays)
	}
	if strays := r.UnexpectedWeights(moment, 50); len(strays) != 2 || !strings.Contains(strays[1], "unexpected [20]") {
		t.Errorf("strays %q, want one at each place", strays)
	}
	r.addObject(object(t, 8, 50, 33, 2, 2)) // the hash of an annotation that never existed
	if strays := r.UnexpectedWeights(moment, 20, 50); len(strays) != 1 || !strings.HasPrefix(strays[0], acked) {
		t.Errorf("strays %q, want one of %s", strays, acked)
	}
}

// A weight is active when the annotation, the status and every Envoy contain it.
func TestStateHasWeight(t *testing.T) {
	r := newRecord()
	shares := envoyadmin.Shares{envoyPair().Stable: 0.8, envoyPair().Canary: 0.2}
	steps := []struct {
		name string
		step func()
		want bool
	}{
		{"only written", func() { r.addObject(object(t, 1, 20, 0, 2, 2)) }, false},
		{"acknowledged by all", func() { r.addObject(object(t, 2, 20, 20, 2, 2)) }, false},
		{"run by one Envoy", func() { r.addEnvoy("a", start(), start().Add(time.Second), shares, nil) }, false},
		{"run by both", func() { r.addEnvoy("b", start(), start().Add(time.Second), shares, nil) }, true},
		{"one proxy is no longer Ready", func() { r.addObject(object(t, 3, 20, 20, 1, 1)) }, false},
		{"Ready again", func() { r.addObject(object(t, 4, 20, 20, 2, 2)) }, true},
		{"one Envoy without a route", func() { r.addEnvoy("b", start(), start().Add(time.Second), envoyadmin.Shares{}, nil) }, false},
		{"with another split", func() { r.addEnvoy("b", start(), start().Add(time.Second), envoyadmin.Shares{"x": 1}, nil) }, false},
	}
	for _, tt := range steps {
		tt.step()
		if got := r.Now().HasWeight(20, 2); got != tt.want {
			t.Errorf("%s: active %v, want %v: %s", tt.name, got, tt.want, r.Now())
		}
	}
	if strays := r.UnexpectedWeights(start(), 0, 20); len(strays) != 1 || !strings.HasPrefix(strays[0], "b: 20") {
		t.Errorf("strays %q, want the foreign split %d of b", strays, trace.OtherSplit)
	}
}

func TestStepReached(t *testing.T) {
	r := newRecord()
	for second, index := range []int{0, 1, 2, 4, 4, 0, 1} {
		rollout := kube.Rollout{}
		rollout.Status.CurrentStepIndex = &index
		raw, err := json.Marshal(rollout)
		if err != nil {
			t.Fatal(err)
		}
		r.addRollout(inside.Version{
			Value: raw, Revision: int64(second),
			Seen: start().Add(time.Duration(second) * time.Second),
		})
		if second == 4 {
			if at, version := r.StepReached(3); at != start().Add(3*time.Second) || version != 3 {
				t.Errorf("step 3 was passed over at %v with version %d", at, version)
			}
		}
	}
	if at, version := r.StepReached(1); at != start().Add(6*time.Second) || version != 6 {
		t.Errorf("step 1 of the second canary taken at %v with version %d", at, version)
	}
	if at, _ := r.StepReached(3); !at.IsZero() {
		t.Errorf("step 3 of the second canary taken at %v, but it was not", at)
	}
}
