package install_test

import (
	"encoding/json"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	status := func(observed int64, all, updated, available int32) appsv1.DeploymentStatus {
		return appsv1.DeploymentStatus{
			ObservedGeneration: observed, Replicas: all, UpdatedReplicas: updated,
			AvailableReplicas: available,
		}
	}
	two, none := int32(2), int32(0)
	for _, test := range []struct {
		name     string
		replicas *int32
		status   appsv1.DeploymentStatus
		state    string
		done     bool
	}{
		{"just changed", &two, status(6, 2, 2, 2), "waiting for the spec update to be observed", false},
		{
			"the first new Pod is starting", &two, status(7, 3, 1, 2), "1 of 2 replicas updated, 2 old, 2 available",
			false,
		},
		{"an old Pod is left", &two, status(7, 3, 2, 3), "2 of 2 replicas updated, 1 old, 3 available", false},
		{"one is not available", &two, status(7, 2, 2, 1), "2 of 2 replicas updated, 0 old, 1 available", false},
		{"all are available", &two, status(7, 2, 2, 2), "2 of 2 replicas updated, 0 old, 2 available", true},
		{"one replica by default", nil, status(7, 0, 0, 0), "0 of 1 replicas updated, 0 old, 0 available", false},
		{"zero replicas", &none, status(7, 0, 0, 0), "0 of 0 replicas updated, 0 old, 0 available", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			state, done := install.Progress(&appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Generation: 7}, Spec: appsv1.DeploymentSpec{Replicas: test.replicas},
				Status: test.status,
			})
			if state != test.state || done != test.done {
				t.Errorf("%q, %v", state, done)
			}
		})
	}
}

func TestUses(t *testing.T) {
	t.Parallel()
	rollout := func(name, router string) facts.Rollout {
		return facts.Rollout{Rollout: &v1alpha1.Rollout{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: v1alpha1.RolloutSpec{Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
				TrafficRouting: &v1alpha1.RolloutTrafficRouting{Plugins: map[string]json.RawMessage{router: nil}},
			}}},
		}}
	}
	scaled := facts.ScaledObject{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "scaled"}}
	if err := json.Unmarshal([]byte(`[{"type": "kedify-http"}]`), &scaled.Spec.Triggers); err != nil {
		t.Fatal(err)
	}
	cluster := &facts.Facts{
		Rollouts:      []facts.Rollout{rollout("web", "kedify/http"), rollout("api", "somebody/else")},
		ScaledObjects: []facts.ScaledObject{scaled, {ObjectMeta: metav1.ObjectMeta{Name: "cron"}}},
		HTTPScaledObjects: []httpv1alpha1.HTTPScaledObject{{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop",
			Name:      "web",
		}}},
	}
	const routes, scales = "Rollout shop/web uses router kedify/http: its canaries would stop", "ScaledObject " +
		"shop/scaled uses the scaler: it would keep its current replicas"
	for _, test := range []struct {
		name  string
		owned install.Owned
		want  []string
	}{
		{"nothing is owned", install.Owned{}, nil},
		{"another router", install.Owned{Routers: []string{"argoproj-labs/gatewayAPI"}}, nil},
		{"the router", install.Owned{Routers: []string{"kedify/http"}}, []string{routes}},
		{"the scaler", install.Owned{HasScaler: true}, []string{scales}},
		{
			"the CRD",
			install.Owned{HasCRD: true},
			[]string{"HTTPScaledObject shop/web would be deleted together with its CustomResourceDefinition"},
		},
		{"two", install.Owned{Routers: []string{"kedify/http"}, HasScaler: true}, []string{routes, scales}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, install.Uses(cluster, test.owned)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
