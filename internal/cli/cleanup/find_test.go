package cleanup_test

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/cleanup"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	kubelease "github.com/kedify/argo-rollouts-plugin/internal/kube/lease"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

const (
	weights = "http.kedify.io/weighted-backends"
	mark    = "http.kedify.io/weighted-backends-owner"
	managed = "http.kedify.io/managed-routes"
	report  = "http.kedify.io/status"
)

// now is the time at which the facts were read.
var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// rollout returns a Rollout of namespace shop that references an HTTPScaledObject and a route.
func rollout(name, object, routeName string) facts.Rollout {
	plugins := map[string]json.RawMessage{}
	r := facts.Rollout{Stable: "stable", Canary: "canary", Object: object}
	if object != "" {
		plugins[facts.HTTPRouter] = nil
	}
	if routeName != "" {
		plugins[facts.GatewayRouter] = nil
		r.RouteNames = []facts.RouteName{{
			Kind: route.HTTPRoute,
			Name: types.NamespacedName{Namespace: "shop", Name: routeName},
		}}
	}
	r.Rollout = &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name)},
		Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
			TrafficRouting: &v1alpha1.RolloutTrafficRouting{Plugins: plugins},
		}}},
	}
	return r
}

// cluster returns facts with HTTPScaledObject shop/web, owned by Rollout shop/web.
func cluster(annotations map[string]string, rollouts ...facts.Rollout) *facts.Facts {
	object := httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "uid",
		Annotations: annotations,
	}}
	all := &facts.Facts{Now: now, HTTPScaledObjects: []httpv1alpha1.HTTPScaledObject{object}, Rollouts: rollouts}
	if annotations[mark] != "" {
		name := types.NamespacedName{Namespace: "shop", Name: "web"}
		all.Owners = map[types.NamespacedName]facts.Owner{name: {Rollout: name, UID: "uid-of-web"}}
	}
	return all
}

// withScaledObjects sets the ScaledObject of HTTPScaledObject shop/web, and adds HTTPScaledObject shop/api if api is
// not empty.
func withScaledObjects(f *facts.Facts, web, api string) *facts.Facts {
	controlled := func(name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{
			APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: name,
			Controller: new(true),
		}}
	}
	f.HTTPScaledObjects[0].OwnerReferences = controlled(web)
	if api != "" {
		f.HTTPScaledObjects = append(f.HTTPScaledObjects, httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "api", OwnerReferences: controlled(api),
		}})
	}
	return f
}

// asRoute turns the HTTPScaledObjects into InterceptorRoutes, with their owners.
func asRoute(f *facts.Facts) *facts.Facts {
	for i := range f.HTTPScaledObjects {
		f.HTTPScaledObjects[i].Spec.Converted = &httpv1alpha1.ConvertedSpec{}
	}
	f.InterceptorRoutes, f.RouteOwners, f.HTTPScaledObjects, f.Owners = f.HTTPScaledObjects, f.Owners, nil, nil
	return f
}

// routed returns a Rollout of namespace shop that references an InterceptorRoute.
func routed(name, interceptorRoute string) facts.Rollout {
	r := rollout(name, interceptorRoute, "")
	r.Object, r.InterceptorRoute = "", interceptorRoute
	return r
}

// withReport adds a report to the status of the HTTPScaledObject.
func withReport(f *facts.Facts) *facts.Facts {
	f.HTTPScaledObjects[0].Status.DataPlane = &httpv1alpha1.DataPlaneStatus{}
	return f
}

// broken returns the Rollout with an invalid configuration.
func broken(r facts.Rollout) facts.Rollout {
	r.Object, r.ObjectError, r.RouteNames, r.RoutesError = "", errors.New("not an object"), nil, errors.New("not an object")
	return r
}

// withTrial returns facts with the namespace of a throwaway canary and its deadline.
func withTrial(ago string, isDeleting bool) *facts.Facts {
	trial := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "http-canary-try-abcde", UID: "1",
		ResourceVersion: "2",
	}}
	if ago != "" {
		trial.Annotations = map[string]string{facts.TrialUntil: ago}
	}
	if isDeleting {
		trial.DeletionTimestamp = &metav1.Time{Time: now}
	}
	return &facts.Facts{Now: now, Trials: []metav1.PartialObjectMetadata{trial}}
}

// withLease returns facts with a Lease that was renewed some time ago.
func withLease(ago time.Duration, interceptor *appsv1.Deployment) *facts.Facts {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: "keda", Name: "kedify-http-interceptor",
		UID: "1", ResourceVersion: "2",
	}}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now.Add(-ago)}
	return &facts.Facts{Now: now, Lease: lease, Interceptor: interceptor}
}

// uninstalled marks the Lease.
func uninstalled(cluster *facts.Facts) *facts.Facts {
	cluster.Lease.Spec.HolderIdentity = new(kubelease.Uninstalled)
	return cluster
}

// reportedOn adds an HTTPScaledObject with a report.
func reportedOn(cluster *facts.Facts) *facts.Facts {
	var object httpv1alpha1.HTTPScaledObject
	object.Status.DataPlane = &httpv1alpha1.DataPlaneStatus{}
	cluster.HTTPScaledObjects = append(cluster.HTTPScaledObjects, object)
	return cluster
}

// withRoute returns facts with route shop/web, which has a record and a label.
func withRoute(record string, isLabelled bool, rollouts ...facts.Rollout) *facts.Facts {
	metadata := map[string]any{"namespace": "shop", "name": "web"}
	read := facts.Route{Kind: route.HTTPRoute, Name: types.NamespacedName{Namespace: "shop", Name: "web"}}
	if record != "" {
		metadata["annotations"] = map[string]any{route.Annotation: record}
	}
	if isLabelled {
		read.Labels = map[string]string{route.DefaultLabelKey: "in-progress"}
		metadata["labels"] = map[string]any{route.DefaultLabelKey: "in-progress"}
	}
	backend := func(name string, weight int64) any { return map[string]any{"name": name, "weight": weight} }
	read.Content = map[string]any{"metadata": metadata, "spec": map[string]any{"rules": []any{
		map[string]any{"backendRefs": []any{backend("stable", 60), backend("canary", 30), backend("candidate", 10)}},
		map[string]any{"name": "qa", "backendRefs": []any{backend("canary", 1)}},
	}}}
	return &facts.Facts{Routes: []facts.Route{read}, Rollouts: rollouts}
}

// record is the record of Rollout shop/web.
const record = `{"shop/web":{"uid":"uid-of-web","services":["canary","stable"],"weighted":true,"rule":"*","destinations":["candidate"],"managed":{"qa":["name:qa"]}}}`

func TestFind(t *testing.T) {
	t.Parallel()
	both := map[string]string{weights: "[]", mark: "shop/web uid-of-web"}
	for _, test := range []struct {
		name      string
		cluster   *facts.Facts
		namespace string
		want      []cleanup.Kind
	}{
		{"weights of a deleted Rollout", cluster(both), "", []cleanup.Kind{cleanup.Weights}},
		{
			"weights of a Rollout that references another object", cluster(both, rollout("web", "other", "")), "",
			[]cleanup.Kind{cleanup.Weights},
		},
		{
			"weights of a Rollout with another router", cluster(both, rollout("web", "", "web")), "",
			[]cleanup.Kind{cleanup.Weights},
		},
		{"weights of a Rollout that references it", cluster(both, rollout("web", "web", "")), "", nil},
		{
			"weights of a Rollout that references another trigger of the ScaledObject",
			withScaledObjects(cluster(both, rollout("web", "api", "")), "one", "one"), "", nil,
		},
		{
			"weights of a Rollout that references another ScaledObject",
			withScaledObjects(cluster(both, rollout("web", "api", "")), "one", "two"), "",
			[]cleanup.Kind{cleanup.Weights},
		},
		{
			"weights of a Rollout that references a missing object",
			withScaledObjects(cluster(both, rollout("web", "api", "")), "one", ""), "", nil,
		},
		{
			"weights of a Rollout with an invalid configuration", cluster(both, broken(rollout("web", "web", ""))), "",
			nil,
		},
		{"only Rollouts of its namespace were read", cluster(both), "shop", []cleanup.Kind{cleanup.Weights}},
		{"Rollouts of its namespace were not read", cluster(both), "other", nil},
		{
			"an owner annotation without weights", cluster(map[string]string{mark: "shop/web uid-of-web"}), "",
			[]cleanup.Kind{cleanup.OwnerAnnotation},
		},
		{
			"weights without an owner", cluster(map[string]string{weights: "[]"}, rollout("api", "other", "")), "",
			[]cleanup.Kind{cleanup.UnownedWeights},
		},
		{
			"weights without an owner, and a Rollout references it",
			cluster(map[string]string{weights: "[]"}, rollout("api", "web", "")), "", nil,
		},
		{"weights with an invalid owner", func() *facts.Facts {
			f := cluster(map[string]string{weights: "[]", mark: "manual"})
			f.Owners = nil
			return f
		}(), "", nil},
		{
			"an unused report", withReport(cluster(map[string]string{report: "{}"})), "",
			[]cleanup.Kind{cleanup.StatusAnnotation},
		},
		{"the only report", cluster(map[string]string{report: "{}"}), "", nil},
		{
			"weights and a report", withReport(cluster(map[string]string{
				report: "{}", weights: "[]",
				mark: "shop/web uid-of-web",
			})), "",
			[]cleanup.Kind{cleanup.Weights, cleanup.StatusAnnotation},
		},
		{
			"weights without an owner, and a report",
			withReport(cluster(map[string]string{report: "{}", weights: "[]"})), "",
			[]cleanup.Kind{cleanup.UnownedWeights, cleanup.StatusAnnotation},
		},
		{"an object without annotations", cluster(nil), "", nil},

		{"an InterceptorRoute with weights of a deleted Rollout", asRoute(cluster(both)), "", []cleanup.Kind{cleanup.Weights}},
		{
			"an InterceptorRoute with weights of a Rollout that references it",
			asRoute(cluster(both, routed("web", "web"))), "", nil,
		},
		{
			"an InterceptorRoute with weights of a Rollout that references another one",
			asRoute(cluster(both, routed("web", "other"))), "",
			[]cleanup.Kind{cleanup.Weights},
		},
		{
			"an InterceptorRoute with weights of a Rollout that references an HTTPScaledObject of its name",
			asRoute(cluster(both, rollout("web", "web", ""))), "",
			[]cleanup.Kind{cleanup.Weights},
		},
		{
			"weights of a Rollout that references an InterceptorRoute of the object's name",
			cluster(both, routed("web", "web")), "",
			[]cleanup.Kind{cleanup.Weights},
		},
		{
			"an InterceptorRoute with weights of a Rollout with an invalid configuration",
			asRoute(cluster(both, broken(routed("web", "web")))), "", nil,
		},
		{
			"an InterceptorRoute with an owner annotation without weights",
			asRoute(cluster(map[string]string{mark: "shop/web uid-of-web"})), "",
			[]cleanup.Kind{cleanup.OwnerAnnotation},
		},
		{
			"an InterceptorRoute with weights without an owner", asRoute(cluster(map[string]string{weights: "[]"})), "",
			[]cleanup.Kind{cleanup.UnownedWeights},
		},
		{
			"an InterceptorRoute with weights without an owner, and a Rollout references it",
			asRoute(cluster(map[string]string{weights: "[]"}, routed("api", "web"))), "", nil,
		},
		{"the report of an InterceptorRoute", asRoute(cluster(map[string]string{report: "{}"})), "", nil},

		{
			"a route of a deleted Rollout", withRoute(record, false), "",
			[]cleanup.Kind{cleanup.Record, cleanup.ManagedRules, cleanup.Destinations},
		},
		{
			"a route that its Rollout no longer references", withRoute(record, false, rollout("web", "", "other")), "",
			[]cleanup.Kind{cleanup.Record, cleanup.ManagedRules, cleanup.Destinations, cleanup.RouteWeights},
		},
		{"a route that its Rollout references", withRoute(record, true, rollout("web", "", "web")), "", nil},
		{
			"a route of a Rollout with an invalid configuration",
			withRoute(record, true, broken(rollout("web", "", "web"))), "", nil,
		},
		{"a route whose Rollout may be in a namespace that was not read", withRoute(record, true), "other", nil},
		{"a label without an owner", withRoute("", true), "", []cleanup.Kind{cleanup.Label}},
		{"a label on a route that is in use", withRoute("", true, rollout("web", "", "web")), "", nil},
		{"a label, and not all Rollouts were read", withRoute("", true), "shop", nil},
		{"a label with an invalid record", withRoute("{", true), "", nil},

		{"a Lease without interceptors", withLease(time.Hour, nil), "", []cleanup.Kind{cleanup.InterceptorLease}},
		{"a Lease that is renewed", withLease(time.Second, nil), "", nil},
		{"a Lease of installed interceptors", withLease(time.Hour, new(appsv1.Deployment)), "", nil},
		{
			"a Lease without interceptors, with their reports", reportedOn(withLease(time.Hour, nil)), "",
			[]cleanup.Kind{cleanup.InterceptorLease},
		},
		{"a Lease with the mark, and reports", reportedOn(uninstalled(withLease(time.Hour, nil))), "", nil},
		{
			"a Lease with the mark, without reports", uninstalled(withLease(time.Second, nil)), "",
			[]cleanup.Kind{cleanup.InterceptorLease},
		},

		{
			"a throwaway canary of a killed command", withTrial(now.Add(-time.Minute).Format(time.RFC3339), false), "",
			[]cleanup.Kind{cleanup.Trial},
		},
		{"a running throwaway canary", withTrial(now.Add(time.Minute).Format(time.RFC3339), false), "", nil},
		{
			"a throwaway canary that is being deleted", withTrial(now.Add(-time.Minute).Format(time.RFC3339), true), "",
			nil,
		},
		{"a throwaway canary without a deadline", withTrial("", false), "", nil},
		{"a throwaway canary with an invalid deadline", withTrial("soon", false), "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got []cleanup.Kind
			for _, leftover := range cleanup.Find(test.cluster, test.namespace) {
				if leftover.Message == "" || leftover.Unowned != (leftover.Kinds[0] == cleanup.UnownedWeights) {
					t.Errorf("leftover %+v", leftover)
				}
				got = append(got, leftover.Kinds...)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRemovalsHavePreconditions: a removal changes nothing if the object is another one or has changed.
func TestRemovalsHavePreconditions(t *testing.T) {
	t.Parallel()
	leftover := cleanup.Find(cluster(map[string]string{
		weights: "", mark: "shop/web uid-of-web", managed: "[]", "http.kedify.io/stickiness": "{header: x-user}",
	}), "")
	const at = "/metadata/annotations/http.kedify.io~1weighted-backends"
	want := []cleanup.PatchOperation{
		{Op: "test", Path: "/metadata/uid", Value: types.UID("uid")},
		{Op: "test", Path: at, Value: ""},
		{Op: "test", Path: at + "-owner", Value: "shop/web uid-of-web"},
		{Op: "test", Path: "/metadata/annotations/http.kedify.io~1managed-routes", Value: "[]"},
		{Op: "test", Path: "/metadata/annotations/http.kedify.io~1stickiness", Value: "{header: x-user}"},
		{Op: "remove", Path: at},
		{Op: "remove", Path: at + "-owner"},
		{Op: "remove", Path: "/metadata/annotations/http.kedify.io~1managed-routes"},
		{Op: "remove", Path: "/metadata/annotations/http.kedify.io~1stickiness"},
	}
	if diff := cmp.Diff(want, leftover[0].Removal.Patch); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
	leftover = cleanup.Find(asRoute(cluster(map[string]string{weights: "", mark: "shop/web uid-of-web"})), "")
	if got := leftover[0]; got.Object != "InterceptorRoute shop/web" || got.Removal.Kind != "InterceptorRoute" ||
		got.Removal.Object != (types.NamespacedName{Namespace: "shop", Name: "web"}) {
		t.Errorf("the leftover of an InterceptorRoute: %+v", got)
	}
	for _, read := range []*cleanup.Precondition{
		cleanup.Find(withLease(time.Hour, nil), "")[0].Removal.Lease,
		cleanup.Find(reportedOn(withLease(time.Hour, nil)), "")[0].Removal.Uninstalled,
	} {
		if read == nil || read.UID != "1" || read.ResourceVersion != "2" {
			t.Errorf("the Lease has precondition %+v", read)
		}
	}
	trial := cleanup.Find(withTrial(now.Format(time.RFC3339), false), "")[0].Removal.Namespace
	if trial == nil || trial.UID != "1" || trial.ResourceVersion != "2" {
		t.Errorf("the namespace has precondition %+v", trial)
	}
}

func TestEveryKindIsDocumented(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("find.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	names := func(pattern string, text []byte) (all []string) {
		for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			all = append(all, string(match[1]))
		}
		slices.Sort(all)
		return all
	}
	declared := names(`Kind += "(\w+)"`, source)
	if diff := cmp.Diff(declared, names("(?m)^\\| `(\\w+)` \\| (?:HTTPScaledObject|HTTPScaledObject, InterceptorRoute|route|Lease|Namespace) \\|",
		page)); diff != "" || len(declared) != 11 {
		t.Errorf("kinds (-declared +documented):\n%s", diff)
	}
}
