package autowire_test

import (
	"encoding/json"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4" // the one that API servers carry patches out with
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Annotations of an object.
const (
	undo = httpv1alpha1.AnnotationAutowireUndo
	hold = httpv1alpha1.AnnotationAutowireHold
)

// world is a namespace whose Ingresses and HTTPRoutes are kept as an API server keeps them: with fields that the agent's
// types don't know.
type world struct {
	autowire.Namespace

	rollouts []apis.Rollout
	stored   []string // JSON
}

// noon is when tests begin.
func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// newWorld is a namespace with objects, as YAML, and a proxy.
func newWorld(t *testing.T, objects ...string) *world {
	t.Helper()
	w := &world{Namespace: autowire.Namespace{
		Name: "team", HasProxy: true, Now: noon(), CoolDown: time.Minute,
		Shared: autowire.Shared{Namespace: "keda", AreKnown: true},
		Ports:  map[string][]corev1.ServicePort{"shop": {{Name: "http", Port: 80}, {Name: "admin", Port: 81}}},
	}}
	for _, text := range objects {
		w.stored = append(w.stored, canonical(t, text))
	}
	return w
}

// canonical is YAML as JSON with sorted keys.
func canonical(t *testing.T, text string) string {
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

// asYAML is JSON as YAML.
func asYAML(t *testing.T, text string) string {
	t.Helper()
	out, err := yaml.JSONToYAML([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// plan plans.
func (w *world) plan(t *testing.T) autowire.Plan {
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

// object is what is stored as the agent reads it. An object without a kind is an Ingress.
func (w *world) object(t *testing.T, text string) autowire.Object {
	t.Helper()
	var route apis.HTTPRoute
	if err := json.Unmarshal([]byte(text), &route); err != nil {
		t.Fatal(err)
	}
	if route.Kind == apis.HTTPRouteKind().Kind {
		return autowire.OfHTTPRoute(&route, autowire.RoutingsOf(w.rollouts...))
	}
	var ingress networkingv1.Ingress
	if err := json.Unmarshal([]byte(text), &ingress); err != nil {
		t.Fatal(err)
	}
	return autowire.OfIngress(&ingress)
}

// write makes one change.
func (w *world) write(t *testing.T, change autowire.Change) {
	t.Helper()
	patch, err := json.Marshal(change.Patch)
	if err != nil {
		t.Fatal(err)
	}
	w.stored[change.Index] = patched(t, w.stored[change.Index], string(patch))
}

// patched carries a JSON patch out. Annotations of which none is left are none, as in an API server.
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

// settle makes all changes and fails if there are others then. It returns the plan.
func (w *world) settle(t *testing.T) autowire.Plan {
	t.Helper()
	found := w.plan(t)
	w.grant(found.Grant)
	for _, change := range found.Changes {
		w.write(t, change)
	}
	again := w.plan(t)
	if len(again.Changes) > 0 {
		t.Fatalf("it is not at rest: %+v\n%s", again.Changes, asYAML(t, w.stored[0]))
	}
	w.grant(again.Grant)
	if last := w.plan(t).Grant; last.Apply != nil || last.Delete != nil {
		t.Fatalf("the ReferenceGrant is not at rest: %+v", last)
	}
	return found
}

// grant carries a change of the ReferenceGrant out.
func (w *world) grant(change autowire.GrantChange) {
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

// unwired is the namespace without targets.
func (w *world) unwired(t *testing.T) []string {
	t.Helper()
	other := &world{Namespace: w.Namespace, rollouts: w.rollouts, stored: append([]string{}, w.stored...)}
	other.Targets = nil
	other.settle(t)
	return other.stored
}

// annotation is one of an object.
func annotation(t *testing.T, text, name string) string {
	t.Helper()
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object.Annotations[name]
}

// target is an HTTPScaledObject for Service shop, port 80, that every proxy has.
func target(name string, hosts ...string) autowire.Target {
	return autowire.Target{
		Name: name, Hosts: hosts, Service: "shop", Port: networkingv1.ServiceBackendPort{Number: 80}, IsProgrammed: true,
		Kinds: []trigger.AutowireKind{trigger.AutowireIngress, trigger.AutowireHTTPRoute},
	}
}
