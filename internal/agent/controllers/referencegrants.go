package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// grants caches the ReferenceGrants of one namespace. It uses a separate cache, because the agent has no
// permission for other namespaces. Without permission for this one, nothing else must wait for it. It is a
// manager.Runnable.
type grants struct {
	cache   cache.Cache
	manager manager.Manager
	// hasSynced is set once the ReferenceGrants are watched.
	hasSynced atomic.Pointer[toolscache.InformerSynced]
	// changed receives each ReferenceGrant that changes.
	changed chan event.GenericEvent
}

// newGrants returns the cache for a namespace.
func newGrants(mgr manager.Manager, namespace string) (*grants, error) {
	grantCache, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("create the cache of ReferenceGrants: %w", err)
	}
	return &grants{cache: grantCache, manager: mgr, changed: make(chan event.GenericEvent)}, nil
}

// Start watches the ReferenceGrants from the installation of the Gateway API until ctx is canceled.
func (g *grants) Start(ctx context.Context) error {
	installed := func(context.Context) (bool, error) {
		kind := apis.ReferenceGrantKind()
		_, err := g.manager.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		return err == nil, nil // retried on errors
	}
	if err := wait.PollUntilContextCancel(ctx, pollInterval, true, installed); err != nil {
		return nil //nolint:nilerr // the only error is a canceled context
	}
	informer, err := g.cache.GetInformer(ctx, &apis.ReferenceGrant{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch ReferenceGrants: %w", err)
	}
	notify := func(object any) {
		if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		if grant, ok := object.(*apis.ReferenceGrant); ok {
			select {
			case g.changed <- event.GenericEvent{Object: grant}:
			case <-ctx.Done():
			}
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: notify, UpdateFunc: func(_, after any) { notify(after) }, DeleteFunc: notify,
	}); err != nil {
		return fmt.Errorf("watch ReferenceGrants: %w", err)
	}
	synced := toolscache.InformerSynced(informer.HasSynced)
	g.hasSynced.Store(&synced)
	return g.cache.Start(ctx)
}

// read implements AutowireReconciler.ListGrants.
func (g *grants) read(ctx context.Context) (all []apis.ReferenceGrant, synced bool, err error) {
	if hasSynced := g.hasSynced.Load(); hasSynced == nil || !(*hasSynced)() {
		return nil, false, nil
	}
	var list apis.ReferenceGrantList
	if err := g.cache.List(ctx, &list); err != nil {
		return nil, false, fmt.Errorf("read ReferenceGrants: %w", err)
	}
	return list.Items, true, nil
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
		slices.Sort(names)
		var requests []reconcile.Request
		for _, name := range slices.Compact(names) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
		return requests
	})
}

// shared reads the state of the shared fleet.
func (a *AutowireReconciler) shared(ctx context.Context) (state autowire.Shared, err error) {
	isWatched := len(a.Namespaces) == 0 || slices.Contains(a.Namespaces, a.SharedNamespace)
	if a.SharedNamespace == "" || !isWatched || a.ListGrants == nil || !a.IsInstalled(apis.HTTPRouteKind()) {
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

// plan computes the plan for a namespace and writes its ReferenceGrant. refused is the API server's error for that
// write, which the returned plan takes into account.
func (a *AutowireReconciler) plan(
	ctx context.Context, namespace *autowire.Namespace,
) (todo autowire.Plan, refused, err error) {
	todo, err = namespace.Plan()
	if err != nil {
		return todo, nil, err
	}
	if refused = a.grant(ctx, todo.Grant); refused == nil || apierrors.IsConflict(refused) && todo.Grant.Delete != nil {
		return todo, refused, nil
	}
	namespace.Shared.GrantError = refused.Error()
	todo, err = namespace.Plan()
	return todo, refused, err
}

// grant applies or deletes a ReferenceGrant. A new one is applied without force: if someone creates another one of
// that name at the same time, the agent takes over nothing.
func (a *AutowireReconciler) grant(ctx context.Context, todo autowire.GrantChange) error {
	if gone := todo.Delete; gone != nil {
		err := a.Client.Delete(ctx, gone, client.Preconditions{UID: &gone.UID, ResourceVersion: &gone.ResourceVersion})
		return client.IgnoreNotFound(err)
	}
	if todo.Apply == nil {
		return nil
	}
	text, err := json.Marshal(todo.Apply)
	if err != nil {
		return err
	}
	options := []client.PatchOption{fieldOwner}
	if todo.Apply.UID != "" {
		options = append(options, client.ForceOwnership)
	}
	ctx, cancel := context.WithTimeout(ctx, grantTimeout)
	defer cancel()
	return a.Client.Patch(ctx, todo.Apply.DeepCopy(), client.RawPatch(types.ApplyPatchType, text), options...)
}

// grantTimeout bounds one write of a ReferenceGrant.
const grantTimeout = 10 * time.Second
