package facts

import (
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// The routers, by the names that Rollouts know them by.
const (
	// HTTPRouter writes to HTTPScaledObjects.
	HTTPRouter = "kedify/http"
	// GatewayRouter writes to routes of the Gateway API.
	GatewayRouter = "argoproj-labs/gatewayAPI"
)

// Rollout is a Rollout with what its routers read in it.
type Rollout struct {
	*v1alpha1.Rollout

	// Stable and Canary are its Services at this time, and ServicesError says why there are none.
	Stable, Canary string
	ServicesError  error
	// Object is the HTTPScaledObject that it names for HTTPRouter, and ObjectError says why there is none.
	Object      string
	ObjectError error
	// RouteNames and Selections are the routes that it names for GatewayRouter, and RoutesError says why there are
	// none.
	RouteNames  []RouteName
	Selections  []Selection
	RoutesError error
}

// RouteName is a route as a Rollout names it.
type RouteName struct {
	Kind     route.Kind
	Name     types.NamespacedName
	RuleName string // the only rule that counts; empty for all
	Field    string // of the Rollout
}

// Selection is a set of routes, by labels.
type Selection struct {
	Kind      route.Kind
	Namespace string
	Labels    labels.Selector
	Field     string // of the Rollout
}

// Key is the Rollout's namespace and name.
func (r *Rollout) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// Plugins are the names of the traffic routers that the Rollout names under plugins, sorted.
func (r *Rollout) Plugins() []string {
	var names []string
	if canary := r.Spec.Strategy.Canary; canary != nil && canary.TrafficRouting != nil {
		for name := range canary.TrafficRouting.Plugins {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Uses says whether the Rollout names a router.
func (r *Rollout) Uses(router string) bool { return slices.Contains(r.Plugins(), router) }

// Use says whether any Rollout names a router.
func (f *Facts) Use(router string) bool {
	return slices.ContainsFunc(f.Rollouts, func(r Rollout) bool { return r.Uses(router) })
}

// RoutesOf are the routes of a Rollout that exist, each with the name by which the Rollout means it.
func (f *Facts) RoutesOf(r *Rollout) map[RouteName]Route {
	found := map[RouteName]Route{}
	for _, route := range f.Routes {
		for _, named := range r.RouteNames {
			if named.Kind == route.Kind && named.Name == route.Name {
				found[named] = route
			}
		}
		for _, chosen := range r.Selections {
			if chosen.Kind == route.Kind && chosen.Namespace == route.Name.Namespace && chosen.Labels.Matches(labels.Set(route.Labels)) {
				found[RouteName{Kind: route.Kind, Name: route.Name, Field: chosen.Field}] = route
			}
		}
	}
	return found
}

// ObjectsOf are the HTTPScaledObjects of a Rollout that exist: the one that it names, first, and those of the other triggers of the same ScaledObject. While the
// first one is missing, nobody knows the others.
func (f *Facts) ObjectsOf(r *Rollout) []*httpv1alpha1.HTTPScaledObject {
	named := f.HTTPScaledObject(types.NamespacedName{Namespace: r.Namespace, Name: r.Object})
	if named == nil {
		return nil
	}
	all := []*httpv1alpha1.HTTPScaledObject{named}
	scaled := httpv1alpha1.ScaledObjectOf(named)
	for i := range f.HTTPScaledObjects {
		other := &f.HTTPScaledObjects[i]
		if scaled != "" && other.Namespace == r.Namespace && other.Name != r.Object && httpv1alpha1.ScaledObjectOf(other) == scaled {
			all = append(all, other)
		}
	}
	slices.SortFunc(all[1:], func(a, b *httpv1alpha1.HTTPScaledObject) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// HTTPScaledObject is the one of that name, nil where there is none.
func (f *Facts) HTTPScaledObject(name types.NamespacedName) *httpv1alpha1.HTTPScaledObject {
	for i := range f.HTTPScaledObjects {
		if object := &f.HTTPScaledObjects[i]; object.Namespace == name.Namespace && object.Name == name.Name {
			return object
		}
	}
	return nil
}

// Fleet is the namespace of the proxies that serve an object.
func (f *Facts) Fleet(object *httpv1alpha1.HTTPScaledObject) string {
	if object.Annotations[httpv1alpha1.AnnotationFleet] == httpv1alpha1.FleetShared {
		if f.Interceptor != nil {
			return f.Interceptor.Namespace
		}
		return httpv1alpha1.DefaultInterceptorNamespace
	}
	return object.Namespace
}

// Service is the Service of that name, nil where there is none.
func (f *Facts) Service(namespace, name string) *corev1.Service {
	return f.Services[types.NamespacedName{Namespace: namespace, Name: name}]
}

// ReadyOf counts the ready endpoints of a Service.
func (f *Facts) ReadyOf(namespace, name string) int {
	return f.Ready[types.NamespacedName{Namespace: namespace, Name: name}]
}

// AddRoute adds a route that could be read, once.
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
