package controllers

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// InterceptorRoutes caches InterceptorRoutes for the ProxyReconciler. Their CustomResourceDefinition may not be installed,
// and earlier versions of the agent had no permission for them.
type InterceptorRoutes struct{ cache *kindCache }

// NewInterceptorRoutes returns the cache of the InterceptorRoutes in some namespaces; none means all. SetupWithManager
// of the ProxyReconciler starts it.
func NewInterceptorRoutes(mgr manager.Manager, namespaces []string) (*InterceptorRoutes, error) {
	kind := httpv1beta1.SchemeGroupVersion.WithKind(httpv1beta1.Kind)
	cache, err := newKindCache(mgr, kind, &httpv1beta1.InterceptorRoute{}, namespaces)
	if err != nil {
		return nil, err
	}
	cache.effect = "the agent installs no proxies for InterceptorRoutes, and removes none"
	return &InterceptorRoutes{cache: cache}, nil
}

// list returns the InterceptorRoutes, each as an HTTPScaledObject with spec.Converted, its metadata and its conditions.
// isKnown is false if they cannot be read.
func (r *InterceptorRoutes) list(ctx context.Context, where ...client.ListOption) (
	routes map[types.NamespacedName]httpv1alpha1.HTTPScaledObject, isKnown bool, err error,
) {
	var all httpv1beta1.InterceptorRouteList
	problem, err := r.cache.list(ctx, &all, where...)
	if problem != "" || isUnread(err) {
		return nil, false, nil
	}
	routes = map[types.NamespacedName]httpv1alpha1.HTTPScaledObject{}
	for i := range all.Items {
		route := &all.Items[i]
		routes[client.ObjectKeyFromObject(route)] = httpv1alpha1.HTTPScaledObject{
			ObjectMeta: route.ObjectMeta,
			Spec:       httpv1alpha1.HTTPScaledObjectSpec{Converted: &httpv1alpha1.ConvertedSpec{}},
			Status:     httpv1alpha1.HTTPScaledObjectStatus{Conditions: route.Status.Conditions},
		}
	}
	return routes, true, err
}

// isRoute reports whether an object stands for an InterceptorRoute: see InterceptorRoutes.list.
func isRoute(object *httpv1alpha1.HTTPScaledObject) bool { return object.Spec.Converted != nil }

// routesOf returns the names of the InterceptorRoutes that the triggers of a ScaledObject name for this project's
// scaler.
func (p *ProxyReconciler) routesOf(scaled *apis.ScaledObject) []types.NamespacedName {
	var names []types.NamespacedName
	for _, candidate := range scaled.Spec.Triggers {
		if name := trigger.InterceptorRouteOf(candidate.Type, candidate.Metadata, p.ScalerAddress); name != "" {
			names = append(names, types.NamespacedName{Namespace: scaled.Namespace, Name: name})
		}
	}
	return names
}

// routesOfFleet returns the InterceptorRoutes that need the proxies of a namespace: a trigger names them. isKnown is
// false if the InterceptorRoutes cannot be read.
func (p *ProxyReconciler) routesOfFleet(ctx context.Context, namespace string, where ...client.ListOption) (
	routes []httpv1alpha1.HTTPScaledObject, isKnown bool, err error,
) {
	if p.InterceptorRoutes == nil {
		return nil, true, nil
	}
	all, isKnown, err := p.InterceptorRoutes.list(ctx, where...)
	if err != nil || !isKnown || len(all) == 0 {
		return nil, isKnown, err
	}
	var scaled apis.ScaledObjectList
	if err := p.Client.List(ctx, &scaled, where...); err != nil {
		return nil, true, err
	}
	var names []types.NamespacedName
	for i := range scaled.Items {
		names = append(names, p.routesOf(&scaled.Items[i])...)
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	for _, name := range slices.Compact(names) {
		route, exists := all[name]
		if exists && route.DeletionTimestamp == nil &&
			proxies.FleetNamespace(&route, p.Settings.InterceptorNamespace) == namespace {
			routes = append(routes, route)
		}
	}
	return routes, true, nil
}

// withRoutesOf returns the requests for the fleets that may serve the InterceptorRoutes of a ScaledObject.
func (p *ProxyReconciler) withRoutesOf(_ context.Context, object client.Object) []reconcile.Request {
	scaled, ok := object.(*apis.ScaledObject)
	if !ok || len(p.routesOf(scaled)) == 0 {
		return nil
	}
	return p.requests(scaled.Namespace, p.Settings.InterceptorNamespace)
}

// withRoute returns the requests for the fleets that may serve an InterceptorRoute, or, for an object without a name, for
// those of all InterceptorRoutes that a trigger names, and for all namespaces with proxies.
func (p *ProxyReconciler) withRoute(ctx context.Context, route client.Object) []reconcile.Request {
	namespaces := []string{p.Settings.InterceptorNamespace}
	if route.GetName() != "" {
		return p.requests(append(namespaces, route.GetNamespace())...)
	}
	var scaled apis.ScaledObjectList
	if err := p.Client.List(ctx, &scaled, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list ScaledObjects that may name InterceptorRoutes failed")
	}
	for i := range scaled.Items {
		if len(p.routesOf(&scaled.Items[i])) > 0 {
			namespaces = append(namespaces, scaled.Items[i].Namespace)
		}
	}
	return append(p.withBootstrap(ctx, route), p.requests(namespaces...)...)
}
