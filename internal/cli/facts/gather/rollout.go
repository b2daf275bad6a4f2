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
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// ErrRolloutNotFound reports that the requested Rollout does not exist.
var ErrRolloutNotFound = errors.New("Rollout not found")

// Rollout reads a Rollout and the objects that it references. Missing objects are not in the facts. It fails if an
// object cannot be read.
func (r *Reader) Rollout(ctx context.Context, name types.NamespacedName) (*facts.Facts, error) {
	cluster := &facts.Facts{Now: time.Now(), Services: map[types.NamespacedName]*corev1.Service{}}
	rollout, err := r.getRollout(ctx, name)
	if err != nil {
		return nil, err
	}
	cluster.Rollouts = []facts.Rollout{ParseRollout(rollout)}
	parsed := &cluster.Rollouts[0]
	if err := r.readObjects(ctx, cluster, parsed); err != nil {
		return nil, err
	}
	if err := r.readRoutes(ctx, cluster, parsed); err != nil {
		return nil, err
	}
	return cluster, r.readServices(ctx, cluster, parsed)
}

// rolloutPath, objectPath and routePath return the API paths of application objects.
func rolloutPath(name types.NamespacedName) []string {
	return namedPath("argoproj.io", "v1alpha1", "rollouts", name)
}

func objectPath(name types.NamespacedName) []string {
	return namedPath(httpv1alpha1.Group, httpv1alpha1.Version, httpv1alpha1.Resource, name)
}

func routePath(name types.NamespacedName) []string {
	return namedPath(httpv1beta1.Group, httpv1beta1.Version, httpv1beta1.Resource, name)
}

// namedPath returns the API path of an object of a resource.
func namedPath(group, version, resource string, name types.NamespacedName) []string {
	return []string{"apis", group, version, "namespaces", name.Namespace, resource, name.Name}
}

// readInterceptorRoute reads the InterceptorRoute that a Rollout references.
func (r *Reader) readInterceptorRoute(ctx context.Context, cluster *facts.Facts, rollout *facts.Rollout) error {
	name := types.NamespacedName{Namespace: rollout.Namespace, Name: rollout.InterceptorRoute}
	route, err := find[httpv1beta1.InterceptorRoute](ctx, r, routePath(name)...)
	if err != nil {
		return fmt.Errorf("InterceptorRoute %s: %w", name, err)
	}
	if route != nil {
		cluster.InterceptorRoutes = []httpv1alpha1.HTTPScaledObject{facts.NewInterceptorRoute(route)}
	}
	return nil
}

// readObjects reads the HTTPScaledObject that a Rollout references or, if it belongs to a ScaledObject, all of the
// namespace, including those of its other triggers.
func (r *Reader) readObjects(ctx context.Context, cluster *facts.Facts, rollout *facts.Rollout) error {
	if rollout.InterceptorRoute != "" {
		return r.readInterceptorRoute(ctx, cluster, rollout)
	}
	if rollout.Object == "" {
		return nil
	}
	name := types.NamespacedName{Namespace: rollout.Namespace, Name: rollout.Object}
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
	cluster.HTTPScaledObjects, err = list[httpv1alpha1.HTTPScaledObject](ctx, r,
		httpv1alpha1.Group+"/"+httpv1alpha1.Version, httpv1alpha1.Resource, rollout.Namespace, "")
	if err != nil {
		return fmt.Errorf("HTTPScaledObjects in namespace %q: %w", rollout.Namespace, err)
	}
	return nil
}

// readRoutes reads the routes of a Rollout.
func (r *Reader) readRoutes(ctx context.Context, cluster *facts.Facts, rollout *facts.Rollout) error {
	if len(rollout.RouteNames) == 0 && len(rollout.Selections) == 0 {
		return nil
	}
	served, err := r.servedRoutes(ctx)
	if err != nil {
		return fmt.Errorf("versions of the Gateway API: %w", err)
	}
	for _, reference := range rollout.RouteNames {
		if served[reference.Kind] == "" {
			continue
		}
		text, err := find[json.RawMessage](ctx, r,
			"apis", gatewayGroup, served[reference.Kind], "namespaces", reference.Name.Namespace, reference.Kind.Resource(),
			reference.Name.Name)
		if err == nil && text != nil {
			err = cluster.AddRoute(parseRoute(reference.Kind, served[reference.Kind], *text))
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", reference.Kind, reference.Name, err)
		}
	}
	for _, selection := range rollout.Selections {
		if served[selection.Kind] == "" {
			continue
		}
		items, err := list[json.RawMessage](ctx, r, gatewayGroup+"/"+served[selection.Kind], selection.Kind.Resource(),
			selection.Namespace, selection.Labels.String())
		for _, text := range items {
			err = errors.Join(err, cluster.AddRoute(parseRoute(selection.Kind, served[selection.Kind], text)))
		}
		if err != nil {
			return fmt.Errorf("%s selected by %s: %w", selection.Kind, selection.Field, err)
		}
	}
	return nil
}

// readServices reads the Services of a Rollout and their endpoints.
func (r *Reader) readServices(ctx context.Context, cluster *facts.Facts, rollout *facts.Rollout) error {
	names := serviceNames(rollout)
	for _, name := range names {
		service, err := find[corev1.Service](ctx, r, "api", "v1", "namespaces", rollout.Namespace, "services", name)
		if err != nil {
			return fmt.Errorf("service %s/%s: %w", rollout.Namespace, name, err)
		}
		if service != nil {
			cluster.Services[types.NamespacedName{Namespace: rollout.Namespace, Name: name}] = service
		}
	}
	if len(names) == 0 {
		return nil
	}
	items, err := list[discoveryv1.EndpointSlice](ctx, r, "discovery.k8s.io/v1", "endpointslices", rollout.Namespace,
		sliceSelector(names))
	if err != nil {
		return fmt.Errorf("EndpointSlices of %s: %w", strings.Join(names, ", "), err)
	}
	cluster.ReadyEndpoints = countReady(slices.Values(items))
	return nil
}

// serviceNames returns the Services of a Rollout, including those of its experiment.
func serviceNames(rollout *facts.Rollout) []string {
	var names []string
	if rollout.ServicesError == nil {
		names = []string{rollout.Stable, rollout.Canary}
	}
	if weights := rollout.Status.Canary.Weights; weights != nil {
		for _, other := range weights.Additional {
			if other.ServiceName != "" {
				names = append(names, other.ServiceName)
			}
		}
	}
	return names
}

// sliceSelector returns the label selector for the EndpointSlices of Services.
func sliceSelector(names []string) string {
	return discoveryv1.LabelServiceName + " in (" + strings.Join(names, ",") + ")"
}

// RolloutNames returns the names of the Rollouts in a namespace.
func (r *Reader) RolloutNames(ctx context.Context, namespace string) ([]string, error) {
	items, err := list[metav1.PartialObjectMetadata](ctx, r, "argoproj.io/v1alpha1", "rollouts", namespace, "")
	names := make([]string, len(items))
	for i := range items {
		names[i] = items[i].Name
	}
	return names, err
}
