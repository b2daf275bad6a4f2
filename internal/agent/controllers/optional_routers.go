package controllers

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// OptionalRouters caches the VirtualServices of Istio and the Routes of OpenShift, for the AutowireReconciler and the
// ProxyReconciler. Neither may be installed, and earlier versions of the agent had no permission for them. Without it,
// both read them by their Client.
type OptionalRouters struct{ services, routes *kindCache }

// NewOptionalRouters returns the cache of the objects in some namespaces; none means all. SetupWithManager of the
// AutowireReconciler starts it.
func NewOptionalRouters(mgr manager.Manager, namespaces []string) (*OptionalRouters, error) {
	services, failed := newKindCache(mgr, apis.VirtualServiceKind(), &apis.VirtualService{}, namespaces)
	routes, err := newKindCache(mgr, apis.RouteKind(), &apis.Route{}, namespaces)
	if failed = errors.Join(failed, err); failed != nil {
		return nil, failed
	}
	routes.isUpdated = isRouteUpdated
	return &OptionalRouters{services: services, routes: routes}, nil
}

// isRouteUpdated reports whether an update of a Route changed something that a plan reads. OpenShift's API server sets no
// generation, and the hosts may be in the status.
func isRouteUpdated(before, after any) bool {
	old, isRoute := before.(*apis.Route)
	current, ok := after.(*apis.Route)
	return !isRoute || !ok || isUpdated(before, after) ||
		(old.DeletionTimestamp == nil) != (current.DeletionTimestamp == nil) ||
		!equality.Semantic.DeepEqual(old.Spec, current.Spec) || !equality.Semantic.DeepEqual(old.Status, current.Status) ||
		!equality.Semantic.DeepEqual(old.OwnerReferences, current.OwnerReferences)
}

// of returns the cache of a kind, or nil if there is none.
func (o *OptionalRouters) of(kind schema.GroupVersionKind) *kindCache {
	switch {
	case o == nil:
		return nil
	case kind == apis.RouteKind():
		return o.routes
	}
	return o.services
}

// setUp adds the caches to the manager, and watches the objects once their kinds are installed.
func (o *OptionalRouters) setUp() error { return errors.Join(o.services.setUp(), o.routes.setUp()) }

// isWired reports whether objects of a namespace have backends that reference its proxies. It also does so if they cannot
// be read, so that proxies in use are not removed.
func (o *OptionalRouters) isWired(ctx context.Context, namespace string) (bool, error) {
	if o == nil {
		return false, nil
	}
	for from, list := range map[*kindCache]client.ObjectList{
		o.services: new(apis.VirtualServiceList), o.routes: new(apis.RouteList),
	} {
		switch problem, err := from.list(ctx, list, client.InNamespace(namespace)); {
		case problem != "" || isUnread(err):
			return true, nil
		case err != nil:
			return false, err
		}
		objects, err := objectsOf(list)
		if err != nil || slices.ContainsFunc(objects, hasRestoreRecord) {
			return err == nil, err
		}
	}
	return false, nil
}

// objectsOf returns the objects of a list.
func objectsOf(list client.ObjectList) (objects []client.Object, err error) {
	err = meta.EachListItem(list, func(item runtime.Object) error {
		objects = append(objects, item.(client.Object)) //nolint:forcetypeassert // every object of the API is one
		return nil
	})
	return objects, err
}

// routerNamespaces returns a request for the namespace of a VirtualService or Route, or, for an object without a name, for
// all namespaces with an HTTPScaledObject.
func (a *AutowireReconciler) routerNamespaces(ctx context.Context, router client.Object) []reconcile.Request {
	if router.GetName() != "" {
		return requestsFor([]string{router.GetNamespace()})
	}
	var scaled httpv1alpha1.HTTPScaledObjectList
	if err := a.Client.List(ctx, &scaled, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list HTTPScaledObjects that may have VirtualServices or Routes failed")
	}
	names := slices.Concat(a.namespacesWith(ctx, apis.VirtualServiceKind(), new(apis.VirtualServiceList)),
		a.namespacesWith(ctx, apis.RouteKind(), new(apis.RouteList)))
	for i := range scaled.Items {
		names = append(names, scaled.Items[i].Namespace)
	}
	return requestsFor(names)
}

// ruleNamespaces returns a request for the namespace of a DestinationRule, or, for an object without a name, for all
// namespaces with a VirtualService.
func (a *AutowireReconciler) ruleNamespaces(ctx context.Context, rule client.Object) []reconcile.Request {
	if rule.GetName() != "" {
		return requestsFor([]string{rule.GetNamespace()})
	}
	return requestsFor(a.namespacesWith(ctx, apis.VirtualServiceKind(), new(apis.VirtualServiceList)))
}

// namespacesWith returns the namespaces with an object of a kind, for each object. It lists them into a list of the kind.
func (a *AutowireReconciler) namespacesWith(
	ctx context.Context, kind schema.GroupVersionKind, into client.ObjectList,
) (names []string) {
	problem, err := a.list(ctx, a.Routers.of(kind), kind, into)
	var objects []client.Object
	if err == nil {
		objects, err = objectsOf(into)
	}
	if err != nil && !isUnread(err) {
		ctrl.LoggerFrom(ctx).Error(err, "list objects of an optional kind failed", "kind", kind.Kind, "problem", problem)
	}
	for _, object := range objects {
		names = append(names, object.GetNamespace())
	}
	return names
}
