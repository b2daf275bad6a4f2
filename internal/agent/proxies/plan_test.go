package proxies_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
)

// began is the start time of each scenario. delay is how long unneeded proxies are kept.
var began = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const delay = time.Minute

// fixture is a namespace and its stored objects.
type fixture struct {
	proxies.Namespace

	made int
}

// newFixture returns a namespace that needs proxies and has none.
func newFixture() *fixture {
	return &fixture{Namespace: proxies.Namespace{Name: "team", IsNeeded: true, Delay: delay, Now: began}}
}

// step computes and applies a plan. It returns a summary of the writes, and the plan.
func (w *fixture) step(t *testing.T) (done string, plan proxies.Plan) {
	t.Helper()
	plan, err := w.Plan()
	if err != nil {
		t.Fatal(err)
	}
	return w.apply(plan), plan
}

// apply applies a plan and returns a summary of the writes.
func (w *fixture) apply(plan proxies.Plan) string {
	var words []string
	for _, object := range plan.Apply {
		words = append(words, "+"+short(object))
		w.drop(object)
		stored := object.DeepCopy()
		if w.made++; stored.GetUID() == "" {
			stored.SetUID("made")
		}
		stored.SetResourceVersion(strconv.Itoa(w.made))
		if stored.GetKind() == "ScaledObject" {
			w.Autoscaler = stored
			continue
		}
		w.Existing = append(w.Existing, stored)
	}
	for _, object := range plan.Delete {
		words = append(words, "-"+short(object))
		if w.drop(object); object.GetKind() == "ScaledObject" {
			w.Autoscaler = nil
		}
	}
	if plan.RequeueAfter > 0 {
		words = append(words, "again in "+plan.RequeueAfter.String())
	}
	if plan.Condition != nil {
		words = append(words, plan.Condition.Reason)
	}
	return strings.Join(words, " ")
}

// drop removes a stored object.
func (w *fixture) drop(object *unstructured.Unstructured) {
	var left []*unstructured.Unstructured
	for _, each := range w.Existing {
		if short(each) != short(object) {
			left = append(left, each)
		}
	}
	w.Existing = left
}

// find returns a stored object by its short name.
func (w *fixture) find(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	for _, each := range w.Existing {
		if short(each) == name {
			return each
		}
	}
	t.Fatalf("there is no %s", name)
	return nil
}

// set sets a field of a stored object, by its path.
func (w *fixture) set(t *testing.T, name string, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(w.find(t, name).Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

// short returns the short name of an object.
func short(object *unstructured.Unstructured) string {
	kind := map[string]string{"ConfigMap": "cm", "Service": "svc", "PodDisruptionBudget": "pdb", "Deployment": "deploy", "ScaledObject": "so"}[object.GetKind()]
	return kind + strings.TrimPrefix(object.GetName(), proxies.Service)
}

const (
	all    = "+cm-bootstrap +svc +svc-admin +pdb +deploy"
	taken  = "app.kubernetes.io/managed-by"
	marked = "http.kedify.io/proxy-unneeded-since"
)

// TestPlan has scenarios: events in a namespace, and the writes that follow.
func TestPlan(t *testing.T) {
	need := func(is bool) func(*testing.T, *fixture) { return func(_ *testing.T, w *fixture) { w.IsNeeded = is } }
	after := func(passed time.Duration) func(*testing.T, *fixture) {
		return func(_ *testing.T, w *fixture) { w.Now = w.Now.Add(passed) }
	}
	foreign := func(name string) func(*testing.T, *fixture) {
		return func(t *testing.T, w *fixture) {
			t.Helper()
			w.set(t, name, "helm", "metadata", "labels", taken)
		}
	}
	atMost := func(number string) func(*testing.T, *fixture) {
		return func(_ *testing.T, w *fixture) {
			w.Annotations = map[string]string{httpv1alpha1.AnnotationProxyMaxReplicas: number}
		}
	}
	type event struct {
		is   string
		does func(*testing.T, *fixture)
		want string
	}
	nothing := func(*testing.T, *fixture) {}
	installed := []event{{"an object comes", nothing, all}, {"nothing happens", nothing, ""}}
	unneeded := slices.Concat(installed, []event{{"the last object goes", need(false), "+deploy again in 1m0s"}})
	gone := slices.Concat(unneeded, []event{{"the delay is over", after(delay), "-deploy"}})
	tests := map[string][]event{
		"nothing needs proxies":       {{"nothing happens", need(false), ""}},
		"last object deleted":         append(gone[:4:4], event{"they end their requests", func(_ *testing.T, w *fixture) { w.HasEndpoints = true }, ""}, event{"and are gone", func(_ *testing.T, w *fixture) { w.HasEndpoints = false }, "-pdb -svc-admin -svc -cm-bootstrap"}, event{"nothing happens", nothing, ""}),
		"within the delay":            append(unneeded[:3:3], event{"it is 40 s later", after(40 * time.Second), "again in 20s"}),
		"another object comes":        append(unneeded[:3:3], event{"another object comes", need(true), "+deploy"}, event{"it goes", need(false), "+deploy again in 1m0s"}),
		"another object created late": append(gone[:4:4], event{"another object comes", need(true), "+deploy"}),
		"Ingress still wired":         append(installed[:2:2], event{"the last object goes", func(_ *testing.T, w *fixture) { w.IsNeeded, w.IsWired = false, true }, ""}, event{"it is restored", func(_ *testing.T, w *fixture) { w.IsWired = false }, "+deploy again in 1m0s"}),
		"an Ingress is wired again": append(unneeded[:3:3],
			event{"an Ingress is wired", func(_ *testing.T, w *fixture) { w.IsWired = true }, "+deploy"},
			event{"it is restored, much later", func(_ *testing.T, w *fixture) { w.IsWired, w.Now = false, w.Now.Add(time.Hour) }, "+deploy again in 1m0s"}),
		"the time is removed": append(unneeded[:3:3], event{"the mark is broken", func(t *testing.T, w *fixture) {
			t.Helper()
			w.set(t, "deploy", "yesterday", "metadata", "annotations", marked)
		}, "+deploy again in 1m0s"}),
		"object deleted": append(installed[:2:2], event{"the Service is lost", func(t *testing.T, w *fixture) { t.Helper(); w.drop(w.find(t, "svc")) }, "+svc"}),
		"object edited": append(installed[:2:2],
			event{"a port is another one", func(t *testing.T, w *fixture) {
				t.Helper()
				w.set(t, "svc", []any{map[string]any{"name": "http", "port": int64(80)}}, "spec", "ports")
			}, "+svc"},
			event{"defaults are filled in", func(t *testing.T, w *fixture) { t.Helper(); w.set(t, "svc", "ClusterIP", "spec", "type") }, ""}),
		"another user scales them": append(installed[:2:2],
			event{"there are five", func(t *testing.T, w *fixture) { t.Helper(); w.set(t, "deploy", int64(5), "spec", "replicas") }, ""},
			event{"another image is asked for, which changes no number", func(_ *testing.T, w *fixture) { w.Settings.Image = "a:b" }, "+deploy"},
			event{"two are asked for", func(_ *testing.T, w *fixture) { w.Settings.Replicas = 2 }, "+deploy"},
			event{"nothing happens", nothing, ""}),
		"another version of the agent, more memory": append(installed[:2:2], event{"a limit is set", func(_ *testing.T, w *fixture) {
			w.Annotations = map[string]string{httpv1alpha1.AnnotationProxyResources: "{limits: {memory: 2Gi}}"}
		}, "+cm-bootstrap +deploy"}),
		"KEDA scales them": append(installed[:2:2],
			event{"a highest number is set", atMost("3"), "+so"},
			event{"nothing happens", nothing, ""},
			event{"there are three", func(t *testing.T, w *fixture) { t.Helper(); w.set(t, "deploy", int64(3), "spec", "replicas") }, ""},
			event{"two at least: the three stay", func(_ *testing.T, w *fixture) { w.Settings.Replicas = 2 }, "+deploy +so"},
			event{"there are still three, and two would be too few room", atMost("2"), "-so InvalidProxySettings"},
			event{"scaling is disabled", atMost("0"), ""},
			event{"scaling is enabled again", atMost("4"), "+so"},
			event{"the last object goes", need(false), "+deploy again in 1m0s"},
			event{"the delay is over", after(delay), "-so -deploy"},
			event{"the rest", nothing, "-pdb -svc-admin -svc -cm-bootstrap"}),
		"KEDA scales them, and it is edited": append(installed[:2:2],
			event{"a highest number is set", atMost("3"), "+so"},
			event{"it is edited", func(t *testing.T, w *fixture) {
				t.Helper()
				if err := unstructured.SetNestedField(w.Autoscaler.Object, int64(50), "spec", "maxReplicaCount"); err != nil {
					t.Fatal(err)
				}
			}, "+so"},
			event{"the Deployment is lost, and nothing needs it", func(t *testing.T, w *fixture) {
				t.Helper()
				w.drop(w.find(t, "deploy"))
				w.IsNeeded, w.HasEndpoints = false, true
			}, "-so"}),
		"a third-party ScaledObject": append(installed[:2:2],
			event{"it comes", func(_ *testing.T, w *fixture) {
				w.Autoscaler = &unstructured.Unstructured{Object: map[string]any{"kind": "ScaledObject", "metadata": map[string]any{"name": "kedify-proxy"}}}
			}, ""},
			event{"a highest number is set", atMost("3"), "NameInUse"},
			event{"the last object goes", need(false), "+deploy again in 1m0s"},
			event{"the delay is over", after(delay), "-deploy"}),
		"an invalid annotation": {{"it is there from the first", func(_ *testing.T, w *fixture) {
			w.Annotations = map[string]string{httpv1alpha1.AnnotationProxyReplicas: "0"}
		}, all + " InvalidProxySettings"}},
		"a name is taken":     append(installed[:2:2], event{"the ConfigMap is third-party", foreign("cm-bootstrap"), "NameInUse"}, event{"the last object goes", need(false), "+deploy again in 1m0s"}, event{"the delay is over", after(delay), "-deploy"}, event{"nothing of theirs goes", nothing, "-pdb -svc-admin -svc"}, event{"nothing happens", nothing, ""}),
		"third-party proxies": append(installed[:2:2], event{"Service and Deployment are third-party", func(t *testing.T, w *fixture) { t.Helper(); foreign("svc")(t, w); foreign("deploy")(t, w) }, "NotManagedByAgent"}),
		"object terminating": append(gone[:4:4], event{"the Service goes already", func(t *testing.T, w *fixture) {
			t.Helper()
			w.set(t, "svc", "2026-01-01T00:00:00Z", "metadata", "deletionTimestamp")
		}, "-pdb -svc-admin -cm-bootstrap"}),
		"needed again during removal": append(unneeded[:3:3], event{"the Deployment goes, and an object comes", func(t *testing.T, w *fixture) {
			t.Helper()
			w.IsNeeded = true
			w.set(t, "deploy", "2026-01-01T00:00:00Z", "metadata", "deletionTimestamp")
		}, ""}, event{"it is gone", func(t *testing.T, w *fixture) { t.Helper(); w.drop(w.find(t, "deploy")) }, "+deploy"}),
	}
	for name, story := range tests {
		t.Run(name, func(t *testing.T) {
			w := newFixture()
			for _, each := range story {
				each.does(t, w)
				if done, _ := w.step(t); done != each.want {
					t.Fatalf("%s: %q was done, want %q", each.is, done, each.want)
				}
			}
		})
	}
}

// TestInterruptedWrites stops the agent after each write of an installation and a removal. The next agent
// finishes.
func TestInterruptedWrites(t *testing.T) {
	one := func(plan proxies.Plan) proxies.Plan {
		if len(plan.Apply) > 0 {
			return proxies.Plan{Apply: plan.Apply[:1]}
		}
		return proxies.Plan{Delete: plan.Delete[:min(len(plan.Delete), 1)]}
	}
	w := newFixture()
	var done []string
	for range 20 {
		plan, err := w.Plan()
		if err != nil {
			t.Fatal(err)
		}
		if words := w.apply(one(plan)); words != "" {
			done = append(done, words)
		} else if w.IsNeeded = false; len(w.Existing) > 0 && plan.RequeueAfter > 0 {
			w.Now = w.Now.Add(plan.RequeueAfter)
		}
	}
	want := []string{
		"+cm-bootstrap", "+svc", "+svc-admin", "+pdb", "+deploy", "+deploy", "-deploy", "-pdb", "-svc-admin", "-svc", "-cm-bootstrap",
	}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Errorf("writes, one at a time (-want +got):\n%s", diff)
	}
}

// TestConditions compares the messages of the conditions.
func TestConditions(t *testing.T) {
	taken := func(names ...string) func(*testing.T, *fixture) {
		return func(t *testing.T, w *fixture) {
			t.Helper()
			for _, each := range names {
				w.set(t, each, "helm", "metadata", "labels", "app.kubernetes.io/managed-by")
			}
		}
	}
	tests := map[string]struct {
		is   func(*testing.T, *fixture)
		want *metav1.Condition
	}{
		"nothing is in the way": {func(*testing.T, *fixture) {}, nil},
		"manual": {taken("svc", "deploy"), &metav1.Condition{
			Type: "ProxyInstalled", Status: metav1.ConditionTrue, Reason: "NotManagedByAgent",
			Message: "Service kedify-proxy is not managed by the agent, so the agent does not install proxies",
		}},
		"taken": {taken("deploy", "pdb"), &metav1.Condition{
			Type: "ProxyInstalled", Status: metav1.ConditionFalse, Reason: "NameInUse",
			Message: "no proxies are installed, because objects that the agent does not manage have their names: Deployment kedify-proxy, PodDisruptionBudget kedify-proxy; " +
				"delete or rename them, or install the proxies manually, including Service kedify-proxy",
		}},
		"invalid settings": {func(_ *testing.T, w *fixture) {
			w.Annotations = map[string]string{"http.kedify.io/proxy-image": "a b", "http.kedify.io/proxy-replicas": "1e3"}
		}, &metav1.Condition{
			Type: "ProxyInstalled", Status: metav1.ConditionFalse, Reason: "InvalidProxySettings",
			Message: `annotation http.kedify.io/proxy-image of the Namespace: invalid setting: "a b" is not an image reference such as envoyproxy/envoy:v1.40.0; ` +
				`annotation http.kedify.io/proxy-replicas of the Namespace: invalid setting: "1e3" is not a whole number from 1 to 100; the agent uses its own setting`,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newFixture()
			w.step(t)
			test.is(t, w)
			if _, plan := w.step(t); !cmp.Equal(test.want, plan.Condition) {
				t.Error(cmp.Diff(test.want, plan.Condition))
			}
		})
	}
}

// TestNeedsProxy has HTTPScaledObjects that need proxies, and their fleets.
func TestNeedsProxy(t *testing.T) {
	tests := map[string]struct {
		is    func(*httpv1alpha1.HTTPScaledObject)
		want  bool
		fleet string
	}{
		"one of a trigger": {func(o *httpv1alpha1.HTTPScaledObject) {
			o.Labels = map[string]string{"app.kubernetes.io/managed-by": "kedify-http-agent"}
		}, true, "team"},
		"one of a trigger with manual backends": {func(o *httpv1alpha1.HTTPScaledObject) {
			o.Labels = map[string]string{"app.kubernetes.io/managed-by": "kedify-http-agent"}
			o.Annotations = map[string]string{"http.kedify.io/traffic-autowire": "false"}
		}, true, "team"},
		"a third-party object": {func(*httpv1alpha1.HTTPScaledObject) {}, false, "team"},
		"requests autowiring": {func(o *httpv1alpha1.HTTPScaledObject) {
			o.Annotations = map[string]string{"http.kedify.io/traffic-autowire": "ingress"}
		}, true, "team"},
		"opted out of autowiring": {func(o *httpv1alpha1.HTTPScaledObject) {
			o.Annotations = map[string]string{"http.kedify.io/traffic-autowire": "false"}
		}, false, "team"},
		"one of the shared proxies": {func(o *httpv1alpha1.HTTPScaledObject) {
			o.Annotations = map[string]string{"http.kedify.io/traffic-autowire": "httproute", "http.kedify.io/fleet": "shared"}
		}, true, "keda"},
		"terminating object": {func(o *httpv1alpha1.HTTPScaledObject) {
			o.Labels = map[string]string{"app.kubernetes.io/managed-by": "kedify-http-agent"}
			o.DeletionTimestamp = &metav1.Time{Time: began}
		}, false, "team"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := &httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop"}}
			test.is(object)
			if needs, fleet := proxies.NeedsProxy(object), proxies.FleetNamespace(object, "keda"); needs != test.want || fleet != test.fleet {
				t.Errorf("needs proxies: %v, of %s; want %v, of %s", needs, fleet, test.want, test.fleet)
			}
		})
	}
}
