package autowire_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
)

// serviceFixture is a namespace with a Service of clients, whose endpoints follow its selector later, and HTTPScaledObjects
// that the agent creates from triggers.
type serviceFixture struct {
	*fixture

	scaled []*httpv1alpha1.HTTPScaledObject
	// wanted are the objects of the triggers. endpoints are the labels of the Pods in the EndpointSlices of each Service.
	wanted    []*httpv1alpha1.HTTPScaledObject
	endpoints map[string]string
}

// isProxied reports whether a stored Service selects the proxies.
func isProxied(service *corev1.Service) bool { return service.Spec.Selector["app"] == "kedify-proxy" }

// scaledObject returns the HTTPScaledObject of a trigger.
func (m maker) scaledObject(name string) *httpv1alpha1.HTTPScaledObject {
	made := &httpv1alpha1.HTTPScaledObject{}
	made.Name, made.Namespace, made.UID = name, "team", "uid"
	made.Labels = map[string]string{httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent}
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: name, Controller: new(true)}}
	made.Annotations = map[string]string{httpv1alpha1.AnnotationTrafficAutowire: "false"}
	made.Spec.Hosts, made.Spec.ScaleTargetRef.Service, made.Spec.ScaleTargetRef.Port = []string{m.one("*", "shop", name+".test")}, "shop", 80
	if m.IntN(3) > 0 {
		fallback := m.one("shop-fallback", "shop-fallback", "shop-direct")
		made.Spec.ScaleTargetRef.Service = fallback
		made.Annotations = map[string]string{
			httpv1alpha1.AnnotationTrafficAutowire: "service",
			httpv1alpha1.AnnotationAutowireService: "shop", httpv1alpha1.AnnotationFallbackService: fallback,
		}
	}
	return made
}

// reconcile brings the HTTPScaledObjects closer to their triggers, as the ScaledObjectReconciler does.
func (w *serviceFixture) reconcile() {
	var changes desired.Changes
	for _, want := range w.wanted {
		at := slices.IndexFunc(w.scaled, func(object *httpv1alpha1.HTTPScaledObject) bool { return object.Name == want.Name })
		if at < 0 {
			changes.Create = append(changes.Create, want.DeepCopy())
		} else {
			changes.Update = append(changes.Update, want.DeepCopy())
		}
	}
	states := map[string]desired.Service{}
	for _, name := range changes.Forwards(w.scaled) {
		label, hasSlices := w.endpoints[name]
		service := w.Services[name]
		states[name] = desired.Service{
			IsTakenOver:  service != nil && service.Annotations[undo] != "" || label == "kedify-proxy",
			HasEndpoints: hasSlices,
		}
	}
	changes.KeepForwarding(w.scaled, states)
	for _, written := range slices.Concat(changes.Create, changes.Update) {
		w.scaled = slices.DeleteFunc(w.scaled, func(object *httpv1alpha1.HTTPScaledObject) bool { return object.Name == written.Name })
		written.Generation++
		w.scaled = append(w.scaled, written)
	}
	// A deletion waits until nothing of the object is wired. See deleteObject.
	w.scaled = slices.DeleteFunc(w.scaled, func(object *httpv1alpha1.HTTPScaledObject) bool {
		isWanted := func(want *httpv1alpha1.HTTPScaledObject) bool { return want.Name == object.Name }
		return !slices.ContainsFunc(w.wanted, isWanted) && w.endpoints["shop"] != "kedify-proxy" &&
			w.Services["shop"].Annotations[undo] == ""
	})
}

// update reads the stored Service, and sets the targets of the HTTPScaledObjects.
func (w *serviceFixture) update(t *testing.T) {
	t.Helper()
	w.object(t, w.stored[0])
	w.Targets, w.Rivals = nil, nil
	for _, object := range w.scaled {
		isWanted := slices.ContainsFunc(w.wanted, func(want *httpv1alpha1.HTTPScaledObject) bool { return want.Name == object.Name })
		if target, isTarget := autowire.TargetOf(object, "keda"); isTarget && isWanted {
			w.Targets = append(w.Targets, target)
		} else {
			w.Rivals = append(w.Rivals, autowire.RivalOf(object, "keda"))
		}
	}
}

// acknowledge makes every proxy acknowledge the HTTPScaledObjects.
func (w *serviceFixture) acknowledge() {
	for _, object := range w.scaled {
		object.Status.Conditions = []metav1.Condition{{
			Type: httpv1alpha1.ConditionProgrammed, Status: metav1.ConditionTrue, ObservedGeneration: object.Generation,
		}}
	}
}

// follow updates the EndpointSlices, as Kubernetes does after a change of a selector. Without a selector, they stay.
func (w *serviceFixture) follow() {
	before := w.endpoints
	w.endpoints = map[string]string{}
	for name, service := range w.Services {
		if label, has := before[name]; has && len(service.Spec.Selector) == 0 {
			w.endpoints[name] = label
		} else {
			w.endpoints[name] = service.Spec.Selector["app"]
		}
	}
}

// write applies a plan, and stops after each write for the checks. It returns the wanted Service, which the agent may
// have given a selector, and how often the Service was taken over.
func (w *serviceFixture) write(t *testing.T, wanted string) (after string, wires int) {
	t.Helper()
	found := w.plan(t)
	w.applySettings(found.Settings)
	for _, change := range found.Services {
		w.applyServices([]autowire.ServiceChange{change})
		w.isSafe(t, wanted, beforeChange)
	}
	for _, change := range found.Changes {
		if change.Reason == "Wired" {
			wires++
		}
		if change.Reason == "SelectorAdded" {
			wanted = patched(t, wanted, w.patch(t, change))
		}
		w.fixture.write(t, change)
		w.isSafe(t, wanted, "after the change of the Service")
	}
	w.plan(t)
	if isProxied(w.Services["shop"]) && !w.HasProxy {
		t.Fatalf("taken over without a proxy:\n%s", asYAML(t, w.stored[0]))
	}
	w.isSafe(t, wanted, "after a plan")
	return wanted, wires
}

// beforeChange describes the writes that precede the change of a Service.
const beforeChange = "after a write of a fallback Service"

// isSafe fails if the proxies forward to themselves or to a Service that does not exist, or if the Service, unwired by
// the agent or by its annotation, is not what its user made it.
func (w *serviceFixture) isSafe(t *testing.T, wanted, during string) {
	t.Helper()
	w.plan(t) // reads what is stored
	isTaken := isProxied(w.Services["shop"]) || w.endpoints["shop"] == "kedify-proxy"
	for _, object := range w.scaled {
		to := object.Spec.ScaleTargetRef.Service
		if isTaken && to == "shop" {
			t.Fatalf("%s: HTTPScaledObject %s forwards to the proxies:\n%s", during, object.Name, asYAML(t, w.stored[0]))
		}
		if w.Services[to] == nil {
			t.Fatalf("%s: HTTPScaledObject %s forwards to Service %s, which does not exist", during, object.Name, to)
		}
	}
	if isProxied(w.Services["shop"]) && (len(w.scaled) == 0 || annotation(t, w.stored[0], undo) == "") {
		t.Fatalf("%s: taken over without a trigger or a record:\n%s", during, asYAML(t, w.stored[0]))
	}
	if diff := cmp.Diff(wanted, w.unwired(t)[0]); diff != "" {
		t.Fatalf("%s: unwired (-want +got):\n%s", during, diff)
	}
	record := annotation(t, w.stored[0], undo)
	if record == "" || !isProxied(w.Services["shop"]) || during == beforeChange { // a user may have moved ports
		return
	}
	if by := patched(t, w.stored[0], record); annotation(t, by, hold) == "" && by != wanted {
		t.Fatalf("%s: unwired by the annotation:\n%s", during, asYAML(t, by))
	}
}

// editService returns a user's edit of a Service, which also applies to the original.
func (m maker) editService() func(map[string]any) {
	port := map[string]any{"name": m.one("b", "c"), "port": 90 + m.IntN(3), "targetPort": m.one("http", "web"), "protocol": "TCP"}
	number, kind, label := m.IntN(4), m.one("ClusterIP", "LoadBalancer"), m.one("a", "b")
	return func(service map[string]any) {
		spec := service["spec"].(map[string]any)
		ports := spec["ports"].([]any)
		switch number {
		case 0:
			spec["type"] = kind
		case 1:
			service["metadata"].(map[string]any)["labels"] = map[string]any{"team": label}
		case 2: // another port, in the first place
			if len(ports) == 1 {
				spec["ports"] = slices.Concat([]any{port}, ports)
			}
		case 3:
			spec["ports"] = ports[len(ports)-1:]
		}
	}
}

// unselect removes the selector of a Service.
func unselect(service map[string]any) { delete(service["spec"].(map[string]any), "selector") }

// directService returns a fallback Service of the user.
func directService() *corev1.Service {
	made := &corev1.Service{Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "shop"},
		Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(9090)}},
	}}
	made.Name = "shop-direct"
	return made
}

// FuzzService applies random events to a namespace with a Service of clients, and stops the agent after each of its
// writes. The proxies never forward to themselves, the Service is taken over only while proxies are available, and every
// change can be restored.
func FuzzService(f *testing.F) {
	for seed := range uint64(100) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := maker{rand.New(rand.NewPCG(seed, 7)), false}
		original := canonicalJSON(t, clientService)
		hasNone := seed%2 == 1 // no selector, and a Service of the user that has one
		if hasNone {
			original = edited(t, original, unselect)
		}
		w := &serviceFixture{fixture: newServices(t, original), endpoints: map[string]string{"shop": "shop"}}
		w.update(t)
		wanted, wires := original, 0
		takeOver := func() {
			var more int
			wanted, more = w.write(t, wanted)
			wires += more
		}
		for range 40 {
			if hasNone && w.Services["shop-direct"] == nil {
				w.applyServices([]autowire.ServiceChange{{Apply: directService()}})
			}
			happens := m.one("triggers", "reconcile", "reconcile", "plan", "plan", "endpoints", "endpoints", "ack", "settle", "settle",
				"settle", "proxy", "time", "restore", "edit", "deleted", "unselect")
			switch happens {
			case "triggers":
				w.wanted = nil
				for i := range m.IntN(3) {
					w.wanted = append(w.wanted, m.scaledObject(fmt.Sprint("object", i)))
				}
			case "reconcile":
				w.reconcile()
			case "endpoints":
				w.follow()
			case "ack":
				w.acknowledge()
			case "proxy":
				w.HasProxy = m.IntN(3) > 0
			case "time":
				w.Now = w.Now.Add(time.Duration(m.IntN(100)) * time.Second)
			case "restore":
				w.stored[0] = restored(t, w.stored[0], wanted)
			case "unselect": // kubectl replace, with a manifest without a selector
				if hasNone {
					wanted = edited(t, wanted, unselect)
					w.stored[0] = wanted
				}
			case "edit":
				edit := m.editService()
				w.stored[0], wanted = edited(t, w.stored[0], edit), edited(t, wanted, edit)
			case "deleted": // the agent's fallback Service, as long as nothing needs it
				delete(w.Services, m.one("shop-fallback", "shop-direct"))
				w.scaled = nil
				w.stored[0] = restored(t, w.stored[0], wanted)
				w.endpoints = map[string]string{"shop": "shop"}
			}
			w.update(t)
			switch happens {
			case "plan":
				takeOver()
			case "settle":
				for range 4 {
					w.follow()
					w.reconcile()
					w.acknowledge()
					w.update(t)
					takeOver()
				}
			}
		}
		t.Logf("taken over %d times", wires)
	})
}
