package controllers

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	selectors "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
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
	"sigs.k8s.io/controller-runtime/pkg/source"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/probe"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// AutowireCache is how the cache keeps what the Autowirer reads: Ingresses whole, because they are patched by
// what they are; of Services the ports, and whole those of proxies, which the Installer compares; of
// EndpointSlices and Deployments those of the proxies. HTTPRoutes are not among it: a cache asks about all these kinds when it is
// made, and fails where one is not installed.
func AutowireCache() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&networkingv1.Ingress{}: {Transform: func(object any) (any, error) { return object, nil }},
		&corev1.Service{}: {Transform: func(object any) (any, error) {
			if service, is := object.(*corev1.Service); is && !isProxyService(service.Name) {
				kept := &corev1.Service{ObjectMeta: named(service), Spec: corev1.ServiceSpec{Ports: service.Spec.Ports}}
				kept.ResourceVersion, kept.UID = service.ResourceVersion, service.UID
				return kept, nil
			}
			return object, nil
		}},
		&discoveryv1.EndpointSlice{}: {Label: labels.SelectorFromSet(labels.Set{
			discoveryv1.LabelServiceName: autowire.ProxyService,
		})},
		&appsv1.Deployment{}: byName(autowire.ProxyService),
	}
}

// Register has mgr call the Autowirer with the namespace of whatever changes that decides about its objects. HTTPRoutes and
// Rollouts count as soon as they are installed.
func (a *Autowirer) Register(mgr manager.Manager) error {
	grants, err := newGrants(mgr, a.Shared)
	if err != nil {
		return err
	}
	a.Grants = grants.read
	keeper, ended := newKeeper()
	a.Keep = keeper.Keep
	isOther := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	running, err := ctrl.NewControllerManagedBy(mgr).
		Named("autowire").
		Watches(&networkingv1.Ingress{}, ofNamespaces(itsOwn), builder.WithPredicates(isOther)).
		Watches(&httpv1alpha1.HTTPScaledObject{}, ofNamespaces(itsOwn),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: otherTarget})).
		Watches(&apis.ScaledObject{}, ofNamespaces(itsOwn),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Service{}, a.ofProxies(),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: otherPorts})).
		Watches(&discoveryv1.EndpointSlice{}, a.ofProxies()).
		Watches(&appsv1.Deployment{}, a.ofProxies(),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: otherEnd})).
		WatchesRawSource(source.Channel(grants.changed, ofNamespaces(granted))).
		WatchesRawSource(source.Channel(ended, a.ofProxies())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers, ReconciliationTimeout: timeLimit, UsePriorityQueue: new(true),
		}).
		Build(a)
	if err != nil {
		return fmt.Errorf("controller of backends: %w", err)
	}
	late := &lateKinds{manager: mgr, controller: running}
	a.IsServed = late.isServed
	return errors.Join(
		mgr.Add(grants),
		mgr.Add(keeper),
		late.watch(apis.RolloutKind(), &apis.Rollout{}, ofNamespaces(routed), predicate.Funcs{UpdateFunc: otherRouting}),
		late.watch(apis.HTTPRouteKind(), &apis.HTTPRoute{}, ofNamespaces(itsOwn),
			predicate.Or(isOther, predicate.LabelChangedPredicate{})))
}

// newKeeper keeps connections to proxies, and tells of those that have ended, or are back, as if their EndpointSlice had changed.
func newKeeper() (*probe.Keeper, <-chan event.GenericEvent) {
	ended := make(chan event.GenericEvent)
	return probe.New(func(ctx context.Context, namespace string) {
		select {
		case ended <- event.GenericEvent{Object: &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}}:
		case <-ctx.Done():
		}
	}), ended
}

// ofNamespaces asks for the namespaces that an object decides about.
func ofNamespaces(about func(client.Object) []string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		var requests []reconcile.Request
		for _, name := range about(object) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
		return requests
	})
}

// itsOwn is the namespace of an object.
func itsOwn(object client.Object) []string { return []string{object.GetNamespace()} }

// routed are the namespaces of the HTTPRoutes that a Rollout's router decides about.
func routed(object client.Object) (namespaces []string) {
	if rollout, is := object.(*apis.Rollout); is {
		for _, routing := range autowire.RoutingsOf(*rollout) {
			namespaces = routing.Namespaces()
		}
	}
	return namespaces
}

// otherRouting says whether a Rollout names other HTTPRoutes.
func otherRouting(change event.UpdateEvent) bool {
	before, isBefore := change.ObjectOld.(*apis.Rollout)
	after, isAfter := change.ObjectNew.(*apis.Rollout)
	return !isBefore || !isAfter || autowire.RoutingText(before) != autowire.RoutingText(after)
}

// otherTarget says whether an HTTPScaledObject has changed in what decides, or in what the Autowirer writes.
func otherTarget(change event.UpdateEvent) bool {
	before, isBefore := change.ObjectOld.(*httpv1alpha1.HTTPScaledObject)
	after, isAfter := change.ObjectNew.(*httpv1alpha1.HTTPScaledObject)
	if !isBefore || !isAfter {
		return true
	}
	was, wasTarget := autowire.TargetOf(before)
	is, isTarget := autowire.TargetOf(after)
	return wasTarget != isTarget || !equality.Semantic.DeepEqual(was, is) || !equality.Semantic.DeepEqual(
		meta.FindStatusCondition(before.Status.Conditions, httpv1alpha1.ConditionAutowired),
		meta.FindStatusCondition(after.Status.Conditions, httpv1alpha1.ConditionAutowired))
}

// otherPorts says whether the ports of a Service have changed.
func otherPorts(change event.UpdateEvent) bool {
	before, isBefore := change.ObjectOld.(*corev1.Service)
	after, isAfter := change.ObjectNew.(*corev1.Service)
	return !isBefore || !isAfter || !equality.Semantic.DeepEqual(before.Spec.Ports, after.Spec.Ports)
}

// otherEnd says whether a Deployment of proxies says something else about the end of its Pods.
func otherEnd(change event.UpdateEvent) bool {
	before, isBefore := change.ObjectOld.(*appsv1.Deployment)
	after, isAfter := change.ObjectNew.(*appsv1.Deployment)
	return !isBefore || !isAfter || before.UID != after.UID || autowire.AreEnding(before) != autowire.AreEnding(after)
}

// byName is how the cache keeps the objects of one name, for which alone the agent needs rights.
func byName(name string) cache.ByObject {
	return cache.ByObject{Field: selectors.OneTermEqualSelector("metadata.name", name)}
}
