package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/crd"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
)

// proxyOwner is the field manager of the condition that the ProxyReconciler writes.
const proxyOwner = fieldOwner + "-proxies"

// Names of the proxies' objects, in addition to their Deployment, Service and PodDisruptionBudget, which are named
// proxies.Service.
const (
	proxyAdmin     = "kedify-proxy-admin"
	proxyBootstrap = "kedify-proxy-bootstrap"
)

// ProxyReconciler installs and removes the proxies of namespaces as package proxies plans. It is a
// reconcile.Reconciler, and its requests name namespaces.
type ProxyReconciler struct {
	// Client writes, and reads from a cache configured by AutowireCache and ProxyCache.
	Client client.Client
	// APIReader reads without a cache.
	APIReader client.Reader
	// Events records Events on Namespaces, ScaledObjects and HTTPScaledObjects.
	Events record.EventRecorder
	// Now is the clock.
	Now func() time.Time
	// Settings are the defaults of every namespace. Settings.InterceptorNamespace is the namespace of the shared
	// fleet.
	Settings proxies.Settings
	// RemovalDelay is how long unneeded proxies are kept.
	RemovalDelay time.Duration
	// CA returns the CAs that sign the interceptor's certificate, see proxies.Settings. It returns nil as long as there
	// is no certificate: then no proxies are installed, changed or removed. A nil function means that proxies connect
	// without TLS. CAChanged receives an element when the result changes.
	CA        func() []byte
	CAChanged <-chan event.GenericEvent
	// Namespaces are the namespaces in which proxies are installed; an empty list means all.
	Namespaces []string
	// IgnoreRoutes means that no Ingress, HTTPRoute, VirtualService and Route counts as a user of proxies, and that the agent
	// needs no permission for them.
	IgnoreRoutes bool
	// Routers caches VirtualServices and Routes; nil means that there are none.
	Routers *OptionalRouters
	// InterceptorRoutes caches InterceptorRoutes; nil means that there are none. ScalerAddress is the address of this
	// project's scaler: an InterceptorRoute that a trigger names for it needs proxies.
	InterceptorRoutes *InterceptorRoutes
	ScalerAddress     string
	// IsInstalled reports whether the API server serves an optional kind: HTTPRoute. SetupWithManager sets it.
	IsInstalled func(schema.GroupVersionKind) bool
	// StatusSchema is the schema of the status of HTTPScaledObjects, nil if it is unknown.
	StatusSchema *crd.Published
}

// Reconcile updates the proxies of the namespace that the request names.
func (p *ProxyReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	namespace := new(corev1.Namespace)
	err := p.Client.Get(ctx, types.NamespacedName{Name: request.Name}, namespace)
	if apierrors.IsNotFound(err) || err == nil && namespace.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // all objects are deleted with the namespace
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read Namespace %s: %w", request.Name, err)
	}
	state, dependents, err := p.read(ctx, namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	if p.CA != nil {
		// Without the CAs, even the Deployment of proxies that are to be removed would be one without TLS.
		state.Settings.CA = p.CA()
		if hasProxies := len(state.Existing) > 0; state.Settings.CA == nil && (state.IsNeeded || hasProxies) {
			return ctrl.Result{RequeueAfter: retryAfter}, nil
		}
	}
	if state.HasPlaintext, err = p.hasPlaintext(ctx, &state); err != nil {
		return ctrl.Result{}, err
	}
	plan, err := state.Plan()
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("proxies of namespace %s: %w", request.Name, err)
	}
	failed := p.applyPlan(ctx, plan)
	switch {
	case apierrors.IsConflict(failed):
		return ctrl.Result{RequeueAfter: retryAfter}, nil
	case apierrors.HasStatusCause(failed, corev1.NamespaceTerminatingCause):
		return ctrl.Result{}, nil
	case isTransient(failed) && !apierrors.IsNotFound(failed): // The API of an object of the proxies may be missing.
		return ctrl.Result{}, failed
	case failed != nil:
		plan.Condition = proxies.WriteFailed(rejection("install the proxies", failed))
	}
	retry, unreported := p.report(ctx, namespace, dependents, plan.Condition)
	return ctrl.Result{RequeueAfter: earlier(plan.RequeueAfter, retry)}, errors.Join(failed, unreported)
}

// read reads the input of the plan for a namespace, and the HTTPScaledObjects and InterceptorRoutes that need its
// proxies. While the InterceptorRoutes cannot be read, no proxies are removed.
func (p *ProxyReconciler) read(ctx context.Context, namespace *corev1.Namespace) (
	state proxies.Namespace, dependents []httpv1alpha1.HTTPScaledObject, err error,
) {
	var scaled httpv1alpha1.HTTPScaledObjectList
	var endpoints discoveryv1.EndpointSliceList
	inside := client.InNamespace(namespace.Name)
	where := []client.ListOption{inside}
	if namespace.Name == p.Settings.InterceptorNamespace { // the shared fleet serves all namespaces
		where = nil
	}
	ofProxy := client.MatchingLabels{discoveryv1.LabelServiceName: proxies.Service}
	isWired, err := p.isWired(ctx, namespace.Name)
	err = errors.Join(err, p.Client.List(ctx, &scaled, where...), p.Client.List(ctx, &endpoints, inside, ofProxy))
	if err != nil {
		return state, nil, fmt.Errorf("read namespace %s: %w", namespace.Name, err)
	}
	state = proxies.Namespace{
		Name: namespace.Name, Annotations: namespace.Annotations, Settings: p.Settings, Delay: p.RemovalDelay, Now: p.Now(),
	}
	for _, object := range scaled.Items {
		if proxies.NeedsProxy(&object) && proxies.FleetNamespace(&object, p.Settings.InterceptorNamespace) == namespace.Name {
			dependents = append(dependents, object)
		}
	}
	routes, isKnown, err := p.routesOfFleet(ctx, namespace.Name, where...)
	if err != nil {
		return state, nil, fmt.Errorf("read namespace %s: %w", namespace.Name, err)
	}
	dependents = append(dependents, routes...)
	state.IsNeeded, state.IsWired = len(dependents) > 0, isWired || !isKnown
	for _, slice := range endpoints.Items {
		state.HasEndpoints = state.HasEndpoints || len(slice.Endpoints) > 0
	}
	state.Existing, err = p.installed(ctx, namespace.Name)
	if err == nil {
		state.Autoscaler, err = p.autoscaler(ctx, namespace.Name)
	}
	return state, dependents, err
}

// autoscaler reads the complete ScaledObject of the proxies of a namespace. The cache keeps only the fields of
// apis.ScaledObject.
func (p *ProxyReconciler) autoscaler(ctx context.Context, namespace string) (*unstructured.Unstructured, error) {
	key := types.NamespacedName{Namespace: namespace, Name: proxies.Service}
	err := p.Client.Get(ctx, key, new(apis.ScaledObject))
	scaled := new(unstructured.Unstructured)
	if err == nil {
		scaled.SetGroupVersionKind(apis.ScaledObjectKind())
		err = p.APIReader.Get(ctx, key, scaled)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // There is none.
	case err != nil:
		return nil, fmt.Errorf("read ScaledObject %s: %w", key, err)
	}
	return scaled, nil
}

// installed reads the objects of a namespace that have the names of the proxies' objects.
func (p *ProxyReconciler) installed(ctx context.Context, namespace string) ([]*unstructured.Unstructured, error) {
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	var objects []*unstructured.Unstructured
	for _, object := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: in(proxyBootstrap)},
		&corev1.Service{ObjectMeta: in(proxies.Service)},
		&corev1.Service{ObjectMeta: in(proxyAdmin)},
		&policyv1.PodDisruptionBudget{ObjectMeta: in(proxies.Service)},
		&appsv1.Deployment{ObjectMeta: in(proxies.Service)},
	} {
		kind, err := apiutil.GVKForObject(object, p.Client.Scheme())
		if err != nil {
			return nil, err
		}
		switch err := p.Client.Get(ctx, client.ObjectKeyFromObject(object), object); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("read %s %s/%s: %w", kind.Kind, namespace, object.GetName(), err)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("read %s %s/%s: %w", kind.Kind, namespace, object.GetName(), err)
		}
		existing := &unstructured.Unstructured{Object: content}
		existing.SetGroupVersionKind(kind)
		objects = append(objects, existing)
	}
	return objects, nil
}

// applyPlan applies and deletes objects, in order, up to the first error. A new object is applied without force:
// if someone creates another one at the same time, the write fails with a conflict and takes over nothing.
func (p *ProxyReconciler) applyPlan(ctx context.Context, plan proxies.Plan) error {
	log := ctrl.LoggerFrom(ctx)
	for _, object := range plan.Apply {
		text, err := object.MarshalJSON()
		if err != nil {
			return err
		}
		options := []client.PatchOption{fieldOwner}
		if object.GetUID() != "" {
			options = append(options, client.ForceOwnership)
		}
		written := object.DeepCopy()
		if err := p.Client.Patch(ctx, written, client.RawPatch(types.ApplyPatchType, text), options...); err != nil {
			return fmt.Errorf("write %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
		log.Info("applied", "kind", object.GetKind(), "name", object.GetName())
	}
	for _, object := range plan.Delete {
		uid, version := object.GetUID(), object.GetResourceVersion()
		err := p.Client.Delete(ctx, object, client.Preconditions{UID: &uid, ResourceVersion: &version},
			client.PropagationPolicy(metav1.DeletePropagationBackground))
		if err := client.IgnoreNotFound(err); err != nil {
			return fmt.Errorf("delete %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
		log.Info("deleted", "kind", object.GetKind(), "name", object.GetName())
	}
	return nil
}

// report writes a condition, or removes it, on the objects that need the proxies. If it is new it also
// emits an Event: on the Namespace if its annotations are invalid, otherwise on each ScaledObject. retry is the delay
// after which deferred writes are repeated, zero if there are none.
func (p *ProxyReconciler) report(
	ctx context.Context, namespace *corev1.Namespace,
	dependents []httpv1alpha1.HTTPScaledObject, condition *metav1.Condition,
) (retry time.Duration, failed error) {
	writer := conditionWriter{api: p.Client, owner: proxyOwner, now: p.Now()}
	isReported := false
	for index := range dependents {
		object := &dependents[index]
		before := meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionProxyInstalled)
		var want []metav1.Condition
		if condition != nil {
			want = []metav1.Condition{*condition}
		}
		if before == nil && want == nil || want != nil && desired.HasConditions(object, want) {
			continue
		}
		writer.schema = p.StatusSchema
		if isRoute(object) {
			writer.schema = nil
		}
		err := writer.write(ctx, object, want)
		switch {
		case isDeferred(err):
			retry = conditionRetryInterval
		case err != nil:
			kind, name := fieldsOf(object).Kind, client.ObjectKeyFromObject(object)
			failed = errors.Join(failed, fmt.Errorf("write the condition of %s %s: %w", kind, name, err))
		}
		if err != nil && !errors.Is(err, errUndeclared) || condition == nil || !differs(before, condition) {
			continue // only the Event shows an undeclared condition
		}
		isOfNamespace := condition.Reason == httpv1alpha1.ReasonInvalidProxySettings
		if !isOfNamespace {
			p.emit(p.owner(ctx, object), condition)
		} else if !isReported {
			p.emit(namespace, condition)
		}
		isReported = isReported || isOfNamespace
	}
	return retry, failed
}

// differs reports whether a condition differs from the one before, which is nil if it was absent. The generation
// of its object does not count.
func differs(before, after *metav1.Condition) bool {
	return before == nil || before.Status != after.Status || before.Reason != after.Reason ||
		before.Message != after.Message
}

// emit emits an Event about a condition: a Warning, or a Normal Event if the condition is True.
func (p *ProxyReconciler) emit(about client.Object, condition *metav1.Condition) {
	kind := corev1.EventTypeWarning
	if condition.Status == metav1.ConditionTrue {
		kind = corev1.EventTypeNormal
	}
	p.Events.Event(about, kind, condition.Reason, truncate.Text(condition.Message, maxEvent))
}

// owner returns the ScaledObject of an HTTPScaledObject, or the object itself, which may be an InterceptorRoute.
func (p *ProxyReconciler) owner(ctx context.Context, object *httpv1alpha1.HTTPScaledObject) client.Object {
	if isRoute(object) {
		return &httpv1beta1.InterceptorRoute{ObjectMeta: object.ObjectMeta}
	}
	for _, name := range ownerOf(object) {
		scaled := new(apis.ScaledObject)
		if p.Client.Get(ctx, types.NamespacedName{Namespace: object.Namespace, Name: name}, scaled) == nil {
			return scaled
		}
	}
	return object
}

// SetupWithManager adds the controller to mgr. It reconciles a namespace when an object that affects its proxies
// changes. HTTPRoutes are watched as soon as they are installed.
func (p *ProxyReconciler) SetupWithManager(mgr manager.Manager) error {
	inside := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return p.requests(object.GetNamespace())
	})
	fleet := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		if scaled, ok := object.(*httpv1alpha1.HTTPScaledObject); ok {
			return p.requests(object.GetNamespace(), proxies.FleetNamespace(scaled, p.Settings.InterceptorNamespace))
		}
		return nil
	})
	itself := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return p.requests(object.GetName())
	})
	isProxyService := predicate.NewPredicateFuncs(func(object client.Object) bool {
		return isProxyService(object.GetName())
	})
	isWired := predicate.Funcs{
		CreateFunc: func(change event.CreateEvent) bool { return hasRestoreRecord(change.Object) },
		DeleteFunc: func(change event.DeleteEvent) bool { return hasRestoreRecord(change.Object) },
		UpdateFunc: func(change event.UpdateEvent) bool {
			return hasRestoreRecord(change.ObjectOld) != hasRestoreRecord(change.ObjectNew)
		},
	}
	isWritten := predicate.Or(
		predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	written := builder.WithPredicates(isWritten)
	chosen := ctrl.NewControllerManagedBy(mgr).Named("proxies")
	if p.CAChanged != nil {
		chosen = chosen.WatchesRawSource(source.Channel(p.CAChanged, handler.EnqueueRequestsFromMapFunc(p.withBootstrap)))
	}
	if !p.IgnoreRoutes {
		chosen = chosen.Watches(&networkingv1.Ingress{}, inside,
			builder.WithPredicates(predicate.AnnotationChangedPredicate{}))
	}
	if !p.IgnoreRoutes && p.Routers != nil {
		router := handler.EnqueueRequestsFromMapFunc(p.withRouter)
		chosen = chosen.WatchesRawSource(source.Channel(p.Routers.services.subscribe(), router)).
			WatchesRawSource(source.Channel(p.Routers.routes.subscribe(), router))
	}
	if p.InterceptorRoutes != nil {
		chosen = chosen.WatchesRawSource(source.Channel(
			p.InterceptorRoutes.cache.subscribe(), handler.EnqueueRequestsFromMapFunc(p.withRoute)))
		if err := p.InterceptorRoutes.cache.setUp(); err != nil {
			return fmt.Errorf("set up the proxy controller: %w", err)
		}
	}
	running, err := chosen.
		Watches(&corev1.Namespace{}, itself, builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		Watches(&httpv1alpha1.HTTPScaledObject{}, fleet, builder.WithPredicates(predicate.Funcs{UpdateFunc: needChanged})).
		Watches(&discoveryv1.EndpointSlice{}, inside).
		Watches(&corev1.Service{}, inside, builder.WithPredicates(predicate.Or(isProxyService, isWired))).
		Watches(&corev1.ConfigMap{}, inside).
		Watches(&policyv1.PodDisruptionBudget{}, inside, written).
		Watches(&appsv1.Deployment{}, inside, written).
		Watches(&apis.ScaledObject{}, inside, builder.WithPredicates(predicate.And(isProxyService, isWritten))).
		Watches(&apis.ScaledObject{}, handler.EnqueueRequestsFromMapFunc(p.withRoutesOf),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers, ReconciliationTimeout: reconcileTimeout, UsePriorityQueue: new(true),
		}).
		Build(p)
	if err != nil {
		return fmt.Errorf("set up the proxy controller: %w", err)
	}
	if p.IgnoreRoutes {
		return nil
	}
	optional := &optionalKinds{manager: mgr, controller: running}
	p.IsInstalled = optional.isInstalled
	return optional.watch(apis.HTTPRouteKind(), &apis.HTTPRoute{}, handler.EnqueueRequestsFromMapFunc(p.wired),
		predicate.AnnotationChangedPredicate{})
}

// requests returns the requests for those of the namespaces in which proxies are installed.
func (p *ProxyReconciler) requests(namespaces ...string) []reconcile.Request {
	return requestsFor(slices.DeleteFunc(namespaces, func(name string) bool {
		return len(p.Namespaces) > 0 && !slices.Contains(p.Namespaces, name)
	}))
}
