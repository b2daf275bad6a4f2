package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/controlplane"
)

// namespace is where the routes are.
const namespace = "shop"

// collection is the REST path of the routes.
const collection = "/apis/gateway.networking.k8s.io/v1/namespaces/" + namespace + "/httproutes"

// sizes are how many routes a Rollout has.
func sizes() []int { return []int{1, 5, 20} }

// world is a cluster with HTTPRoutes, and clients for it.
type world struct {
	admin *rest.RESTClient // may do everything
	bare  *rest.RESTClient // the controller's ServiceAccount, like the plugin
}

// route is the name of a route of a Rollout.
func route(size, rollout, i int) string { return fmt.Sprintf("%s-%02d", rolloutName(size, rollout), i) }

// rolloutName is the name of a Rollout with size routes.
func rolloutName(size, i int) string { return fmt.Sprintf("web-%02d-%03d", size, i) }

// furnish installs what the router needs and creates the routes.
func furnish(ctx context.Context, cluster *controlplane.ControlPlane, chosen options) (*world, error) {
	admin, err := cluster.Client(controlplane.AdminToken)
	if err != nil {
		return nil, err
	}
	bare, err := cluster.Client(controlplane.RolloutsToken)
	if err != nil {
		return nil, err
	}
	w := &world{admin: admin, bare: bare}
	manifests := []string{"{apiVersion: v1, kind: Namespace, metadata: {name: " + namespace + "}}"}
	for _, file := range []string{
		filepath.Join(chosen.crds, "gateway.networking.k8s.io_httproutes.yaml"), filepath.Join(chosen.repo, "config/argo-rollouts/gatewayapi/rbac.yaml"),
	} {
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return nil, err
		}
		manifests = append(manifests, string(text))
	}
	for _, size := range sizes() {
		for rollout := range chosen.rollouts {
			for i := range size {
				manifests = append(manifests, manifest(size, rollout, i))
			}
		}
	}
	return w, controlplane.Apply(ctx, admin, namespace, manifests...)
}

// manifest is a route of an ordinary size: two rules with both Services of its Rollout, and one of somebody else's.
func manifest(size, rollout, i int) string {
	web := rolloutName(size, rollout)
	pair := fmt.Sprintf("[{name: %s-stable, port: 80, weight: 100}, {name: %s-canary, port: 80, weight: 0}]", web, web)
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %s, labels: {app: %s}}
spec:
  parentRefs: [{name: gateway, namespace: gateways}]
  hostnames: [%s.example.com]
  rules:
    - {name: api, matches: [{path: {type: PathPrefix, value: /api}}], timeouts: {request: 10s}, backendRefs: %s}
    - {name: pages, matches: [{path: {type: PathPrefix, value: /}}], backendRefs: %s}
    - {name: docs, matches: [{path: {type: PathPrefix, value: /docs}}], backendRefs: [{name: docs, port: 80}]}
`, route(size, rollout, i), web, route(size, rollout, i), pair, pair)
}

// getPut changes the weights of a route as the router does, but without anything around it.
func (w *world) getPut(ctx context.Context, size, rollout, i int, weight int64) error {
	path := collection + "/" + route(size, rollout, i)
	text, err := w.bare.Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return err
	}
	var read struct {
		APIVersion string          `json:"apiVersion"`
		Kind       string          `json:"kind"`
		Metadata   json.RawMessage `json:"metadata"`
		Spec       map[string]any  `json:"spec"`
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	rules, _ := read.Spec["rules"].([]any)
	for _, rule := range rules {
		fields, _ := rule.(map[string]any)
		refs, _ := fields["backendRefs"].([]any)
		if len(refs) != 2 {
			continue
		}
		for at, share := range []int64{100 - weight, weight} {
			ref, _ := refs[at].(map[string]any)
			ref["weight"] = share
		}
	}
	body, err := json.Marshal(read)
	if err != nil {
		return err
	}
	return w.bare.Put().AbsPath(path).Param("fieldManager", gatewayapi.FieldManager).Body(body).Do(ctx).Error()
}

// accept writes into the status of a route what its Gateway would: that it accepts the current generation.
func (w *world) accept(ctx context.Context, name string) error {
	text, err := w.admin.Get().AbsPath(collection + "/" + name).DoRaw(ctx)
	if err != nil {
		return err
	}
	var read struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	conditions := []metav1.Condition{}
	for _, kind := range []string{"Accepted", "ResolvedRefs"} {
		conditions = append(conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: kind, ObservedGeneration: read.Metadata.Generation, LastTransitionTime: metav1.Now(),
		})
	}
	parent := map[string]any{
		"parentRef": map[string]any{"name": "gateway", "namespace": "gateways"}, "controllerName": "bench.test/gateway", "conditions": conditions,
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"parents": []any{parent}}})
	if err != nil {
		return err
	}
	return w.admin.Patch(types.MergePatchType).AbsPath(collection + "/" + name + "/status").Body(body).Do(ctx).Error()
}

// served counts the requests for HTTPRoutes that the API server has answered so far.
func (w *world) served(ctx context.Context) (controlplane.RequestCounts, error) {
	return controlplane.CountRequests(ctx, w.admin, "httproutes")
}

// rollout is a Rollout as the controller sends it, with the routes that it names.
func rollout(size, number int) (*v1alpha1.Rollout, error) {
	type named struct {
		Name string `json:"name"`
	}
	routes := make([]named, size)
	for i := range routes {
		routes[i].Name = route(size, number, i)
	}
	config, err := json.Marshal(map[string]any{"httpRoutes": routes})
	if err != nil {
		return nil, err
	}
	replicas, web := int32(5), rolloutName(size, number)
	steps := make([]v1alpha1.CanaryStep, 0, 8)
	for _, weight := range []int32{20, 40, 60, 80} {
		steps = append(steps, v1alpha1.CanaryStep{SetWeight: &weight}, v1alpha1.CanaryStep{Pause: &v1alpha1.RolloutPause{}})
	}
	return &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: web, UID: types.UID("6f1c2c5e-0000-4000-8000-" + fmt.Sprintf("%06d%06d", size, number))},
		Spec: v1alpha1.RolloutSpec{
			Replicas: &replicas,
			Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
				StableService: web + "-stable", CanaryService: web + "-canary", Steps: steps,
				TrafficRouting: &v1alpha1.RolloutTrafficRouting{Plugins: map[string]json.RawMessage{gatewayapi.Type: config}},
			}},
		},
	}, nil
}
