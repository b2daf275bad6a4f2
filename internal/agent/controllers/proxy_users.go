package controllers

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// isWired reports whether an Ingress, HTTPRoute, VirtualService or Route has backends that the AutowireReconciler pointed
// at the proxies of a namespace, or a Service selects them instead of its application. HTTPRoutes of every namespace may
// reference the shared fleet.
func (p *ProxyReconciler) isWired(ctx context.Context, namespace string) (bool, error) {
	if p.IgnoreRoutes {
		return false, nil
	}
	var ingresses networkingv1.IngressList
	var routes apis.HTTPRouteList
	var services corev1.ServiceList
	inside := client.InNamespace(namespace)
	where := []client.ListOption{inside}
	if namespace == p.Settings.InterceptorNamespace {
		where = []client.ListOption{client.UnsafeDisableDeepCopy}
	}
	err := errors.Join(p.Client.List(ctx, &ingresses, inside), p.Client.List(ctx, &services, inside))
	if err == nil && p.IsInstalled(apis.HTTPRouteKind()) {
		err = p.Client.List(ctx, &routes, where...)
	}
	if err != nil {
		return false, err
	}
	if isWired, err := p.Routers.isWired(ctx, namespace); isWired || err != nil {
		return isWired, err
	}
	isIngressWired := func(ingress networkingv1.Ingress) bool { return hasRestoreRecord(&ingress) }
	isServiceWired := func(service corev1.Service) bool { return hasRestoreRecord(&service) }
	return slices.ContainsFunc(ingresses.Items, isIngressWired) ||
		slices.ContainsFunc(services.Items, isServiceWired) ||
		slices.ContainsFunc(routes.Items, func(route apis.HTTPRoute) bool {
			return hasRestoreRecord(&route) && slices.Contains(autowire.ProxyNamespaces(&route), namespace)
		}), nil
}

// hasRestoreRecord reports whether an object has a restore record of the AutowireReconciler.
func hasRestoreRecord(object client.Object) bool {
	return object.GetAnnotations()[httpv1alpha1.AnnotationAutowireUndo] != ""
}

// wired returns the requests for the namespaces whose proxies an HTTPRoute references.
func (p *ProxyReconciler) wired(_ context.Context, object client.Object) []reconcile.Request {
	route, ok := object.(*apis.HTTPRoute)
	if !ok {
		return nil
	}
	return p.requests(autowire.ProxyNamespaces(route)...)
}

// withRouter returns the request for the namespace of a VirtualService or Route, or, for an object without a name, the
// requests for all namespaces with proxies.
func (p *ProxyReconciler) withRouter(ctx context.Context, router client.Object) []reconcile.Request {
	if router.GetName() == "" {
		return p.withBootstrap(ctx, router)
	}
	return p.requests(router.GetNamespace())
}
