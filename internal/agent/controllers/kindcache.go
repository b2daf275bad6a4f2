package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// errUnread means that the objects of a kind have not been read yet, and that nothing is known to prevent it.
var errUnread = errors.New("objects have not been read yet")

// isUnread reports whether an error is errUnread.
func isUnread(err error) bool { return errors.Is(err, errUnread) }

// failuresUntilReport is the number of failed attempts, except for a missing permission, after which the objects of a
// kind count as unreadable.
const failuresUntilReport = 3

// kindCache caches the objects of one kind, separately from the cache of the manager: controllers, the webhook and the
// readiness of the agent do not wait for it. The kind may not be installed. The agent may lack the permission, for
// example after an upgrade whose roles are applied later. It is a manager.Runnable.
type kindCache struct {
	cache   cache.Cache
	manager manager.Manager
	kind    schema.GroupVersionKind
	object  client.Object
	// hasSynced is set once the objects are watched.
	hasSynced atomic.Pointer[toolscache.InformerSynced]
	// problem is why the objects cannot be read, nil for nothing. failures is the number of failed attempts.
	problem  atomic.Pointer[string]
	failures atomic.Int32
	// effect is the effect of objects that cannot be read, for the log.
	effect string
	// isUpdated reports whether an update of an object is more than one of its status.
	isUpdated func(before, after any) bool
	// subscribers receive each object that changes, and an object without a name when problem changes.
	subscribers []chan event.GenericEvent
	// done is closed when the cache has to end.
	done chan struct{}
}

// newKindCache returns the cache for a kind in some namespaces; none means all.
func newKindCache(
	mgr manager.Manager, kind schema.GroupVersionKind, object client.Object, namespaces []string,
) (*kindCache, error) {
	k := &kindCache{
		manager: mgr, kind: kind, object: object, done: make(chan struct{}), isUpdated: isUpdated,
		effect: "the agent wires no other backend for which they matter",
	}
	options := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: Trim(), DefaultWatchErrorHandler: k.failed,
		DefaultNamespaces: map[string]cache.Config{},
	}
	for _, namespace := range namespaces {
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	var err error
	if k.cache, err = cache.New(mgr.GetConfig(), options); err != nil {
		return nil, fmt.Errorf("create the cache of kind %s: %w", kind.Kind, err)
	}
	return k, nil
}

// setUp adds the cache to the manager, and watches the objects once the kind is installed.
func (k *kindCache) setUp() error {
	return errors.Join(k.manager.Add(k), whenInstalled(k.manager, k.kind, k.watch))
}

// setUpUnless is setUp for an earlier version of a kind, which is not read once the later one is.
func (k *kindCache) setUpUnless(later *kindCache) error {
	return errors.Join(k.manager.Add(k), whenInstalledUnless(k.manager, k.kind, later.isWatched, k.watch))
}

// Start runs the cache until ctx is canceled. The cache waits for its handlers, and the controller may no longer
// receive what they send.
func (k *kindCache) Start(ctx context.Context) error {
	context.AfterFunc(ctx, func() { close(k.done) })
	return k.cache.Start(ctx)
}

// watch watches the objects, as soon as the cache runs.
func (k *kindCache) watch() error {
	informer, err := k.cache.GetInformer(context.Background(), k.object, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch kind %s: %w", k.kind.Kind, err)
	}
	notify := func(object any) {
		if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		if changed, ok := object.(client.Object); ok {
			k.notify(changed)
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: notify, DeleteFunc: notify,
		UpdateFunc: func(before, after any) {
			if k.isUpdated(before, after) {
				notify(after)
			}
		},
	}); err != nil {
		return fmt.Errorf("watch kind %s: %w", k.kind.Kind, err)
	}
	synced := toolscache.InformerSynced(informer.HasSynced)
	k.hasSynced.Store(&synced)
	go func() {
		if toolscache.WaitForCacheSync(k.done, synced) {
			if k.problem.Swap(nil) != nil {
				k.manager.GetLogger().Info("objects of an optional kind can be read again", "kind", k.kind.Kind)
			}
			k.notify(k.object)
		}
	}()
	return nil
}

// isWatched reports whether the objects are watched, which they are once the kind is installed.
func (k *kindCache) isWatched() bool { return k.hasSynced.Load() != nil }

// isSynced reports whether the objects have been read.
func (k *kindCache) isSynced() bool {
	hasSynced := k.hasSynced.Load()
	return hasSynced != nil && (*hasSynced)()
}

// isUpdated reports whether an update of an object is more than one of its status.
func isUpdated(before, after any) bool {
	old, isObject := before.(client.Object)
	current, ok := after.(client.Object)
	return !isObject || !ok || old.GetGeneration() != current.GetGeneration() ||
		!maps.Equal(old.GetAnnotations(), current.GetAnnotations()) // those of IngressClasses name the default one
}

// subscribe returns a channel for a controller, which must receive from it. It must be called before setUp.
func (k *kindCache) subscribe() <-chan event.GenericEvent {
	subscriber := make(chan event.GenericEvent)
	k.subscribers = append(k.subscribers, subscriber)
	return subscriber
}

// notify sends an object to the controllers.
func (k *kindCache) notify(object client.Object) {
	for _, subscriber := range k.subscribers {
		select {
		case subscriber <- event.GenericEvent{Object: object}:
		case <-k.done:
		}
	}
}

// failed records that the objects could not be listed or watched. It is a toolscache.WatchErrorHandlerWithContext.
func (k *kindCache) failed(_ context.Context, _ *toolscache.Reflector, err error) {
	logger := k.manager.GetLogger().WithValues("kind", k.kind.Kind)
	isRead, isForbidden := k.isSynced(), apierrors.IsForbidden(err)
	if !isForbidden && (isRead || k.failures.Add(1) < failuresUntilReport) {
		logger.V(1).Info("watch of an optional kind failed and is repeated", "error", err)
		return
	}
	problem := fmt.Sprintf("kind %s cannot be read: %v", k.kind.Kind, err)
	if isForbidden {
		problem = fmt.Sprintf("kind %s cannot be read, because the agent may not list and watch %s.%s: grant it the "+
			"permission of config/agent/rbac.yaml: %v", k.kind.Kind, k.resource(), k.kind.Group, err)
	}
	if isRead {
		logger.Error(err, "objects of an optional kind can no longer be watched",
			"effect", "the agent uses those that it has read before", "fix", problem)
		return
	}
	logger.Error(err, "objects of an optional kind cannot be read",
		"effect", k.effect, "fix", problem)
	if k.isWatched() && k.problem.Swap(&problem) == nil {
		k.notify(k.object)
	}
}

// resource returns the resource of the kind in the API.
func (k *kindCache) resource() string {
	mapping, err := k.manager.GetRESTMapper().RESTMapping(k.kind.GroupKind(), k.kind.Version)
	if err != nil {
		return strings.ToLower(k.kind.Kind)
	}
	return mapping.Resource.Resource
}

// list lists the objects. problem is why they cannot be read, empty if they can or if the kind is not installed. The
// error is errUnread until one of these is known.
func (k *kindCache) list(ctx context.Context, into client.ObjectList, options ...client.ListOption) (
	problem string, err error,
) {
	switch {
	case !k.isWatched():
		return "", nil
	case k.isSynced():
		return "", k.cache.List(ctx, into, options...)
	}
	if problem := k.problem.Load(); problem != nil {
		return *problem, nil
	}
	return "", fmt.Errorf("kind %s: %w", k.kind.Kind, errUnread)
}
