package controllers

import (
	"context"
	"errors"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// cacheInputs creates the caches of IngressClasses, BackendTLSPolicies and DestinationRules, and of VirtualServices and
// Routes if there is none. Earlier versions of the agent had no permission for them.
func (a *AutowireReconciler) cacheInputs(mgr manager.Manager) (err error) {
	class := networkingv1.SchemeGroupVersion.WithKind("IngressClass")
	var failed error
	newCache := func(kind schema.GroupVersionKind, object client.Object, namespaces []string) *kindCache {
		created, err := newKindCache(mgr, kind, object, namespaces)
		failed = errors.Join(failed, err)
		return created
	}
	a.classes = newCache(class, &networkingv1.IngressClass{}, nil)
	a.policies = newCache(apis.BackendTLSPolicyKind(), &apis.BackendTLSPolicy{}, a.Namespaces)
	a.alphaPolicies = newCache(apis.AlphaBackendTLSPolicyKind(), &apis.AlphaBackendTLSPolicy{}, a.Namespaces)
	a.rules = newCache(apis.DestinationRuleKind(), &apis.DestinationRule{}, a.Namespaces)
	if a.Routers == nil {
		a.Routers, err = NewOptionalRouters(mgr, a.Namespaces)
		failed = errors.Join(failed, err)
	}
	return failed
}

// list lists the objects of a kind from its cache, or by Client if there is none and the kind is installed. problem is
// why they cannot be read, empty if they can.
func (a *AutowireReconciler) list(
	ctx context.Context, from *kindCache, kind schema.GroupVersionKind, into client.ObjectList,
	options ...client.ListOption,
) (problem string, err error) {
	switch {
	case from != nil:
		return from.list(ctx, into, options...)
	case a.isWatched(nil, kind):
		return "", a.Client.List(ctx, into, options...)
	}
	return "", nil
}

// isWatched reports whether the objects of a kind are watched, by its cache or by Client if there is none.
func (a *AutowireReconciler) isWatched(from *kindCache, kind schema.GroupVersionKind) bool {
	if from == nil {
		return a.IsInstalled(kind)
	}
	return from.isWatched()
}

// ingressClasses reads the IngressClasses. problem is why they cannot be read, empty if they can.
func (a *AutowireReconciler) ingressClasses(ctx context.Context) (all autowire.Classes, problem string, err error) {
	var classes networkingv1.IngressClassList
	problem, err = a.list(ctx, a.classes, networkingv1.SchemeGroupVersion.WithKind("IngressClass"), &classes)
	return autowire.ClassesOf(classes.Items), problem, err
}

// tlsPolicies reads the BackendTLSPolicies of a namespace, in the version that the API server serves. The cache of the
// alpha version may be stale: an upgrade of the Gateway API ends that version. problem is why they cannot be read,
// empty if they can.
func (a *AutowireReconciler) tlsPolicies(
	ctx context.Context, name string,
) (all []apis.BackendTLSPolicy, problem string, err error) {
	var policies apis.BackendTLSPolicyList
	var alpha apis.AlphaBackendTLSPolicyList
	inside := client.InNamespace(name)
	if a.isWatched(a.policies, apis.BackendTLSPolicyKind()) {
		problem, err = a.list(ctx, a.policies, apis.BackendTLSPolicyKind(), &policies, inside)
		return policies.Items, problem, err
	}
	problem, err = a.list(ctx, a.alphaPolicies, apis.AlphaBackendTLSPolicyKind(), &alpha, inside)
	for i := range alpha.Items {
		policies.Items = append(policies.Items, alpha.Items[i].BackendTLSPolicy)
	}
	return policies.Items, problem, err
}

// ingressNamespaces returns requests for all namespaces with an Ingress. A change of an IngressClass affects them.
func (a *AutowireReconciler) ingressNamespaces(ctx context.Context, _ client.Object) []reconcile.Request {
	var ingresses networkingv1.IngressList
	if err := a.Client.List(ctx, &ingresses, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list Ingresses of a changed IngressClass failed")
	}
	var names []string
	for i := range ingresses.Items {
		names = append(names, ingresses.Items[i].Namespace)
	}
	return requestsFor(names)
}

// policyNamespaces returns a request for the namespace of a BackendTLSPolicy, or, for an object without a name, for all
// namespaces with an HTTPRoute.
func (a *AutowireReconciler) policyNamespaces(ctx context.Context, policy client.Object) []reconcile.Request {
	if policy.GetName() != "" {
		return requestsFor([]string{policy.GetNamespace()})
	}
	var routes apis.HTTPRouteList
	if a.IsInstalled(apis.HTTPRouteKind()) {
		if err := a.Client.List(ctx, &routes, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "list HTTPRoutes that may have BackendTLSPolicies failed")
		}
	}
	var names []string
	for i := range routes.Items {
		names = append(names, routes.Items[i].Namespace)
	}
	return requestsFor(names)
}
