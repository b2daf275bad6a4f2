package split_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
	modelsplit "github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// canaryWeights is the annotation at a weight of 20.
const canaryWeights = "- service: stable\n  weight: 80\n- service: canary\n  weight: 20\n"

// rollout returns a Rollout in its second step of two, at a weight of 20.
func rollout(router string) *facts.Rollout {
	step := int32(1)
	r := &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
			StableService: "stable", CanaryService: "canary", Steps: make([]v1alpha1.CanaryStep, 2),
			TrafficRouting: &v1alpha1.RolloutTrafficRouting{Plugins: map[string]json.RawMessage{router: nil}},
		}}},
		Status: v1alpha1.RolloutStatus{
			Phase: v1alpha1.RolloutPhasePaused, CurrentStepIndex: &step, Replicas: 3, UpdatedReplicas: 1,
			AvailableReplicas: 3,
			Canary: v1alpha1.CanaryStatus{Weights: &v1alpha1.TrafficWeights{
				Stable: v1alpha1.WeightDestination{Weight: 80}, Canary: v1alpha1.WeightDestination{Weight: 20},
			}},
		},
	}
	return &facts.Rollout{
		Rollout: r, Stable: "stable", Canary: "canary", Object: "web",
		RouteNames: []facts.RouteName{{
			Kind: route.HTTPRoute,
			Name: types.NamespacedName{Namespace: "shop", Name: "web"},
		}},
	}
}

// applied returns a report of an interceptor about the annotation text.
func applied(text string, ready, acked int32, effective bool) *httpv1alpha1.DataPlaneStatus {
	return &httpv1alpha1.DataPlaneStatus{
		AnnotationHash: modelsplit.Hash(text, ""), Proxies: httpv1alpha1.ProxyCounts{Ready: ready, Acked: acked},
		Effective: effective,
	}
}

func TestSplitOfAnHTTPScaledObject(t *testing.T) {
	t.Parallel()
	const name = "HTTPScaledObject shop/web"
	for _, test := range []struct {
		name   string
		text   string
		report *httpv1alpha1.DataPlaneStatus
		want   split.Object
	}{
		{
			"taken", canaryWeights, applied(canaryWeights, 2, 2, true),
			split.Object{
				Name: name, Written: []int64{80, 20}, AsDesired: true, Applied: split.Yes,
				Proxies: &split.Proxies{Ready: 2, Acked: 2},
			},
		},
		{
			"the same ratio", "[{service: stable, weight: 4}, {service: canary, weight: 1}]", nil,
			split.Object{
				Name: name, Written: []int64{4, 1}, AsDesired: true, Applied: split.Unknown,
				Reason: "no interceptor has reported",
			},
		},
		{
			"not acknowledged by all proxies", canaryWeights, applied(canaryWeights, 2, 1, false),
			split.Object{
				Name: name, Written: []int64{80, 20}, AsDesired: true, Applied: split.No,
				Reason:  "acknowledged by 1 of 2 Ready proxies",
				Proxies: &split.Proxies{Ready: 2, Acked: 1},
			},
		},
		{
			"a report for the previous weight", canaryWeights, applied("", 2, 2, true),
			split.Object{
				Name: name, Written: []int64{80, 20}, AsDesired: true, Applied: split.No,
				Reason:  "the last report is for an earlier annotation",
				Proxies: &split.Proxies{Ready: 2, Acked: 2},
			},
		},
		{
			"no proxy", canaryWeights, applied(canaryWeights, 0, 0, false),
			split.Object{
				Name: name, Written: []int64{80, 20}, AsDesired: true, Applied: split.Unknown,
				Reason: "no proxy is Ready", Proxies: &split.Proxies{},
			},
		},
		{
			"redirected", canaryWeights, applied(canaryWeights, 1, 1, false),
			split.Object{
				Name: name, Written: []int64{80, 20}, AsDesired: true, Applied: split.No,
				Reason:  "requests are redirected: a Service has no ready endpoint",
				Proxies: &split.Proxies{Ready: 1, Acked: 1},
			},
		},
		{
			"not written yet", "", applied("", 1, 1, true),
			split.Object{
				Name: name, Written: []int64{100, 0}, Applied: split.Yes,
				Proxies: &split.Proxies{Ready: 1, Acked: 1},
			},
		},
		{
			"requests to another Service",
			"[{service: stable, weight: 80}, {service: canary, weight: 20}, {service: other, weight: 1}]", nil,
			split.Object{
				Name: name, Written: []int64{80, 20}, Applied: split.Unknown,
				Reason: "no interceptor has reported",
			},
		},
		{
			"malformed", "[", nil,
			split.Object{
				Name:    name,
				Problem: "not a YAML list of {service, weight}: yaml: line 1: did not find expected node content",
				Applied: split.Unknown,
				Reason:  "no interceptor has reported",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			object := httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
			object.Spec.ScaleTargetRef.Service, object.Status.DataPlane = "stable", test.report
			if test.text != "" {
				object.Annotations = map[string]string{httpv1alpha1.AnnotationWeightedBackends: test.text}
			}
			cluster := &facts.Facts{HTTPScaledObjects: []httpv1alpha1.HTTPScaledObject{object}}
			got := split.Of(cluster, rollout(facts.HTTPRouter)).Objects
			if diff := cmp.Diff([]split.Object{test.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSplitOfSeveralTriggers: the Rollout references one HTTPScaledObject of a ScaledObject with two triggers.
func TestSplitOfSeveralTriggers(t *testing.T) {
	t.Parallel()
	cluster := &facts.Facts{}
	for _, spec := range []struct{ namespace, name, scaled, text string }{
		{"shop", "web-api", "web", ""},
		{"shop", "web", "web", canaryWeights},
		{"shop", "next", "next", canaryWeights},
		{"bank", "web-bank", "web", canaryWeights},
	} {
		object := httpv1alpha1.HTTPScaledObject{ObjectMeta: metav1.ObjectMeta{
			Namespace: spec.namespace, Name: spec.name,
			Annotations: map[string]string{httpv1alpha1.AnnotationWeightedBackends: spec.text},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject",
				Name: spec.scaled, Controller: new(true),
			}},
		}}
		object.Spec.ScaleTargetRef.Service = "stable"
		cluster.HTTPScaledObjects = append(cluster.HTTPScaledObjects, object)
	}
	unknown := split.Object{Applied: split.Unknown, Reason: "no interceptor has reported"}
	web, api := unknown, unknown
	web.Name, web.Written, web.AsDesired = "HTTPScaledObject shop/web", []int64{80, 20}, true
	api.Name, api.Written = "HTTPScaledObject shop/web-api", []int64{100, 0}
	if diff := cmp.Diff([]split.Object{web, api}, split.Of(cluster, rollout(facts.HTTPRouter)).Objects); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// gatewayRoute returns a route with rules and, if generation is not 0, a parent status for it.
func gatewayRoute(generation int64, rules ...any) facts.Route {
	content := map[string]any{
		"metadata": map[string]any{"namespace": "shop", "name": "web", "generation": int64(2)},
		"spec":     map[string]any{"parentRefs": []any{map[string]any{"name": "gateway"}}, "rules": rules},
	}
	if generation > 0 {
		condition := func(kind string) any {
			return map[string]any{"type": kind, "status": "True", "observedGeneration": generation}
		}
		content["status"] = map[string]any{"parents": []any{map[string]any{
			"parentRef": map[string]any{"name": "gateway"}, "controllerName": "example.com/gateway",
			"conditions": []any{condition("Accepted"), condition("ResolvedRefs")},
		}}}
	}
	return facts.Route{
		Kind: route.HTTPRoute, Name: types.NamespacedName{Namespace: "shop", Name: "web"},
		Content: content,
	}
}

// rule returns a rule with backends stable and canary; a negative weight is omitted.
func rule(stable, canary int64) any {
	backend := func(name string, weight int64) any {
		ref := map[string]any{"name": name, "port": int64(80)}
		if weight >= 0 {
			ref["weight"] = weight
		}
		return ref
	}
	return map[string]any{"backendRefs": []any{backend("canary", canary), backend("stable", stable)}}
}

func TestSplitOfARoute(t *testing.T) {
	t.Parallel()
	const name = "HTTPRoute shop/web"
	for _, test := range []struct {
		name  string
		route *facts.Route
		want  []split.Object
	}{
		{
			"accepted", new(gatewayRoute(2, rule(80, 20))),
			[]split.Object{{Name: name, Written: []int64{80, 20}, AsDesired: true, Applied: split.Yes}},
		},
		{
			"one of two rules", new(gatewayRoute(2, rule(80, 20), rule(-1, -1))),
			[]split.Object{
				{Name: name + " spec.rules[0]", Written: []int64{80, 20}, AsDesired: true, Applied: split.Yes},
				{Name: name + " spec.rules[1]", Written: []int64{1, 1}, Applied: split.Yes},
			},
		},
		{
			"a report for an earlier generation", new(gatewayRoute(1, rule(80, 20))),
			[]split.Object{{
				Name: name, Written: []int64{80, 20}, AsDesired: true, Applied: split.No,
				Reason: "status.parents[0] (example.com/gateway): condition Accepted is about generation 1, the " +
					"route has 2",
			}},
		},
		{
			"no report", new(gatewayRoute(0, rule(80, 20))),
			[]split.Object{{
				Name: name, Written: []int64{80, 20}, AsDesired: true, Applied: split.Unknown,
				Reason: "no Gateway has reported",
			}},
		},
		{"no route", nil, []split.Object{{Name: name, Problem: "does not exist", Applied: split.Unknown}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cluster := &facts.Facts{}
			if test.route != nil {
				cluster.Routes = append(cluster.Routes, *test.route)
			}
			if diff := cmp.Diff(test.want, split.Of(cluster, rollout(facts.GatewayRouter)).Objects); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	cluster := &facts.Facts{
		ReadyEndpoints: map[types.NamespacedName]int{
			{Namespace: "shop", Name: "stable"}:    2,
			{Namespace: "shop", Name: "candidate"}: 1,
		},
		Services: map[types.NamespacedName]*corev1.Service{{Namespace: "shop", Name: "canary"}: {
			Spec: corev1.ServiceSpec{Selector: map[string]string{"rollouts-pod-template-hash": "222"}},
		}},
	}
	r := rollout("another/router")
	r.Status.Canary.Weights.Stable.Weight = 70
	r.Status.Canary.Weights.Additional = []v1alpha1.WeightDestination{{ServiceName: "candidate", Weight: 10}}
	want := split.Report{
		Rollout: "shop/web", Phase: "Paused", Step: 2, Steps: 2,
		Replicas: split.Replicas{Total: 3, Updated: 1, Available: 3},
		Services: []split.Service{
			{Role: split.Stable, Name: "stable", Endpoints: 2, Desired: 70},
			{Role: split.Canary, Name: "canary", Hash: "222", Desired: 20},
			{Role: split.Experiment, Name: "candidate", Endpoints: 1, Desired: 10},
		},
		Objects: []split.Object{},
		Conditions: []split.Condition{
			{
				Type: split.Ready, Status: metav1.ConditionFalse, Reason: "NoRoutingObject",
				Message: "the Rollout configures neither kedify/http nor argoproj-labs/gatewayAPI",
			},
			{Type: split.Written, Status: metav1.ConditionUnknown, Reason: "NoRoutingObject"},
			{Type: split.Verified, Status: metav1.ConditionUnknown, Reason: "NoRoutingObject"},
			{Type: split.Promoted, Status: metav1.ConditionFalse, Reason: "Paused"},
		},
	}
	if diff := cmp.Diff(want, split.Of(cluster, r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	r = rollout(facts.HTTPRouter)
	r.Status, r.ObjectError = v1alpha1.RolloutStatus{}, errors.New("its configuration is missing")
	got := split.Of(cluster, r)
	if got.Services[0].Desired != 100 || got.Services[1].Desired != 0 || got.Step != 1 {
		t.Errorf("before the first weight the stable Service gets all requests, in the first step: %+v", got)
	}
	if diff := cmp.Diff([]split.Object{{
		Name: "HTTPScaledObject", Problem: "its configuration is missing",
		Applied: split.Unknown,
	}}, got.Objects); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
