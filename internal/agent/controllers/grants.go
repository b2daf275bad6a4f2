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
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// grants are the ReferenceGrants of one namespace, in a cache of its own: the agent may read those of no other, and where it may not
// read these either, nothing else is to wait for them. It is a manager.Runnable.
type grants struct {
	cache   cache.Cache
	manager manager.Manager
	// known is set once they are watched.
	known atomic.Pointer[toolscache.InformerSynced]
	// changed has each one that has changed.
	changed chan event.GenericEvent
}

// newGrants are those of a namespace.
func newGrants(mgr manager.Manager, namespace string) (*grants, error) {
	made, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("cache of ReferenceGrants: %w", err)
	}
	return &grants{cache: made, manager: mgr, changed: make(chan event.GenericEvent)}, nil
}

// Start watches them, from when the Gateway API is installed until ctx ends.
func (g *grants) Start(ctx context.Context) error {
	installed := func(context.Context) (bool, error) {
		kind := apis.ReferenceGrantKind()
		_, err := g.manager.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		return err == nil, nil // what is not known is asked again
	}
	if err := wait.PollUntilContextCancel(ctx, lookEvery, true, installed); err != nil {
		return nil //nolint:nilerr // the agent ends, which is the only error
	}
	informer, err := g.cache.GetInformer(ctx, &apis.ReferenceGrant{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch ReferenceGrants: %w", err)
	}
	tell := func(object any) {
		if last, is := object.(toolscache.DeletedFinalStateUnknown); is {
			object = last.Obj
		}
		if grant, is := object.(*apis.ReferenceGrant); is {
			select {
			case g.changed <- event.GenericEvent{Object: grant}:
			case <-ctx.Done():
			}
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(_, after any) { tell(after) }, DeleteFunc: tell,
	}); err != nil {
		return fmt.Errorf("watch ReferenceGrants: %w", err)
	}
	synced := toolscache.InformerSynced(informer.HasSynced)
	g.known.Store(&synced)
	return g.cache.Start(ctx)
}

// read is Autowirer.Grants.
func (g *grants) read(ctx context.Context) (all []apis.ReferenceGrant, areKnown bool, err error) {
	if synced := g.known.Load(); synced == nil || !(*synced)() {
		return nil, false, nil
	}
	var found apis.ReferenceGrantList
	if err := g.cache.List(ctx, &found); err != nil {
		return nil, false, fmt.Errorf("read ReferenceGrants: %w", err)
	}
	return found.Items, true, nil
}

// granted are the namespaces that a ReferenceGrant concerns.
func granted(object client.Object) []string {
	if grant, is := object.(*apis.ReferenceGrant); is {
		return autowire.GrantedTo(grant)
	}
	return nil
}

// ofProxies asks for the namespaces whose backends go to the proxies that an object is of: its own and, of the shared fleet, all
// that have an HTTPScaledObject there.
func (a *Autowirer) ofProxies() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
		names := []string{object.GetNamespace()}
		_, isService := object.(*corev1.Service)
		if object.GetNamespace() == a.Shared && (!isService || object.GetName() == autowire.ProxyService) {
			var scaled httpv1alpha1.HTTPScaledObjectList
			if err := a.Client.List(ctx, &scaled, client.UnsafeDisableDeepCopy); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "cannot tell who uses the shared fleet")
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

// shared reads what is known of the shared fleet.
func (a *Autowirer) shared(ctx context.Context) (found autowire.Shared, err error) {
	isWatched := len(a.Namespaces) == 0 || slices.Contains(a.Namespaces, a.Shared)
	if a.Shared == "" || !isWatched || a.Grants == nil || !a.IsServed(apis.HTTPRouteKind()) {
		return found, nil
	}
	found.Namespace = a.Shared
	if found.Grants, found.AreKnown, err = a.Grants(ctx); err != nil {
		return found, err
	}
	proxies, err := a.proxies(ctx, a.Shared)
	if err != nil {
		return found, fmt.Errorf("read the shared fleet: %w", err)
	}
	service := new(corev1.Service)
	key := types.NamespacedName{Namespace: a.Shared, Name: autowire.ProxyService}
	switch err := a.Client.Get(ctx, key, service); {
	case err == nil:
		proxies.Service = service
	case !apierrors.IsNotFound(err):
		return found, fmt.Errorf("read Service %s: %w", key, err)
	}
	a.keep(a.Shared, &proxies, true)
	found.HasProxy = proxies.Serve(autowire.ProxyPort)
	return found, nil
}

// plan plans for a namespace, and makes its ReferenceGrant what it should be. refused is why the API server did not take that: the plan
// says so, too.
func (a *Autowirer) plan(ctx context.Context, namespace *autowire.Namespace) (todo autowire.Plan, refused, err error) {
	todo, err = namespace.Plan()
	if err != nil {
		return todo, nil, err
	}
	if refused = a.grant(ctx, todo.Grant); refused == nil || apierrors.IsConflict(refused) && todo.Grant.Delete != nil {
		return todo, refused, nil
	}
	namespace.Shared.Refused = refused.Error()
	todo, err = namespace.Plan()
	return todo, refused, err
}

// grant applies or deletes a ReferenceGrant. One that is new is applied without force: should somebody have made another of that name, nothing is
// taken over.
func (a *Autowirer) grant(ctx context.Context, todo autowire.GrantChange) error {
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
