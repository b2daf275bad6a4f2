package autowire_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4" // the one that API servers carry patches out with
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Annotations of an object.
const (
	undo = httpv1alpha1.AnnotationAutowireUndo
	hold = httpv1alpha1.AnnotationAutowireHold
)

// fixture is a namespace with Ingresses, HTTPRoutes, VirtualServices and Routes as an API server stores them: with fields
// that the agent's types lack.
type fixture struct {
	autowire.Namespace

	rollouts []apis.Rollout
	stored   []string // JSON
}

// noon returns the start time of the tests.
func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// newFixture returns a namespace with objects, given as YAML, and a proxy.
func newFixture(t *testing.T, objects ...string) *fixture {
	t.Helper()
	w := &fixture{Namespace: autowire.Namespace{
		Name: "team", HasProxy: true, Now: noon(), CoolDown: time.Minute,
		ProxyLabels: map[string]string{"app": "kedify-proxy"},
		Shared:      autowire.Shared{Namespace: "keda", GrantsSynced: true},
		Services: map[string]*corev1.Service{
			"shop": service("", corev1.ServicePort{Name: "http", Port: 80}, corev1.ServicePort{Name: "admin", Port: 81}),
			"kedify-proxy": service("", corev1.ServicePort{Name: "http", Port: 8080},
				corev1.ServicePort{Name: "https", Port: 8443}),
		},
	}}
	for _, text := range objects {
		w.stored = append(w.stored, canonicalJSON(t, text))
	}
	return w
}

// service returns a Service with annotations, given as YAML, and ports.
func service(annotations string, ports ...corev1.ServicePort) *corev1.Service {
	made := &corev1.Service{Spec: corev1.ServiceSpec{Ports: ports}}
	if err := yaml.UnmarshalStrict([]byte(annotations), &made.Annotations); err != nil {
		panic(err)
	}
	return made
}

// canonicalJSON converts YAML to JSON with sorted keys.
func canonicalJSON(t *testing.T, text string) string {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// asYAML converts JSON to YAML.
func asYAML(t *testing.T, text string) string {
	t.Helper()
	out, err := yaml.JSONToYAML([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// plan computes the plan of the namespace.
func (w *fixture) plan(t *testing.T) autowire.Plan {
	t.Helper()
	w.Objects = nil
	for _, text := range w.stored {
		w.Objects = append(w.Objects, w.object(t, text))
	}
	found, err := w.Plan()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// object decodes a stored object, and trims it as the cache does. An object without a kind is an Ingress.
func (w *fixture) object(t *testing.T, text string) autowire.Object {
	t.Helper()
	var route apis.HTTPRoute
	if err := json.Unmarshal([]byte(text), &route); err != nil {
		t.Fatal(err)
	}
	if route.Kind == apis.HTTPRouteKind().Kind {
		autowire.NewTrimmer().HTTPRoute(&route)
		return autowire.FromHTTPRoute(&route, autowire.Routings(w.rollouts...))
	}
	if route.Kind == apis.VirtualServiceKind().Kind {
		var service apis.VirtualService
		if err := json.Unmarshal([]byte(text), &service); err != nil {
			t.Fatal(err)
		}
		autowire.NewTrimmer().VirtualService(&service)
		return autowire.FromVirtualService(&service, autowire.Routings(w.rollouts...)...)
	}
	if route.Kind == apis.RouteKind().Kind {
		var route apis.Route
		if err := json.Unmarshal([]byte(text), &route); err != nil {
			t.Fatal(err)
		}
		autowire.NewTrimmer().Route(&route)
		return autowire.FromRoute(&route, autowire.Routings(w.rollouts...)...)
	}
	if route.Kind == "Service" {
		var service corev1.Service
		if err := json.Unmarshal([]byte(text), &service); err != nil {
			t.Fatal(err)
		}
		trimmed := autowire.NewTrimmer().Service(&service)
		w.Services[service.Name] = trimmed
		return autowire.FromService(trimmed)
	}
	var ingress networkingv1.Ingress
	if err := json.Unmarshal([]byte(text), &ingress); err != nil {
		t.Fatal(err)
	}
	autowire.NewTrimmer().Ingress(&ingress)
	return autowire.FromIngress(&ingress, autowire.Routings(w.rollouts...)...)
}

// patch returns the patch of a change of a stored object, without the test of its version.
func (w *fixture) patch(t *testing.T, change autowire.Change) string {
	t.Helper()
	var stored metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(w.stored[change.Index]), &stored); err != nil {
		t.Fatal(err)
	}
	operations := change.At(&stored)
	patch, err := json.Marshal(operations[:len(operations)-1])
	if err != nil {
		t.Fatal(err)
	}
	return string(patch)
}

// write applies one change.
func (w *fixture) write(t *testing.T, change autowire.Change) {
	t.Helper()
	w.stored[change.Index] = patched(t, w.stored[change.Index], w.patch(t, change))
}

// patched applies a JSON patch. Like an API server, it removes an empty map of annotations.
func patched(t *testing.T, text, patch string) string {
	t.Helper()
	decoded, err := jsonpatch.DecodePatch([]byte(patch))
	if err != nil {
		t.Fatalf("%v\n%s", err, patch)
	}
	after, err := decoded.Apply([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, text, patch)
	}
	var value map[string]any
	if err := json.Unmarshal(after, &value); err != nil {
		t.Fatal(err)
	}
	meta := value["metadata"].(map[string]any)
	if annotations, is := meta["annotations"].(map[string]any); is && len(annotations) == 0 {
		delete(meta, "annotations")
	}
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// converge applies all changes, fails if the next plan has changes, and returns the plan. Every proxy acknowledges
// settings immediately.
func (w *fixture) converge(t *testing.T) autowire.Plan {
	t.Helper()
	found := w.plan(t)
	if w.applySettings(found.Settings) {
		found = w.plan(t)
	}
	w.grant(found.Grant)
	for _, change := range found.Changes {
		w.write(t, change)
	}
	next := w.plan(t)
	if len(next.Changes)+len(next.Settings) > 0 {
		t.Fatalf("not converged: %+v, %v\n%s", next.Changes, next.Settings, asYAML(t, w.stored[0]))
	}
	w.grant(next.Grant)
	if last := w.plan(t).Grant; last.Apply != nil || last.Delete != nil {
		t.Fatalf("ReferenceGrant not converged: %+v", last)
	}
	return found
}

// applySettings applies changes of settings. It reports whether there are any.
func (w *fixture) applySettings(settings map[string]string) bool {
	for _, objects := range [][]autowire.Target{w.Targets, w.Rivals} {
		for i := range objects {
			if text, isChanged := settings[objects[i].Name]; isChanged {
				objects[i].Settings = text
			}
		}
	}
	return len(settings) > 0
}

// grant applies a change of the ReferenceGrant.
func (w *fixture) grant(change autowire.GrantChange) {
	var kept []apis.ReferenceGrant
	made := metav1.NewTime(w.Now)
	for _, grant := range w.Shared.Grants {
		switch {
		case change.Apply != nil && grant.Name == change.Apply.Name:
			made = grant.CreationTimestamp
		case change.Delete != nil && grant.Name == change.Delete.Name:
		default:
			kept = append(kept, grant)
		}
	}
	if change.Apply != nil {
		applied := *change.Apply.DeepCopy()
		applied.CreationTimestamp, applied.UID = made, "uid"
		kept = append(kept, applied)
	}
	w.Shared.Grants = kept
}

// unwired returns the stored objects after all targets are removed.
func (w *fixture) unwired(t *testing.T) []string {
	t.Helper()
	other := &fixture{Namespace: w.Namespace, rollouts: w.rollouts, stored: append([]string{}, w.stored...)}
	other.Targets, other.Services = nil, maps.Clone(w.Services)
	other.converge(t)
	return other.stored
}

// annotation returns an annotation of an object.
func annotation(t *testing.T, text, name string) string {
	t.Helper()
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object.Annotations[name]
}

// target returns an HTTPScaledObject for Service shop, port 80, that every proxy has acknowledged.
func target(name string, hosts ...string) autowire.Target {
	return autowire.Target{
		Name: name, Hosts: hosts, Service: "shop", Port: networkingv1.ServiceBackendPort{Number: 80}, IsProgrammed: true,
		Kinds: []trigger.AutowireKind{
			trigger.AutowireIngress, trigger.AutowireHTTPRoute, trigger.AutowireVirtualService, trigger.AutowireRoute,
		},
	}
}
