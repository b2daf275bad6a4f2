package counts_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

const (
	putRoute   = "update httproutes"
	getRoute   = "get httproutes"
	listRoutes = "list httproutes"
	// routesPerRollout is the number of routes of a Rollout. The first one has header and mirror routes.
	routesPerRollout = 2
)

// httpRoute is the i-th route of Rollout n.
const httpRoute = `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: web-%d-%d},
  spec: {parentRefs: [{name: gateway}],
    rules: [{backendRefs: [{name: web-%[1]d-stable, port: 80}, {name: web-%[1]d-canary, port: 80}]}]}}`

// routesRollout returns promoted Rollout n with routesPerRollout routes.
func routesRollout(n int) *v1alpha1.Rollout {
	return rollout(n, gatewayapi.Type,
		fmt.Sprintf(`{"httpRoutes":[{"name":"web-%d-0","useHeaderRoutes":true},{"name":"web-%[1]d-1"}]}`, n))
}

// routesCanary returns these Rollouts in a canary, at the step with this index.
func routesCanary(index int32) func(n int) *v1alpha1.Rollout {
	return func(n int) *v1alpha1.Rollout {
		r := routesRollout(n)
		r.Annotations = map[string]string{"rollout.argoproj.io/revision": "2"}
		r.Status.StableRS, r.Status.CurrentPodHash, r.Status.CurrentStepIndex = "old", "new", &index
		canary := r.Spec.Strategy.Canary
		canary.TrafficRouting.ManagedRoutes = []v1alpha1.MangedRoutes{
			{Name: headerRoute().Name},
			{Name: mirrorRoute().Name},
		}
		canary.Steps = []v1alpha1.CanaryStep{
			{SetWeight: new(int32(20))},
			{SetHeaderRoute: headerRoute()},
			{SetMirrorRoute: mirrorRoute()},
			{SetWeight: new(int32(100))},
		}
		return r
	}
}

// accept accepts the routes of a Rollout as a Gateway controller does.
func accept(ctx context.Context) func(n int) error {
	return func(n int) error {
		for i := range routesPerRollout {
			path := fmt.Sprintf("/apis/gateway.networking.k8s.io/v1/namespaces/%s/httproutes/web-%d-%d", namespace, n,
				i)
			text, err := shared.admin.Get().AbsPath(path).DoRaw(ctx)
			if err != nil {
				return err
			}
			var live metav1.PartialObjectMetadata
			if err := json.Unmarshal(text, &live); err != nil {
				return err
			}
			var conditions []metav1.Condition
			for _, kind := range []string{"Accepted", "ResolvedRefs"} {
				conditions = append(conditions, metav1.Condition{
					Type: kind, Status: metav1.ConditionTrue, Reason: kind,
					ObservedGeneration: live.Generation, LastTransitionTime: metav1.Now(),
				})
			}
			parent := map[string]any{
				"parentRef": map[string]any{"name": "gateway"}, "controllerName": "test.example/gateway",
				"conditions": conditions,
			}
			status := map[string]any{"status": map[string]any{"parents": []any{parent}}}
			if err := apiserver.Patch(ctx, shared.admin, path+"/status", "test", status); err != nil {
				return err
			}
		}
		return nil
	}
}

// awaitSchema waits until the API server publishes the schema of HTTPRoutes, from which the router reads the supported
// fields.
func awaitSchema(t *testing.T) {
	t.Helper()
	await.True(t, "the schema of HTTPRoutes", func() bool {
		text, err := shared.admin.Get().AbsPath("/openapi/v3/apis/gateway.networking.k8s.io/v1").DoRaw(t.Context())
		return err == nil && bytes.Contains(text, []byte("requestMirror"))
	})
}

func TestRequestsForRoutes(t *testing.T) {
	ctx := t.Context()
	awaitSchema(t)
	for n := range rollouts {
		for i := range routesPerRollout {
			shared.apply(t, fmt.Sprintf(httpRoute, n, i))
		}
	}
	asked := start(t, "gatewayapi-plugin", apiserver.RolloutsToken)
	at := func(index int32) calls { return calls{asked, routesCanary(index)} }
	first, header, mirror, full, promoted := at(0), at(1), at(2).atWeight(20), at(3), calls{asked, routesRollout}
	weights := first.atWeight(20)
	asked.awaitWatch(t, promoted.removeManagedRoutes)
	asked.run(t,
		step{name: "SetWeight, another weight", call: first.setWeight(20), want: requests{putRoute: routesPerRollout}},
		step{name: "SetWeight, the same weight", call: weights.setWeight(20)},
		step{name: "UpdateHash, in a canary", call: weights.updateHash("new", "old")},
		step{name: "VerifyWeight, nothing accepted", call: weights.expectUnverified(20)},
		step{name: "VerifyWeight", before: accept(ctx), call: weights.verify(ctx, 20)},
		// These results are never based on a watch: the end of a step, an unverified weight, which costs the controller
		// 10 s, and the full weight, after which the old Pods are removed.
		step{
			name: "VerifyWeight, in the first reconcile of a step", call: first.verify(ctx, 20),
			want: requests{getRoute: routesPerRollout},
		},
		step{
			name: "VerifyWeight, another weight", call: weights.expectUnverified(30),
			want: requests{getRoute: routesPerRollout},
		},
		step{name: "SetHeaderRoute", call: header.setHeaderRoute, want: requests{putRoute: 1}},
		step{name: "SetHeaderRoute, the same", call: header.setHeaderRoute},
		step{name: "SetMirrorRoute", call: mirror.setMirrorRoute, want: requests{putRoute: 1}},
		step{name: "SetMirrorRoute, the same", call: mirror.setMirrorRoute},
		step{name: "SetWeight, with managed routes", call: mirror.setWeight(20)},
		step{name: "RemoveManagedRoutes", call: full.removeManagedRoutes, want: requests{putRoute: 1}},
		step{name: "RemoveManagedRoutes, none", call: full.removeManagedRoutes},
		step{name: "SetWeight, full", call: full.setWeight(100), want: requests{putRoute: routesPerRollout}},
		step{
			name: "VerifyWeight, full", before: accept(ctx), call: full.verify(ctx, 100),
			want: requests{getRoute: routesPerRollout},
		},
		step{name: "UpdateHash, a promotion", call: promoted.updateHash("new", "new"), want: requests{getEndpoints: 2}},
		// The second write of each route releases its fields.
		step{name: "SetWeight, none", call: promoted.setWeight(0), want: requests{putRoute: 2 * routesPerRollout}},
		step{name: "an idle resync", before: accept(ctx), call: promoted.reconcile(ctx)},
	)

	blind := calls{start(t, "gatewayapi-plugin", apiserver.UnprivilegedToken, listRoutes), routesRollout}
	forAll(t, "the first call, which reads the API resources of the cluster", blind.removeManagedRoutes)
	blind.run(t, step{
		name: "an idle resync without a watch", call: blind.reconcile(ctx),
		want: requests{getRoute: 4 * routesPerRollout},
	})
	if blind.excluded[listRoutes] == 0 {
		t.Error("the plugin without permission to watch has not tried to")
	}
}
