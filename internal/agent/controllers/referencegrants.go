package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// newGrants returns the cache of the ReferenceGrants of one namespace. The agent has no permission for others.
func newGrants(mgr manager.Manager, namespace string) (*kindCache, error) {
	return newKindCache(mgr, apis.ReferenceGrantKind(), &apis.ReferenceGrant{}, []string{namespace})
}

// watchGrants makes the controller watch the ReferenceGrants of the shared fleet, and sets ListGrants, unless the agent
// does not serve the namespace of that fleet. setUp starts the watch.
func (a *AutowireReconciler) watchGrants(
	mgr manager.Manager, controller *builder.Builder,
) (setUp func() error, err error) {
	if !a.servesShared() {
		return func() error { return nil }, nil
	}
	grants, err := newGrants(mgr, a.SharedNamespace)
	if err != nil {
		return nil, err
	}
	a.ListGrants = listGrants(grants)
	controller.WatchesRawSource(source.Channel(grants.subscribe(), enqueueNamespaces(grantedNamespaces)))
	return grants.setUp, nil
}

// servesShared reports whether the agent serves the namespace of the shared fleet.
func (a *AutowireReconciler) servesShared() bool {
	return a.SharedNamespace != "" && (len(a.Namespaces) == 0 || slices.Contains(a.Namespaces, a.SharedNamespace))
}

// listGrants returns AutowireReconciler.ListGrants from a cache.
func listGrants(grants *kindCache) func(context.Context) (all []apis.ReferenceGrant, synced bool, err error) {
	return func(ctx context.Context) (all []apis.ReferenceGrant, synced bool, err error) {
		if !grants.isSynced() {
			return nil, false, nil
		}
		var list apis.ReferenceGrantList
		if err := grants.cache.List(ctx, &list); err != nil {
			return nil, false, fmt.Errorf("read ReferenceGrants: %w", err)
		}
		return list.Items, true, nil
	}
}

// grantedNamespaces returns the namespaces in spec.from of a ReferenceGrant.
func grantedNamespaces(object client.Object) []string {
	if grant, ok := object.(*apis.ReferenceGrant); ok {
		return autowire.FromNamespaces(grant)
	}
	return nil
}

// enqueueProxyUsers enqueues the namespaces with backends for the proxies that an object belongs to: its own
// namespace and, for the shared fleet, all namespaces with an HTTPScaledObject of that fleet.
func (a *AutowireReconciler) enqueueProxyUsers() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		names := []string{object.GetNamespace()}
		_, isService := object.(*corev1.Service)
		if object.GetNamespace() == a.SharedNamespace && (!isService || object.GetName() == autowire.ProxyService) {
			var scaled httpv1alpha1.HTTPScaledObjectList
			if err := a.Client.List(ctx, &scaled, client.UnsafeDisableDeepCopy); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "list HTTPScaledObjects of the shared fleet failed")
			}
			for i := range scaled.Items {
				if scaled.Items[i].Annotations[httpv1alpha1.AnnotationFleet] == httpv1alpha1.FleetShared {
					names = append(names, scaled.Items[i].Namespace)
				}
			}
		}
		return requestsFor(names)
	})
}

// shared reads the state of the shared fleet.
func (a *AutowireReconciler) shared(ctx context.Context) (state autowire.Shared, err error) {
	if !a.servesShared() || a.ListGrants == nil || !a.IsInstalled(apis.HTTPRouteKind()) {
		return state, nil
	}
	state.Namespace = a.SharedNamespace
	if state.Grants, state.GrantsSynced, err = a.ListGrants(ctx); err != nil {
		return state, err
	}
	proxies, err := a.proxies(ctx, a.SharedNamespace)
	if err != nil {
		return state, fmt.Errorf("read the shared fleet: %w", err)
	}
	service := new(corev1.Service)
	key := types.NamespacedName{Namespace: a.SharedNamespace, Name: autowire.ProxyService}
	switch err := a.Client.Get(ctx, key, service); {
	case err == nil:
		proxies.Service = service
	case !apierrors.IsNotFound(err):
		return state, fmt.Errorf("read Service %s: %w", key, err)
	}
	a.probe(a.SharedNamespace, &proxies, true)
	state.Service = proxies.Service
	state.HasProxy, state.HasHTTP2Proxy = proxies.CanServe(autowire.ProxyPort), proxies.CanServe(autowire.HTTP2Port)
	return state, nil
}

// plan computes the plan for a namespace and writes its fallback Services and its ReferenceGrant. before are the API
// server's errors for these writes, which the returned plan takes into account.
func (a *AutowireReconciler) plan(
	ctx context.Context, namespace *autowire.Namespace,
) (plan autowire.Plan, before, err error) {
	plan, err = namespace.Plan()
	if err != nil {
		return plan, nil, err
	}
	var serviceErr error
	namespace.ServiceErrors, serviceErr = a.writeServices(ctx, plan.Services)
	if len(namespace.ServiceErrors) > 0 {
		if plan, err = namespace.Plan(); err != nil {
			return plan, nil, err
		}
	}
	plan, before, err = a.planGrant(ctx, namespace, plan)
	return plan, errors.Join(serviceErr, before), err
}

// planGrant writes the ReferenceGrant of a plan. grantErr is the API server's error for that write, which the returned
// plan takes into account.
func (a *AutowireReconciler) planGrant(
	ctx context.Context, namespace *autowire.Namespace, plan autowire.Plan,
) (_ autowire.Plan, grantErr, err error) {
	if a.ReadsGrantsOnly {
		plan.Grant.Apply, plan.Grant.Delete = nil, nil
		return plan, nil, nil
	}
	if grantErr = a.grant(ctx, plan.Grant); grantErr == nil || apierrors.IsConflict(grantErr) && plan.Grant.Delete != nil {
		return plan, grantErr, nil
	}
	namespace.Shared.GrantError = grantErr.Error()
	plan, err = namespace.Plan()
	return plan, grantErr, err
}

// grant applies or deletes a ReferenceGrant. A new one is applied without force: if someone creates another one of
// that name at the same time, the agent takes over nothing.
func (a *AutowireReconciler) grant(ctx context.Context, change autowire.GrantChange) error {
	if gone := change.Delete; gone != nil {
		err := a.Client.Delete(ctx, gone, client.Preconditions{UID: &gone.UID, ResourceVersion: &gone.ResourceVersion})
		return client.IgnoreNotFound(err)
	}
	if change.Apply == nil {
		return nil
	}
	text, err := json.Marshal(change.Apply)
	if err != nil {
		return err
	}
	options := []client.PatchOption{fieldOwner}
	if change.Apply.UID != "" {
		options = append(options, client.ForceOwnership)
	}
	ctx, cancel := context.WithTimeout(ctx, grantTimeout)
	defer cancel()
	return a.Client.Patch(ctx, change.Apply.DeepCopy(), client.RawPatch(types.ApplyPatchType, text), options...)
}

// grantTimeout bounds one write of a ReferenceGrant.
const grantTimeout = 10 * time.Second
