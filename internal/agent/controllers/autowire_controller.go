package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/probe"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/crd"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
)

// autowireOwner is the field manager of the condition and the annotation of HTTPScaledObjects that the
// AutowireReconciler writes. It differs from fieldOwner, because the ScaledObjectReconciler also applies conditions,
// and an apply removes the manager's other fields.
const autowireOwner = fieldOwner + "-autowire"

// AutowireReconciler updates the backends of Ingresses, HTTPRoutes, VirtualServices and Routes, and Services, as package
// autowire plans. It is a reconcile.Reconciler, and its requests name namespaces.
type AutowireReconciler struct {
	// Client writes, and reads from the cache of AutowireCache.
	Client client.Client
	// APIReader reads without a cache.
	APIReader client.Reader
	// Events records Events on Ingresses, HTTPRoutes, VirtualServices, Routes, Services and HTTPScaledObjects.
	Events record.EventRecorder
	// Now is the clock.
	Now func() time.Time
	// ScalerAddress is the address at which KEDA reaches the scaler, as host:port.
	ScalerAddress string
	// CoolDown is how long backends stay restored after the proxies became unavailable.
	CoolDown time.Duration
	// Disabled restores all backends and rewrites none.
	Disabled bool
	// SharedNamespace is the namespace of the interceptor, whose proxies are the shared fleet.
	SharedNamespace string
	// Namespaces are the watched namespaces; an empty list means all.
	Namespaces []string
	// ReadsGrantsOnly means that the agent creates and deletes no ReferenceGrants: users do.
	ReadsGrantsOnly bool
	// ListGrants lists the ReferenceGrants of SharedNamespace. synced is false until they have been read.
	// SetupWithManager sets it; nil means that no object of Namespaces uses the shared fleet.
	ListGrants func(context.Context) (grants []apis.ReferenceGrant, synced bool, err error)
	// ProbeProxies keeps a connection to each proxy of a namespace and returns those that are gone.
	// SetupWithManager sets it; nil disables probing.
	ProbeProxies func(namespace string, proxies []netip.AddrPort) (gone []netip.AddrPort)
	// IsInstalled reports whether the API server serves an optional kind: HTTPRoute, Rollout or, without the caches of
	// SetupWithManager, VirtualService, Route, BackendTLSPolicy and DestinationRule. SetupWithManager sets it.
	IsInstalled func(schema.GroupVersionKind) bool
	// StatusSchema is the schema of the status of HTTPScaledObjects, nil if it is unknown.
	StatusSchema *crd.Published
	// Routers caches VirtualServices and Routes. SetupWithManager sets it if it is nil; without it, Client reads them.
	Routers *OptionalRouters
	// classes, policies, alphaPolicies and rules cache IngressClasses, BackendTLSPolicies and DestinationRules.
	// SetupWithManager sets them; without them, Client reads these kinds.
	classes, policies, alphaPolicies, rules *kindCache
}

// Reconcile updates the backends of the namespace that the request names.
func (a *AutowireReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	namespace, scaled, err := a.read(ctx, request.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	objects, err := a.objects(ctx, request.Name, &namespace)
	if isUnread(err) {
		return ctrl.Result{RequeueAfter: retryAfter}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	plan, unwritten, err := a.plan(ctx, &namespace)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("namespace %s: %w", request.Name, err)
	}
	before := errors.Join(unwritten, a.writeSettings(ctx, scaled, plan.Settings))
	var failed error
	for _, change := range plan.Changes {
		if err := a.write(ctx, objects[change.Index], change); err != nil {
			object := &namespace.Objects[change.Index]
			failed = errors.Join(failed, fmt.Errorf("namespace %s: write %s: %w", request.Name, object, err))
		}
	}
	var retry time.Duration
	if failed == nil { // conditions describe the state after all writes
		retry, failed = a.report(ctx, scaled, plan.Conditions)
	}
	failed = errors.Join(failed, before)
	if apierrors.IsConflict(failed) || errors.Is(failed, errOutdated) {
		return ctrl.Result{RequeueAfter: retryAfter}, nil
	}
	return ctrl.Result{RequeueAfter: earlier(plan.RequeueAfter, retry)}, failed
}

// read reads the input of the plan for a namespace, and its HTTPScaledObjects.
func (a *AutowireReconciler) read(
	ctx context.Context, name string,
) (namespace autowire.Namespace, scaled []httpv1alpha1.HTTPScaledObject, err error) {
	var all httpv1alpha1.HTTPScaledObjectList
	var services corev1.ServiceList
	inside := client.InNamespace(name)
	proxies, err := a.proxies(ctx, name)
	err = errors.Join(err, a.Client.List(ctx, &all, inside), a.Client.List(ctx, &services, inside))
	if err != nil {
		return namespace, nil, fmt.Errorf("read namespace %s: %w", name, err)
	}
	namespace = autowire.Namespace{Services: map[string]*corev1.Service{}, Now: a.Now(), CoolDown: a.CoolDown}
	for i := range services.Items {
		service := &services.Items[i]
		namespace.Services[service.Name] = service
		if service.Name == autowire.ProxyService {
			proxies.Service = service
		}
	}
	namespace.Name = name
	a.probe(name, &proxies, len(all.Items) > 0 || name == a.SharedNamespace)
	namespace.HasProxy, namespace.HasTLSProxy = proxies.CanServe(autowire.ProxyPort), proxies.CanServe(autowire.TLSPort)
	namespace.HasHTTP2Proxy = proxies.CanServe(autowire.HTTP2Port)
	namespace.ProxyLabels, namespace.NextProxyLabels = proxies.Labels()
	if namespace.Shared, err = a.shared(ctx); err != nil {
		return namespace, nil, err
	}
	for i := range all.Items {
		isActive, err := a.isActive(ctx, &all.Items[i])
		if err != nil {
			return namespace, nil, err
		}
		object := &all.Items[i]
		switch target, isTarget := autowire.TargetOf(object, a.SharedNamespace); {
		case isTarget && isActive && !a.Disabled:
			namespace.Targets = append(namespace.Targets, target)
		case object.DeletionTimestamp == nil:
			namespace.Rivals = append(namespace.Rivals, autowire.RivalOf(object, a.SharedNamespace))
		}
	}
	return namespace, all.Items, nil
}

// probe keeps connections to the proxies of a namespace while backends may reference them, and sets proxies.Gone.
func (a *AutowireReconciler) probe(namespace string, proxies *autowire.Proxies, areUsed bool) {
	if a.ProbeProxies == nil {
		return
	}
	var ready []netip.AddrPort
	if areUsed && !a.Disabled {
		ready = proxies.ReadyAddrs(autowire.ProxyPort)
	}
	proxies.Gone = a.ProbeProxies(namespace, ready)
}

// proxies reads the state of the proxies of a namespace, except their Service.
func (a *AutowireReconciler) proxies(ctx context.Context, namespace string) (state autowire.Proxies, err error) {
	var endpoints discoveryv1.EndpointSliceList
	err = a.Client.List(ctx, &endpoints, client.InNamespace(namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: autowire.ProxyService})
	state.Endpoints = endpoints.Items
	deployment := new(appsv1.Deployment)
	key := types.NamespacedName{Namespace: namespace, Name: autowire.ProxyService}
	switch missing := a.Client.Get(ctx, key, deployment); {
	case missing == nil:
		state.Deployment = deployment
	case !apierrors.IsNotFound(missing):
		err = errors.Join(err, missing)
	}
	return state, err
}

// isActive reports whether an HTTPScaledObject is not about to be deleted with its ScaledObject or trigger.
func (a *AutowireReconciler) isActive(ctx context.Context, object *httpv1alpha1.HTTPScaledObject) (bool, error) {
	owner := ownerOf(object)
	if owner == nil {
		return true, nil
	}
	scaled, key := new(apis.ScaledObject), types.NamespacedName{Namespace: object.Namespace, Name: owner[0]}
	switch err := a.Client.Get(ctx, key, scaled); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read ScaledObject %s: %w", key, err)
	}
	isNamed := slices.Contains(desired.ObjectNames(scaled, a.ScalerAddress), object.Name)
	return scaled.DeletionTimestamp == nil && (isNamed || desired.PreventsDeletion(scaled, a.ScalerAddress)), nil
}

// report writes the conditions of HTTPScaledObjects, and removes those of objects without one. retry is the delay after
// which deferred writes are repeated, zero if there are none.
func (a *AutowireReconciler) report(
	ctx context.Context, scaled []httpv1alpha1.HTTPScaledObject, conditions map[string]metav1.Condition,
) (retry time.Duration, failed error) {
	writer := conditionWriter{api: a.Client, owner: autowireOwner, now: a.Now(), schema: a.StatusSchema}
	for i := range scaled {
		object := &scaled[i]
		before := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired)
		var want []metav1.Condition
		if condition, has := conditions[object.Name]; has {
			want = []metav1.Condition{condition}
		}
		if object.DeletionTimestamp != nil || before == nil && want == nil ||
			want != nil && desired.HasConditions(object, want) {
			continue
		}
		err := writer.write(ctx, object, want)
		switch {
		case isDeferred(err):
			retry = conditionRetryInterval
		case err != nil:
			name := client.ObjectKeyFromObject(object)
			failed = errors.Join(failed, fmt.Errorf("write the condition of HTTPScaledObject %s: %w", name, err))
		}
		isReported := err == nil || errors.Is(err, errUndeclared) // only the Event shows an undeclared condition
		if isReported && want != nil && isNewProblem(before, &want[0]) {
			a.Events.Event(object, corev1.EventTypeWarning, want[0].Reason, truncate.Text(want[0].Message, maxEvent))
		}
	}
	return retry, failed
}

// isNewProblem reports whether a condition shows a problem that is worth an Event and was not there before.
func isNewProblem(before, after *metav1.Condition) bool {
	isExpected := after.Status == metav1.ConditionTrue || after.Reason == httpv1alpha1.ReasonNoMatchingBackend ||
		after.Reason == httpv1alpha1.ReasonNotProgrammed
	return !isExpected && (before == nil || before.Reason != after.Reason)
}

// SetupWithManager adds the controller to mgr. It reconciles a namespace when an object that affects its backends
// changes. HTTPRoutes, BackendTLSPolicies, Rollouts and the kinds of Istio and OpenShift are watched as soon as they are
// installed, and BackendTLSPolicies, IngressClasses and the kinds of Istio and OpenShift as soon as the agent has the
// permission.
func (a *AutowireReconciler) SetupWithManager(mgr manager.Manager) error {
	if err := a.cacheInputs(mgr); err != nil {
		return err
	}
	prober, ended := newProber()
	a.ProbeProxies = prober.Watch
	isChanged := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	chosen := ctrl.NewControllerManagedBy(mgr).Named("autowire")
	setUpGrants, err := a.watchGrants(mgr, chosen)
	if err != nil {
		return err
	}
	running, err := chosen.
		Watches(&networkingv1.Ingress{}, enqueueNamespaces(ownNamespace), builder.WithPredicates(isChanged)).
		Watches(&httpv1alpha1.HTTPScaledObject{}, enqueueNamespaces(ownNamespace),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: targetChanged(a.SharedNamespace)})).
		Watches(&apis.ScaledObject{}, enqueueNamespaces(ownNamespace),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Service{}, a.enqueueProxyUsers(),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: serviceChanged()})).
		Watches(&discoveryv1.EndpointSlice{}, a.enqueueProxyUsers()).
		Watches(&appsv1.Deployment{}, a.enqueueProxyUsers(),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: terminationChanged})).
		WatchesRawSource(source.Channel(ended, a.enqueueProxyUsers())).
		WatchesRawSource(source.Channel(a.classes.subscribe(), handler.EnqueueRequestsFromMapFunc(a.ingressNamespaces))).
		WatchesRawSource(source.Channel(a.policies.subscribe(), handler.EnqueueRequestsFromMapFunc(a.policyNamespaces))).
		WatchesRawSource(source.Channel(a.alphaPolicies.subscribe(), handler.EnqueueRequestsFromMapFunc(a.policyNamespaces))).
		WatchesRawSource(source.Channel(
			a.Routers.services.subscribe(), handler.EnqueueRequestsFromMapFunc(a.routerNamespaces))).
		WatchesRawSource(source.Channel(
			a.Routers.routes.subscribe(), handler.EnqueueRequestsFromMapFunc(a.routerNamespaces))).
		WatchesRawSource(source.Channel(a.rules.subscribe(), handler.EnqueueRequestsFromMapFunc(a.ruleNamespaces))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers, ReconciliationTimeout: reconcileTimeout, UsePriorityQueue: new(true),
		}).
		Build(a)
	if err != nil {
		return fmt.Errorf("set up the autowire controller: %w", err)
	}
	optional := &optionalKinds{manager: mgr, controller: running}
	a.IsInstalled = optional.isInstalled
	return errors.Join(
		mgr.Add(prober), setUpGrants(),
		a.classes.setUp(), a.policies.setUp(), a.alphaPolicies.setUpUnless(a.policies), // in this order
		a.Routers.setUp(), a.rules.setUp(),
		optional.watch(apis.RolloutKind(), &apis.Rollout{}, enqueueNamespaces(routedNamespaces),
			predicate.Funcs{UpdateFunc: routingChanged}),
		optional.watch(apis.HTTPRouteKind(), &apis.HTTPRoute{}, enqueueNamespaces(ownNamespace),
			predicate.Or(isChanged, predicate.LabelChangedPredicate{}, predicate.Funcs{UpdateFunc: parentsChanged})))
}

// newProber returns a Prober and the channel of its Events. A proxy that is gone or available again is reported
// like a change of its EndpointSlice.
func newProber() (*probe.Prober, <-chan event.GenericEvent) {
	ended := make(chan event.GenericEvent)
	return probe.New(func(ctx context.Context, namespace string) {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
		select {
		case ended <- event.GenericEvent{Object: slice}:
		case <-ctx.Done():
		}
	}), ended
}

// enqueueNamespaces enqueues the namespaces that an object affects.
func enqueueNamespaces(about func(client.Object) []string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return requestsFor(about(object))
	})
}

// requestsFor returns a request for each of some namespaces.
func requestsFor(namespaces []string) (requests []reconcile.Request) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(namespaces))) {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return requests
}

// ownNamespace returns the namespace of an object.
func ownNamespace(object client.Object) []string { return []string{object.GetNamespace()} }

// routedNamespaces returns the namespaces of the HTTPRoutes, Ingresses, VirtualServices and Routes that a Rollout's
// traffic router manages.
func routedNamespaces(object client.Object) (namespaces []string) {
	if rollout, ok := object.(*apis.Rollout); ok {
		for _, routing := range autowire.Routings(*rollout) {
			namespaces = append(namespaces, routing.Namespaces()...)
		}
	}
	return namespaces
}
