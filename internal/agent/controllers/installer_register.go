package controllers

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// InstallerCache is how the cache keeps what the Installer reads, beside AutowireCache: of each kind the one name
// that proxies have, for which alone the agent needs rights, and of Namespaces the metadata.
func InstallerCache() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&policyv1.PodDisruptionBudget{}: byName(proxies.Service),
		&corev1.ConfigMap{}:             byName(proxyBootstrap),
		&corev1.Namespace{}: {Transform: func(object any) (any, error) {
			if namespace, is := object.(*corev1.Namespace); is {
				namespace.ManagedFields, namespace.Spec, namespace.Status = nil, corev1.NamespaceSpec{}, corev1.NamespaceStatus{}
			}
			return object, nil
		}},
	}
}

// Register has mgr call the Installer with the namespace of whatever changes that decides about its proxies. HTTPRoutes
// count as soon as they are installed.
func (i *Installer) Register(mgr manager.Manager) error {
	inside := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return i.requests(object.GetNamespace())
	})
	fleet := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		if scaled, is := object.(*httpv1alpha1.HTTPScaledObject); is {
			return i.requests(object.GetNamespace(), proxies.Fleet(scaled, i.Settings.InterceptorNamespace))
		}
		return nil
	})
	itself := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return i.requests(object.GetName())
	})
	isProxys := predicate.NewPredicateFuncs(func(object client.Object) bool {
		return isProxyService(object.GetName())
	})
	anyWrite := predicate.Or(
		predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	written := builder.WithPredicates(anyWrite)
	running, err := ctrl.NewControllerManagedBy(mgr).
		Named("proxies").
		Watches(&corev1.Namespace{}, itself, builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		Watches(&httpv1alpha1.HTTPScaledObject{}, fleet, builder.WithPredicates(predicate.Funcs{UpdateFunc: otherNeed})).
		Watches(&networkingv1.Ingress{}, inside, builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		Watches(&discoveryv1.EndpointSlice{}, inside).
		Watches(&corev1.Service{}, inside, builder.WithPredicates(isProxys)).
		Watches(&corev1.ConfigMap{}, inside).
		Watches(&policyv1.PodDisruptionBudget{}, inside, written).
		Watches(&appsv1.Deployment{}, inside, written).
		Watches(&apis.ScaledObject{}, inside, builder.WithPredicates(predicate.And(isProxys, anyWrite))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers, ReconciliationTimeout: timeLimit, UsePriorityQueue: new(true),
		}).
		Build(i)
	if err != nil {
		return fmt.Errorf("controller of proxies: %w", err)
	}
	late := &lateKinds{manager: mgr, controller: running}
	i.IsServed = late.isServed
	wired := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		route, is := object.(*apis.HTTPRoute)
		if !is {
			return nil
		}
		return i.requests(autowire.ProxyNamespaces(route)...)
	})
	return late.watch(apis.HTTPRouteKind(), &apis.HTTPRoute{}, wired, predicate.AnnotationChangedPredicate{})
}

// isProxyService says whether a Service has the name of one that proxies have.
func isProxyService(name string) bool { return name == proxies.Service || name == proxyAdmin }

// requests are those for some namespaces, as far as they are to have proxies installed.
func (i *Installer) requests(namespaces ...string) []reconcile.Request {
	var found []reconcile.Request
	for _, name := range slices.Compact(namespaces) {
		if len(i.Namespaces) == 0 || slices.Contains(i.Namespaces, name) {
			found = append(found, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
	}
	return found
}

// otherNeed says whether an HTTPScaledObject has changed in whether, or whose, proxies it needs, or in what the
// Installer writes.
func otherNeed(change event.UpdateEvent) bool {
	before, isBefore := change.ObjectOld.(*httpv1alpha1.HTTPScaledObject)
	after, isAfter := change.ObjectNew.(*httpv1alpha1.HTTPScaledObject)
	if !isBefore || !isAfter {
		return true
	}
	return proxies.Needs(before) != proxies.Needs(after) || proxies.Fleet(before, "") != proxies.Fleet(after, "") ||
		!equality.Semantic.DeepEqual(
			meta.FindStatusCondition(before.Status.Conditions, httpv1alpha1.ConditionProxyInstalled),
			meta.FindStatusCondition(after.Status.Conditions, httpv1alpha1.ConditionProxyInstalled))
}
