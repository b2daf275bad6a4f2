package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/internal/split"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit/controlplane"
)

// namespace is where the objects are.
const namespace = "shop"

// world is a cluster with HTTPScaledObjects, and clients for it.
type world struct {
	admin *rest.RESTClient // may do everything
	bare  *rest.RESTClient // the controller's ServiceAccount, like the plugin
}

// rolesOfController are the rules of the Argo Rollouts controller's own ClusterRole that the router relies on (manifests/role/argo-rollouts-clusterrole.yaml).
const rolesOfController = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: argo-rollouts}
rules:
- {apiGroups: [argoproj.io], resources: [rollouts], verbs: [get, list, watch, update, patch]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, get, update]}
- {apiGroups: [""], resources: [endpoints], verbs: [get]}
- {apiGroups: [""], resources: [events], verbs: [create, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: argo-rollouts}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: argo-rollouts}
subjects:
- {kind: ServiceAccount, name: argo-rollouts, namespace: argo-rollouts}
`

// furnish installs what the router needs and creates the HTTPScaledObjects.
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
	crd, err := os.ReadFile(filepath.Clean(filepath.Join(chosen.repo, "config/crd/http.keda.sh_httpscaledobjects.yaml")))
	if err != nil {
		return nil, err
	}
	roles, err := os.ReadFile(filepath.Clean(filepath.Join(chosen.repo, "config/argo-rollouts/rbac.yaml")))
	if err != nil {
		return nil, err
	}
	if err := controlplane.Apply(ctx, admin, metav1.NamespaceDefault, string(crd), string(roles), rolesOfController); err != nil {
		return nil, err
	}
	for _, name := range []string{namespace, httpv1alpha1.DefaultInterceptorNamespace} {
		if err := controlplane.CreateNamespace(ctx, admin, name); err != nil {
			return nil, err
		}
	}
	if err := w.createObjects(ctx, chosen.objects); err != nil {
		return nil, err
	}
	return w, w.renewLease(ctx)
}

// collection is the REST path of the HTTPScaledObjects.
func collection() string {
	return "/apis/" + httpv1alpha1.SchemeGroupVersion.String() + "/namespaces/" + namespace + "/" + httpv1alpha1.Resource
}

// objectName is the name of an object and its Rollout.
func objectName(i int) string { return fmt.Sprintf("web-%05d", i) }

// createObjects creates the HTTPScaledObjects.
func (w *world) createObjects(ctx context.Context, count int) error {
	for i := range count {
		object := httpv1alpha1.HTTPScaledObject{
			TypeMeta:   metav1.TypeMeta{APIVersion: httpv1alpha1.SchemeGroupVersion.String(), Kind: httpv1alpha1.Kind},
			ObjectMeta: metav1.ObjectMeta{Name: objectName(i), Namespace: namespace, Labels: map[string]string{"app": objectName(i)}},
			Spec: httpv1alpha1.HTTPScaledObjectSpec{
				Hosts: []string{objectName(i) + ".shop.test"}, PathPrefixes: []string{"/"},
				ScaleTargetRef: httpv1alpha1.ScaleTargetRef{
					Name: objectName(i), APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Service: objectName(i) + "-stable", Port: 80,
				},
			},
		}
		if err := controlplane.Create(ctx, w.admin, collection(), object); err != nil {
			return fmt.Errorf("HTTPScaledObject %s: %w", object.Name, err)
		}
	}
	return nil
}

// renewLease creates the interceptors' Lease and renews it until ctx ends.
func (w *world) renewLease(ctx context.Context) error {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/" + httpv1alpha1.DefaultInterceptorNamespace + "/leases"
	spec := func() map[string]any {
		return map[string]any{"holderIdentity": "bench", "renewTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")}
	}
	err := controlplane.Create(ctx, w.admin, leases, map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"name": httpv1alpha1.DefaultInterceptorLease}, "spec": spec(),
	})
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(httpv1alpha1.LeaseRenewInterval):
				// A renewal that fails shows in the measurement: VerifyWeight would then need the annotation only.
				_ = patch(ctx, w.admin, leases+"/"+httpv1alpha1.DefaultInterceptorLease, map[string]any{"spec": spec()})
			}
		}
	}()
	return err
}

// patch sends a merge patch as the router does.
func patch(ctx context.Context, client rest.Interface, path string, change any) error {
	return controlplane.Patch(ctx, client, path, httpso.FieldManager, change)
}

// barePatch changes the annotations of object i to a canary weight, as the router does but without anything around it.
func (w *world) barePatch(ctx context.Context, i int, weight uint32) error {
	return patch(ctx, w.bare, collection()+"/"+objectName(i), map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		httpv1alpha1.AnnotationWeightedBackends:      text(i, weight),
		httpv1alpha1.AnnotationWeightedBackendsOwner: namespace + "/" + objectName(i) + " " + string(uid(i)),
	}}})
}

// report says for object i that one proxy took a canary weight.
func (w *world) report(ctx context.Context, i int, weight uint32) error {
	return patch(ctx, w.admin, collection()+"/"+objectName(i)+"/status", map[string]any{"status": map[string]any{"dataPlane": httpv1alpha1.DataPlaneStatus{
		AnnotationHash: split.Hash(text(i, weight)), Proxies: httpv1alpha1.ProxyCounts{Ready: 1, Acked: 1}, Effective: true, ReportedBy: "bench",
	}}})
}

// text is the annotation of object i at a canary weight.
func text(i int, weight uint32) string {
	return split.Format([]split.Backend{{Service: objectName(i) + "-stable", Weight: 100 - weight}, {Service: objectName(i) + "-canary", Weight: weight}})
}

// uid is that of Rollout i.
func uid(i int) types.UID { return types.UID(fmt.Sprintf("6f1c2c5e-0000-4000-8000-%012d", i)) }

// served counts the requests for HTTPScaledObjects that the API server has answered so far.
func (w *world) served(ctx context.Context) (controlplane.RequestCounts, error) {
	return controlplane.CountRequests(ctx, w.admin, httpv1alpha1.Resource)
}

// rollout is Rollout i as the controller sends it, of an ordinary size.
func rollout(i int) *v1alpha1.Rollout {
	replicas := int32(5)
	steps := make([]v1alpha1.CanaryStep, 0, 8)
	for _, weight := range []int32{20, 40, 60, 80} {
		steps = append(steps, v1alpha1.CanaryStep{SetWeight: &weight}, v1alpha1.CanaryStep{Pause: &v1alpha1.RolloutPause{}})
	}
	return &v1alpha1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: objectName(i), UID: uid(i), Labels: map[string]string{"app": objectName(i)}},
		Spec: v1alpha1.RolloutSpec{
			Replicas: &replicas,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "web", Image: "registry.test/shop/web:v2",
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				Env:   []corev1.EnvVar{{Name: "STAGE", Value: "production"}, {Name: "REGION", Value: "eu-1"}},
			}}}},
			Strategy: v1alpha1.RolloutStrategy{Canary: &v1alpha1.CanaryStrategy{
				StableService: objectName(i) + "-stable", CanaryService: objectName(i) + "-canary", Steps: steps,
				TrafficRouting: &v1alpha1.RolloutTrafficRouting{Plugins: map[string]json.RawMessage{
					httpso.Type: json.RawMessage(`{"httpScaledObjectName":"` + objectName(i) + `"}`),
				}},
			}},
		},
	}
}
