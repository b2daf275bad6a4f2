package proxies_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const authentication = "http.kedify.io/proxy-authentication"

// rollOut sets the status of the stored Deployment: the number of its Pods, and of those of its current version.
func (w *fixture) rollOut(t *testing.T, all, updated int64) {
	t.Helper()
	deployment := w.find(t, "deploy")
	deployment.SetGeneration(deployment.GetGeneration() + 1)
	status := map[string]any{"observedGeneration": deployment.GetGeneration(), "replicas": all, "updatedReplicas": updated}
	if err := unstructured.SetNestedMap(deployment.Object, status, "status"); err != nil {
		t.Fatal(err)
	}
}

// mode returns the annotation of the stored Service.
func (w *fixture) mode(t *testing.T) string {
	t.Helper()
	return w.find(t, "svc").GetAnnotations()[authentication]
}

// TestFleetBecomesStrict upgrades proxies without TLS. The fleet becomes strict after the last one of them has ended, and
// stays so, until TLS is turned off.
func TestFleetBecomesStrict(t *testing.T) {
	w := newFixture()
	w.step(t)
	w.rollOut(t, 1, 1)
	w.Settings.CA = []byte("ca")
	if done, _ := w.step(t); done != "+cm-bootstrap +deploy again in 5s" || w.mode(t) != "" {
		t.Errorf("with TLS: %s, %q", done, w.mode(t))
	}
	w.rollOut(t, 2, 1)
	if done, _ := w.step(t); done != "again in 5s" || w.NeedsPods() || w.mode(t) != "" {
		t.Errorf("while proxies are replaced: %s, %q", done, w.mode(t))
	}
	w.rollOut(t, 1, 1)
	w.HasPlaintext = w.NeedsPods()
	if done, _ := w.step(t); done != "again in 5s" || w.mode(t) != "" {
		t.Errorf("while the last one drains: %s, %q", done, w.mode(t))
	}
	w.HasPlaintext = false
	if done, _ := w.step(t); done != "+svc" || w.mode(t) != "strict" {
		t.Errorf("after its end: %s, %q", done, w.mode(t))
	}
	w.HasPlaintext = true
	if done, _ := w.step(t); done != "" || w.mode(t) != "strict" {
		t.Errorf("afterwards: %s, %q", done, w.mode(t))
	}
	w.Settings.CA = nil
	if done, _ := w.step(t); !strings.Contains(done, "+svc") || w.mode(t) != "" {
		t.Errorf("without TLS again: %s, %q", done, w.mode(t))
	}
}

// TestNewFleetIsStrict installs the first proxies of a namespace, with a Pod of someone else or without.
func TestNewFleetIsStrict(t *testing.T) {
	for hasPlaintext, want := range map[bool]string{false: "strict", true: ""} {
		w := newFixture()
		w.Settings.CA, w.HasPlaintext = []byte("ca"), hasPlaintext
		if w.step(t); w.mode(t) != want {
			t.Errorf("with a Pod without TLS %t: %q, want %q", hasPlaintext, w.mode(t), want)
		}
	}
}

// TestPermissiveFleetStaysPermissive has a Service that someone has annotated. Anything but permissive is reverted.
func TestPermissiveFleetStaysPermissive(t *testing.T) {
	for value, want := range map[string]string{"permissive": "permissive", "typo": "strict"} {
		w := newFixture()
		w.Settings.CA = []byte("ca")
		w.step(t)
		service := w.find(t, "svc")
		annotations := service.GetAnnotations()
		annotations[authentication] = value
		service.SetAnnotations(annotations)
		plan, err := w.Plan()
		if err != nil {
			t.Fatal(err)
		}
		written := map[string]*unstructured.Unstructured{}
		for _, object := range plan.Apply {
			written[object.GetKind()] = object
		}
		if got := written["Service"]; got != nil && got.GetAnnotations()[authentication] != "" {
			value = got.GetAnnotations()[authentication]
		}
		if value != want {
			t.Errorf("%s, want %s", value, want)
		}
	}
}
