package gather

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// ErrRolloutNotFound reports that the requested Rollout does not exist.
var ErrNoRollout = errors.New("Rollout not found")

// Rollout reads a Rollout and the objects that it references. Missing objects are not in the facts. It fails if an
// object cannot be read.
func (r *Reader) One(ctx context.Context, name types.NamespacedName) (*facts.Facts, error) {
	cluster := &facts.Facts{Now: time.Now(), Services: map[types.NamespacedName]*corev1.Service{}}
	rollout, err := r.rollout(ctx, name)
	if err != nil {
		return nil, err
	}
	cluster.Rollouts = []facts.Rollout{Understand(rollout)}
	one := &cluster.Rollouts[0]
	if err := r.objectOf(ctx, cluster, one); err != nil {
		return nil, err
	}
	if err := r.routesOf(ctx, cluster, one); err != nil {
		return nil, err
	}
	return cluster, r.servicesOf(ctx, cluster, one)
}

// rolloutPath and objectPath return the API paths of application objects.
func rolloutPath(name types.NamespacedName) []string {
	return []string{"apis", "argoproj.io", "v1alpha1", "namespaces", name.Namespace, "rollouts", name.Name}
}

func objectPath(name types.NamespacedName) []string {
	return []string{"apis", httpv1alpha1.Group, httpv1alpha1.Version, "namespaces", name.Namespace, httpv1alpha1.Resource, name.Name}
}

// readObjects reads the HTTPScaledObject that a Rollout references or, if it belongs to a ScaledObject, all of the
// namespace, including those of its other triggers.
func (r *Reader) objectOf(ctx context.Context, cluster *facts.Facts, one *facts.Rollout) error {
	if one.Object == "" {
		return nil
	}
	name := types.NamespacedName{Namespace: one.Namespace, Name: one.Object}
	object, err := find[httpv1alpha1.HTTPScaledObject](ctx, r, objectPath(name)...)
	if err != nil {
		return fmt.Errorf("HTTPScaledObject %s: %w", name, err)
	}
	if object == nil {
		return nil
	}
	cluster.HTTPScaledObjects = []httpv1alpha1.HTTPScaledObject{*object}
	if httpv1alpha1.ScaledObjectOf(object) == "" {
		return nil
	}
	cluster.HTTPScaledObjects, err = list[httpv1alpha1.HTTPScaledObject](ctx, r, httpv1alpha1.Group+"/"+httpv1alpha1.Version, httpv1alpha1.Resource, one.Namespace, "")
	if err != nil {
		return fmt.Errorf("HTTPScaledObjects in namespace %q: %w", one.Namespace, err)
	}
	return nil
}

// readRoutes reads the routes of a Rollout.
func (r *Reader) routesOf(ctx context.Context, cluster *facts.Facts, one *facts.Rollout) error {
	if len(one.RouteNames) == 0 && len(one.Selections) == 0 {
		return nil
	}
	served, err := r.servedRoutes(ctx)
	if err != nil {
		return fmt.Errorf("versions of the Gateway API: %w", err)
	}
	for _, named := range one.RouteNames {
		if served[named.Kind] == "" {
			continue
		}
		text, err := find[json.RawMessage](ctx, r,
			"apis", gatewayGroup, served[named.Kind], "namespaces", named.Name.Namespace, named.Kind.Resource(), named.Name.Name)
		if err == nil && text != nil {
			err = cluster.AddRoute(parseRoute(named.Kind, served[named.Kind], *text))
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", named.Kind, named.Name, err)
		}
	}
	for _, chosen := range one.Selections {
		if served[chosen.Kind] == "" {
			continue
		}
		found, err := list[json.RawMessage](ctx, r, gatewayGroup+"/"+served[chosen.Kind], chosen.Kind.Resource(), chosen.Namespace, chosen.Labels.String())
		for _, text := range found {
			err = errors.Join(err, cluster.AddRoute(parseRoute(chosen.Kind, served[chosen.Kind], text)))
		}
		if err != nil {
			return fmt.Errorf("%s selected by %s: %w", chosen.Kind, chosen.Field, err)
		}
	}
	return nil
}

// readServices reads the Services of a Rollout and their endpoints.
func (r *Reader) servicesOf(ctx context.Context, cluster *facts.Facts, one *facts.Rollout) error {
	names := serviceNames(one)
	for _, name := range names {
		service, err := find[corev1.Service](ctx, r, "api", "v1", "namespaces", one.Namespace, "services", name)
		if err != nil {
			return fmt.Errorf("service %s/%s: %w", one.Namespace, name, err)
		}
		if service != nil {
			cluster.Services[types.NamespacedName{Namespace: one.Namespace, Name: name}] = service
		}
	}
	if len(names) == 0 {
		return nil
	}
	found, err := list[discoveryv1.EndpointSlice](ctx, r, "discovery.k8s.io/v1", "endpointslices", one.Namespace, slicesOf(names))
	if err != nil {
		return fmt.Errorf("EndpointSlices of %s: %w", strings.Join(names, ", "), err)
	}
	cluster.Ready = countReady(slices.Values(found))
	return nil
}

// serviceNames returns the Services of a Rollout, including those of its experiment.
func serviceNames(one *facts.Rollout) []string {
	var names []string
	if one.ServicesError == nil {
		names = []string{one.Stable, one.Canary}
	}
	if weights := one.Status.Canary.Weights; weights != nil {
		for _, other := range weights.Additional {
			if other.ServiceName != "" {
				names = append(names, other.ServiceName)
			}
		}
	}
	return names
}

// sliceSelector returns the label selector for the EndpointSlices of Services.
func slicesOf(names []string) string {
	return discoveryv1.LabelServiceName + " in (" + strings.Join(names, ",") + ")"
}

// RolloutNames returns the names of the Rollouts in a namespace.
func (r *Reader) RolloutNames(ctx context.Context, namespace string) ([]string, error) {
	found, err := list[metav1.PartialObjectMetadata](ctx, r, "argoproj.io/v1alpha1", "rollouts", namespace, "")
	names := make([]string, len(found))
	for i := range found {
		names[i] = found[i].Name
	}
	return names, err
}
