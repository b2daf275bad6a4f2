package gather

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// ErrObjectNotFound reports that the requested HTTPScaledObject does not exist.
var ErrObjectNotFound = errors.New("HTTPScaledObject not found")

// Canaries reads the Rollouts and the objects that a list of canaries depends on. It fails if Rollouts cannot be read;
// other resources that cannot be read are in Unread of the result.
func (r *Reader) Canaries(ctx context.Context) (*facts.Facts, error) {
	if err := r.checkConnection(ctx); err != nil {
		return nil, err
	}
	cluster := &facts.Facts{Now: time.Now(), Services: map[types.NamespacedName]*corev1.Service{}}
	if err := r.rollouts(ctx, cluster); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", facts.Rollouts, err)
	}
	err := readSteps(ctx, cluster, []step{
		{facts.HTTPScaledObjects, r.httpScaledObjects}, {facts.Routes, r.routes}, {facts.EndpointSlices, r.endpoints},
	}, func(resource facts.Resource, err error) error {
		recordError(cluster, resource, err)
		return nil
	})
	return cluster, errors.Join(err, ctx.Err())
}

// RolloutOf returns the Rollout that references an HTTPScaledObject. If none does, it returns the object and the
// endpoints of its namespace as facts instead.
func (r *Reader) RolloutOf(ctx context.Context, name types.NamespacedName) (types.NamespacedName, *facts.Facts, error) {
	object, err := find[httpv1alpha1.HTTPScaledObject](ctx, r, objectPath(name)...)
	switch {
	case err != nil:
		return types.NamespacedName{}, nil, fmt.Errorf("HTTPScaledObject %s: %w", name, err)
	case object == nil:
		return types.NamespacedName{}, nil, fmt.Errorf("%w: %s", ErrObjectNotFound, name)
	}
	reader := New(r.client, name.Namespace)
	items, err := list[v1alpha1.Rollout](ctx, r, "argoproj.io/v1alpha1", "rollouts", name.Namespace, "")
	if err != nil {
		return types.NamespacedName{}, nil, fmt.Errorf("rollouts in namespace %s: %w", name.Namespace, err)
	}
	cluster := &facts.Facts{Now: time.Now()}
	for i := range items {
		cluster.Rollouts = append(cluster.Rollouts, ParseRollout(&items[i]))
	}
	if err := reader.httpScaledObjects(ctx, cluster); err != nil {
		return types.NamespacedName{}, nil, fmt.Errorf("HTTPScaledObjects in namespace %s: %w", name.Namespace, err)
	}
	for i := range cluster.Rollouts {
		for _, referenced := range cluster.ObjectsOf(&cluster.Rollouts[i]) {
			if referenced.Name == name.Name && facts.KindOf(referenced) == httpv1alpha1.Kind {
				return cluster.Rollouts[i].Key(), nil, nil
			}
		}
	}
	return types.NamespacedName{}, cluster, reader.endpoints(ctx, cluster)
}

// ObjectNames returns the names of the HTTPScaledObjects in a namespace.
func (r *Reader) ObjectNames(ctx context.Context, namespace string) ([]string, error) {
	items, err := list[metav1.PartialObjectMetadata](ctx, r, httpv1alpha1.SchemeGroupVersion.String(),
		httpv1alpha1.Resource, namespace, "")
	names := make([]string, len(items))
	for i := range items {
		names[i] = items[i].Name
	}
	return names, err
}

// Components reads the Deployments of the components and the controller's list of plugins. It fails if the Deployments
// cannot be read.
func (r *Reader) Components(ctx context.Context) (*facts.Facts, error) {
	if err := r.checkConnection(ctx); err != nil {
		return nil, err
	}
	cluster := &facts.Facts{Now: time.Now()}
	err := readSteps(ctx, cluster, []step{
		{facts.Deployments, r.deployments}, {facts.Deployments, r.proxies}, {facts.Plugins, r.plugins},
	}, func(resource facts.Resource, err error) error {
		if resource == facts.Deployments {
			return fmt.Errorf("%s cannot be read: %w", resource, err)
		}
		recordError(cluster, resource, err)
		return nil
	})
	return cluster, err
}
