package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
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
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// Indexes of the cache.
const (
	indexOwner  = "owner"  // HTTPScaledObjects by the name of their ScaledObject
	indexWanted = "wanted" // ScaledObjects by the names of the HTTPScaledObjects they stand for
	indexTarget = "target" // ScaledObjects that scale a Rollout, by its name
)

const (
	// workers is how many ScaledObjects are reconciled at a time.
	workers = 4
	// timeLimit is how long one may take.
	timeLimit = 30 * time.Second
	// lookEvery is how often is looked whether a kind has been installed by now.
	lookEvery = 10 * time.Second
)

// Register has mgr call the reconciler whenever a ScaledObject, its Rollout or one of its
// HTTPScaledObjects changes. Rollouts are watched as soon as Argo Rollouts is installed.
func (r *Reconciler) Register(ctx context.Context, mgr manager.Manager) error {
	if err := r.index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	running, err := ctrl.NewControllerManagedBy(mgr).
		Named("scaledobject").
		For(&apis.ScaledObject{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&httpv1alpha1.HTTPScaledObject{}, handler.EnqueueRequestsFromMapFunc(r.concerned),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: notOnlyStatus})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   timeLimit,
			UsePriorityQueue:        new(true), // what changes now comes before what a new leader finds
		}).
		Build(r)
	if err != nil {
		return fmt.Errorf("controller of ScaledObjects: %w", err)
	}
	return onceServed(mgr, apis.RolloutKind(), func() error { return r.watchRollouts(mgr, running) })
}

// index declares the indexes.
func (r *Reconciler) index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, each := range []struct {
		object client.Object
		name   string
		values client.IndexerFunc
	}{
		{&httpv1alpha1.HTTPScaledObject{}, indexOwner, ownerOf},
		{&apis.ScaledObject{}, indexWanted, r.wanted},
		{&apis.ScaledObject{}, indexTarget, target},
	} {
		if err := indexer.IndexField(ctx, each.object, each.name, each.values); err != nil {
			return fmt.Errorf("index %s: %w", each.name, err)
		}
	}
	return nil
}

// ownerOf is the name of the ScaledObject that an HTTPScaledObject was made from.
func ownerOf(object client.Object) []string {
	controller := metav1.GetControllerOf(object)
	found, ok := object.(*httpv1alpha1.HTTPScaledObject)
	if controller == nil || !ok || !desired.IsOwn(found, controller.Name) {
		return nil
	}
	return []string{controller.Name}
}

// wanted are the names of the HTTPScaledObjects that a ScaledObject stands for.
func (r *Reconciler) wanted(object client.Object) []string {
	scaled, ok := object.(*apis.ScaledObject)
	if !ok {
		return nil
	}
	return desired.Names(scaled, r.ScalerAddress)
}

// target is the name of the Rollout that a ScaledObject scales.
func target(object client.Object) []string {
	scaled, ok := object.(*apis.ScaledObject)
	if !ok || !scaled.TargetsRollout() {
		return nil
	}
	return []string{scaled.Spec.ScaleTargetRef.Name}
}

// concerned are the ScaledObjects that a change of an HTTPScaledObject concerns: its own, and those
// that want its name.
func (r *Reconciler) concerned(ctx context.Context, object client.Object) []reconcile.Request {
	requests := r.indexed(ctx, object.GetNamespace(), indexWanted, object.GetName())
	for _, name := range ownerOf(object) {
		key := types.NamespacedName{Namespace: object.GetNamespace(), Name: name}
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// indexed are the ScaledObjects of a namespace that an index has.
func (r *Reconciler) indexed(
	ctx context.Context, namespace, index, value string,
) []reconcile.Request {
	var list apis.ScaledObjectList
	only := client.MatchingFields{index: value}
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace), only); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list ScaledObjects", "namespace", namespace, index, value)
	}
	var requests []reconcile.Request
	for _, scaled := range list.Items {
		key := client.ObjectKeyFromObject(&scaled)
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// notOnlyStatus says whether an HTTPScaledObject has changed in what the agent writes. The status
// changes often, and by others.
func notOnlyStatus(change event.UpdateEvent) bool {
	before, after := change.ObjectOld, change.ObjectNew
	return before.GetGeneration() != after.GetGeneration() ||
		!equality.Semantic.DeepEqual(before.GetLabels(), after.GetLabels()) ||
		!equality.Semantic.DeepEqual(before.GetAnnotations(), after.GetAnnotations()) ||
		!equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences())
}

// watchRollouts has the controller watch Rollouts.
func (r *Reconciler) watchRollouts(mgr manager.Manager, running controller.Controller) error {
	scalers := func(ctx context.Context, rollout *apis.Rollout) []reconcile.Request {
		return r.indexed(ctx, rollout.Namespace, indexTarget, rollout.Name)
	}
	otherService := func(change event.TypedUpdateEvent[*apis.Rollout]) bool {
		return change.ObjectOld.StableService() != change.ObjectNew.StableService()
	}
	return running.Watch(source.Kind(mgr.GetCache(), &apis.Rollout{},
		handler.TypedEnqueueRequestsFromMapFunc(scalers),
		predicate.TypedFuncs[*apis.Rollout]{UpdateFunc: otherService}))
}

// onceServed has something watch a kind that need not be installed: at once where the API server has it, so that the
// first reconciliation knows what there is, else as soon as it does.
func onceServed(mgr manager.Manager, kind schema.GroupVersionKind, watch func() error) error {
	isServed := func() (bool, error) {
		_, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return err == nil, err
	}
	is, err := isServed()
	switch {
	case err != nil:
		return fmt.Errorf("find out whether %ss are installed: %w", kind.Kind, err)
	case is:
		return watch()
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		installed := func(context.Context) (bool, error) {
			is, err := isServed()
			if err != nil {
				mgr.GetLogger().Error(err, "cannot find out whether a kind is installed", "kind", kind.Kind)
			}
			return is, nil
		}
		if err := wait.PollUntilContextCancel(ctx, lookEvery, true, installed); err != nil {
			return nil //nolint:nilerr // the agent ends, which is the only error
		}
		return watch()
	}))
}
