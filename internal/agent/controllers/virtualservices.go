package controllers

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// VirtualServices caches the VirtualServices of Istio, for the AutowireReconciler and the ProxyReconciler. Istio may not
// be installed, and earlier versions of the agent had no permission for them. Without it, both read them by their
// Client.
type VirtualServices struct{ cache *kindCache }

// NewVirtualServices returns the cache of the VirtualServices in some namespaces; none means all. SetupWithManager of
// the AutowireReconciler starts it.
func NewVirtualServices(mgr manager.Manager, namespaces []string) (*VirtualServices, error) {
	cache, err := newKindCache(mgr, apis.VirtualServiceKind(), &apis.VirtualService{}, namespaces)
	return &VirtualServices{cache: cache}, err
}

// kindCache returns the cache, or nil if there is none.
func (v *VirtualServices) kindCache() *kindCache {
	if v == nil {
		return nil
	}
	return v.cache
}

// isWired reports whether the VirtualServices of a namespace have backends that reference its proxies. It also does so
// if they cannot be read, so that proxies in use are not removed.
func (v *VirtualServices) isWired(ctx context.Context, namespace string) (bool, error) {
	if v == nil {
		return false, nil
	}
	var services apis.VirtualServiceList
	switch problem, err := v.cache.list(ctx, &services, client.InNamespace(namespace)); {
	case problem != "" || isUnread(err):
		return true, nil
	case err != nil:
		return false, err
	}
	for i := range services.Items {
		if hasRestoreRecord(&services.Items[i]) {
			return true, nil
		}
	}
	return false, nil
}

// subscribe returns a channel that receives each VirtualService that changes, and an object without a name when they can
// be read.
func (v *VirtualServices) subscribe() <-chan event.GenericEvent { return v.cache.subscribe() }

// serviceNamespaces returns a request for the namespace of a VirtualService, or, for an object without a name, for all
// namespaces with an HTTPScaledObject.
func (a *AutowireReconciler) serviceNamespaces(ctx context.Context, service client.Object) []reconcile.Request {
	if service.GetName() != "" {
		return requestsFor([]string{service.GetNamespace()})
	}
	var scaled httpv1alpha1.HTTPScaledObjectList
	if err := a.Client.List(ctx, &scaled, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list HTTPScaledObjects that may have VirtualServices failed")
	}
	var names []string
	for i := range scaled.Items {
		names = append(names, scaled.Items[i].Namespace)
	}
	return requestsFor(append(names, a.istioNamespaces(ctx)...))
}

// ruleNamespaces returns a request for the namespace of a DestinationRule, or, for an object without a name, for all
// namespaces with a VirtualService.
func (a *AutowireReconciler) ruleNamespaces(ctx context.Context, rule client.Object) []reconcile.Request {
	if rule.GetName() != "" {
		return requestsFor([]string{rule.GetNamespace()})
	}
	return requestsFor(a.istioNamespaces(ctx))
}

// istioNamespaces returns the namespaces with a VirtualService.
func (a *AutowireReconciler) istioNamespaces(ctx context.Context) (names []string) {
	var services apis.VirtualServiceList
	problem, err := a.list(ctx, a.VirtualServices.kindCache(), apis.VirtualServiceKind(), &services)
	if err != nil && !isUnread(err) {
		ctrl.LoggerFrom(ctx).Error(err, "list VirtualServices failed", "problem", problem)
	}
	for i := range services.Items {
		names = append(names, services.Items[i].Namespace)
	}
	return names
}
