package facts

import (
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// The names of the routers in Rollouts.
const (
	// HTTPRouter writes weights to HTTPScaledObjects.
	HTTPRouter = "kedify/http"
	// GatewayRouter writes weights to Gateway API routes.
	GatewayRouter = "argoproj-labs/gatewayAPI"
)

// Rollout is a Rollout with the parsed configuration of its routers.
type Rollout struct {
	*v1alpha1.Rollout

	// Stable and Canary are its current Services. They are empty if ServicesError is set.
	Stable, Canary string
	ServicesError  error
	// Object is the HTTPScaledObject that it references for HTTPRouter. It is empty if ObjectError or InterceptorRoute is
	// set.
	Object      string
	ObjectError error
	// InterceptorRoute is the InterceptorRoute that it references for HTTPRouter instead.
	InterceptorRoute string
	// RouteNames and Selections are the routes that it references for GatewayRouter. They are empty if RoutesError is
	// set.
	RouteNames  []RouteName
	Selections  []Selection
	RoutesError error
}

// RouteName is a reference to a route in a Rollout.
type RouteName struct {
	Kind     route.Kind
	Name     types.NamespacedName
	RuleName string // the name of the only rule; empty for all rules
	Field    string // the field of the Rollout
}

// Selection is a reference to routes by labels in a Rollout.
type Selection struct {
	Kind      route.Kind
	Namespace string
	Labels    labels.Selector
	Field     string // the field of the Rollout
}

// Key returns the Rollout's namespace and name.
func (r *Rollout) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// RouterNames returns the names of the traffic router plugins that the Rollout configures, sorted.
func (r *Rollout) RouterNames() []string {
	var names []string
	if canary := r.Spec.Strategy.Canary; canary != nil && canary.TrafficRouting != nil {
		for name := range canary.TrafficRouting.Plugins {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Uses reports whether the Rollout configures a router.
func (r *Rollout) Uses(router string) bool { return slices.Contains(r.RouterNames(), router) }

// AnyUses reports whether any Rollout configures a router.
func (f *Facts) AnyUses(router string) bool {
	return slices.ContainsFunc(f.Rollouts, func(r Rollout) bool { return r.Uses(router) })
}

// RoutesOf returns the existing routes of a Rollout by the reference in the Rollout.
func (f *Facts) RoutesOf(r *Rollout) map[RouteName]Route {
	existing := map[RouteName]Route{}
	for _, route := range f.Routes {
		for _, reference := range r.RouteNames {
			if reference.Kind == route.Kind && reference.Name == route.Name {
				existing[reference] = route
			}
		}
		for _, selection := range r.Selections {
			if selection.Kind == route.Kind && selection.Namespace == route.Name.Namespace &&
				selection.Labels.Matches(labels.Set(route.Labels)) {
				existing[RouteName{Kind: route.Kind, Name: route.Name, Field: selection.Field}] = route
			}
		}
	}
	return existing
}

// ObjectsOf returns the existing HTTPScaledObjects of a Rollout: first the one that it references, then those of the
// other triggers of the same ScaledObject, without unrouted ones. If the first one does not exist, the others are unknown. If the Rollout
// references an InterceptorRoute, it is the only one, see NewInterceptorRoute.
func (f *Facts) ObjectsOf(r *Rollout) []*httpv1alpha1.HTTPScaledObject {
	if r.InterceptorRoute != "" {
		for i := range f.InterceptorRoutes {
			if route := &f.InterceptorRoutes[i]; route.Namespace == r.Namespace && route.Name == r.InterceptorRoute {
				return []*httpv1alpha1.HTTPScaledObject{route}
			}
		}
		return nil
	}
	named := f.HTTPScaledObject(types.NamespacedName{Namespace: r.Namespace, Name: r.Object})
	if named == nil {
		return nil
	}
	all := []*httpv1alpha1.HTTPScaledObject{named}
	scaled := httpv1alpha1.ScaledObjectOf(named)
	for i := range f.HTTPScaledObjects {
		other := &f.HTTPScaledObjects[i]
		if scaled != "" && other.Namespace == r.Namespace && other.Name != r.Object &&
			httpv1alpha1.ScaledObjectOf(other) == scaled && !httpv1alpha1.IsUnrouted(other) {
			all = append(all, other)
		}
	}
	slices.SortFunc(all[1:], func(a, b *httpv1alpha1.HTTPScaledObject) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// NewInterceptorRoute returns the parts of an InterceptorRoute that are read, as an HTTPScaledObject.
func NewInterceptorRoute(route *httpv1beta1.InterceptorRoute) httpv1alpha1.HTTPScaledObject {
	return httpv1alpha1.HTTPScaledObject{
		ObjectMeta: route.ObjectMeta,
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: route.Spec.Target.Service},
			Converted:      &httpv1alpha1.ConvertedSpec{},
		},
		Status: httpv1alpha1.HTTPScaledObjectStatus{Conditions: route.Status.Conditions},
	}
}

// OwnerOf returns the owner of the weights of an HTTPScaledObject or an InterceptorRoute; false if it has no valid owner
// annotation.
func (f *Facts) OwnerOf(object *httpv1alpha1.HTTPScaledObject) (Owner, bool) {
	owners := f.Owners
	if object.Spec.Converted != nil {
		owners = f.RouteOwners
	}
	owner, isOwned := owners[types.NamespacedName{Namespace: object.Namespace, Name: object.Name}]
	return owner, isOwned
}

// KindOf returns the kind of an object of ObjectsOf.
func KindOf(object *httpv1alpha1.HTTPScaledObject) string {
	if object.Spec.Converted != nil {
		return httpv1beta1.Kind
	}
	return httpv1alpha1.Kind
}

// HTTPScaledObject returns the HTTPScaledObject of that name, or nil.
func (f *Facts) HTTPScaledObject(name types.NamespacedName) *httpv1alpha1.HTTPScaledObject {
	for i := range f.HTTPScaledObjects {
		if object := &f.HTTPScaledObjects[i]; object.Namespace == name.Namespace && object.Name == name.Name {
			return object
		}
	}
	return nil
}

// Fleet returns the namespace of the proxies that serve an object.
func (f *Facts) Fleet(object *httpv1alpha1.HTTPScaledObject) string {
	if object.Annotations[httpv1alpha1.AnnotationFleet] == httpv1alpha1.FleetShared {
		if f.Interceptor != nil {
			return f.Interceptor.Namespace
		}
		return httpv1alpha1.DefaultInterceptorNamespace
	}
	return object.Namespace
}

// Service returns the Service of that name, or nil.
func (f *Facts) Service(namespace, name string) *corev1.Service {
	return f.Services[types.NamespacedName{Namespace: namespace, Name: name}]
}

// ReadyOf returns the number of ready endpoints of a Service.
func (f *Facts) ReadyOf(namespace, name string) int {
	return f.ReadyEndpoints[types.NamespacedName{Namespace: namespace, Name: name}]
}

// AddRoute adds or replaces a route. It returns err unchanged if it is not nil.
func (f *Facts) AddRoute(read Route, err error) error {
	if err != nil {
		return err
	}
	at := slices.IndexFunc(f.Routes, func(r Route) bool { return r.Kind == read.Kind && r.Name == read.Name })
	if at < 0 {
		f.Routes = append(f.Routes, read)
	} else {
		f.Routes[at] = read
	}
	return nil
}
