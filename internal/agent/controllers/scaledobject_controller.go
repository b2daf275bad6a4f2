package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/crd"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
)

// ScaledObjectReconciler creates, updates and deletes the HTTPScaledObjects of ScaledObjects. It is a
// reconcile.Reconciler of ScaledObjects.
type ScaledObjectReconciler struct {
	// Client writes, and reads from a cache with the indexes that SetupWithManager declares.
	Client client.Client
	// APIReader reads without a cache.
	APIReader client.Reader
	// Events records Events on ScaledObjects.
	Events record.EventRecorder
	// Now is the clock for the times in conditions.
	Now func() time.Time
	// ScalerAddress is the address at which KEDA reaches the scaler, as host:port.
	ScalerAddress string
	// StatusSchema is the schema of the status of HTTPScaledObjects, nil if it is unknown.
	StatusSchema *crd.Published
	// ReadsServices reports whether the agent may read Services and EndpointSlices, and may take over Services.
	ReadsServices bool
}

// retryAfter is the delay after a write of an outdated version, and of a deletion that waits for Ingresses. The
// watch usually triggers the next attempt earlier, but not if only the status of the object has changed.
const retryAfter = time.Second

// Reconcile makes the HTTPScaledObjects of one ScaledObject match its triggers.
func (r *ScaledObjectReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	scaled, result := new(apis.ScaledObject), ctrl.Result{}
	err := r.Client.Get(ctx, request.NamespacedName, scaled)
	switch {
	case apierrors.IsNotFound(err):
		err = r.deleteAll(ctx, request.NamespacedName)
	case err != nil:
		err = fmt.Errorf("read ScaledObject %s: %w", request, err)
	case scaled.DeletionTimestamp == nil:
		result, err = r.reconcile(ctx, scaled)
	}
	if apierrors.IsConflict(err) || errors.Is(err, errOutdated) || errors.Is(err, errWired) {
		return ctrl.Result{RequeueAfter: retryAfter}, nil
	}
	return result, err
}

// deleteAll deletes the HTTPScaledObjects of a deleted ScaledObject. The garbage collector does it too, but later.
func (r *ScaledObjectReconciler) deleteAll(ctx context.Context, name types.NamespacedName) error {
	owned, err := r.owned(ctx, name)
	if err != nil {
		return err
	}
	var failed error
	for _, object := range owned {
		failed = errors.Join(failed, r.deleteObject(ctx, object))
	}
	return failed
}

// reconcile applies the changes that a ScaledObject needs. An error does not prevent the remaining writes.
func (r *ScaledObjectReconciler) reconcile(ctx context.Context, scaled *apis.ScaledObject) (ctrl.Result, error) {
	rollout, err := r.rollout(ctx, scaled)
	if err != nil {
		return ctrl.Result{}, err
	}
	wants := desired.Desired(scaled, rollout, r.ScalerAddress)
	existing, err := r.existing(ctx, scaled, wants)
	if err != nil {
		return ctrl.Result{}, err
	}
	changes := desired.Compare(scaled, wants, existing)
	if desired.PreventsDeletion(scaled, r.ScalerAddress) {
		changes.Delete = nil
	}
	isPending, err := r.keepForwarding(ctx, scaled.Namespace, &changes, existing)
	if err != nil {
		return ctrl.Result{}, err
	}
	retry, failed := r.applyChanges(ctx, scaled, changes, existing)
	if isPending {
		retry = earlier(retry, retryAfter)
	}
	failed = errors.Join(failed, r.convertTriggers(ctx, scaled))
	failed = errors.Join(failed, r.reportProblems(ctx, scaled, changes.Problems))
	return ctrl.Result{RequeueAfter: retry}, failed
}

// applyChanges writes and deletes HTTPScaledObjects, and emits Events about writes that the API server rejects. retry
// is the delay after which deferred writes of conditions are repeated, zero if there are none.
func (r *ScaledObjectReconciler) applyChanges(
	ctx context.Context, scaled *apis.ScaledObject,
	changes desired.Changes, existing []*httpv1alpha1.HTTPScaledObject,
) (retry time.Duration, failed error) {
	current := map[string]*httpv1alpha1.HTTPScaledObject{}
	for _, object := range existing {
		current[object.Name] = object
	}
	for _, want := range append(changes.Create, changes.Update...) {
		written, err := r.apply(ctx, current[want.Name], want)
		if err != nil {
			failed = errors.Join(failed, r.reportWriteError(scaled, want.Name, err))
			delete(changes.Conditions, want.Name) // they describe the object after the write
			continue
		}
		current[want.Name] = written
	}
	retry, err := r.writeConditions(ctx, scaled, changes.Conditions, current)
	if failed = errors.Join(failed, err); failed != nil {
		return retry, failed // the objects to delete may be the only ones that receive traffic
	}
	for _, object := range changes.Delete {
		failed = errors.Join(failed, r.deleteObject(ctx, object))
	}
	return retry, failed
}

// writeConditions writes the conditions of objects. retry is the delay after which deferred writes are repeated, zero
// if there are none.
func (r *ScaledObjectReconciler) writeConditions(
	ctx context.Context, scaled *apis.ScaledObject, all map[string][]metav1.Condition,
	current map[string]*httpv1alpha1.HTTPScaledObject,
) (retry time.Duration, failed error) {
	writer := conditionWriter{api: r.Client, owner: fieldOwner, now: r.Now(), schema: r.StatusSchema}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		err := writer.write(ctx, current[name], all[name])
		switch {
		case isDeferred(err):
			retry = conditionRetryInterval
		case err != nil:
			failed = errors.Join(failed, r.reportWriteError(scaled, name, err))
		}
	}
	return retry, failed
}

// reportWriteError emits an Event for a permanent error of the API server, and wraps the error.
func (r *ScaledObjectReconciler) reportWriteError(scaled *apis.ScaledObject, name string, err error) error {
	warnRejected(r.Events, scaled, fmt.Sprintf("HTTPScaledObject %q", name), err)
	return fmt.Errorf("write HTTPScaledObject %s/%s: %w", scaled.Namespace, name, err)
}

// describe returns the text of a rejected write, with the fix if the installed schema lacks a field. The API server has no
// reason of its own for such a field: its texts are those of server-side apply (sigs.k8s.io/structured-merge-diff) and of
// strict validation (k8s.io/apimachinery, runtime), which contains the whole object first.
func describe(err error) string {
	text := err.Error()
	_, unknown, isStrict := strings.Cut(text, "strict decoding error: ")
	if isStrict {
		text = unknown
	}
	if isStrict || strings.Contains(text, "field not declared in schema") {
		text += "; the installed CustomResourceDefinition lacks the field: install that of this project, kubectl apply " +
			"--server-side --force-conflicts -f config/crd"
	}
	return text
}

// rollout reads the Rollout that a ScaledObject targets. It returns nil if the target is another kind, if the
// Rollout does not exist, or if Argo Rollouts is not installed.
func (r *ScaledObjectReconciler) rollout(
	ctx context.Context, scaled *apis.ScaledObject,
) (*apis.Rollout, error) {
	if !scaled.TargetsRollout() {
		return nil, nil //nolint:nilnil // no Rollout is an answer
	}
	rollout := new(apis.Rollout)
	key := types.NamespacedName{Namespace: scaled.Namespace, Name: scaled.Spec.ScaleTargetRef.Name}
	switch err := r.Client.Get(ctx, key, rollout); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil //nolint:nilnil // no Rollout is an answer
	case err != nil:
		return nil, fmt.Errorf("read Rollout %s: %w", key, err)
	}
	return rollout, nil
}

// existing reads the HTTPScaledObjects of a ScaledObject, and others with the names of wants.
func (r *ScaledObjectReconciler) existing(
	ctx context.Context, scaled *apis.ScaledObject, wants []desired.Want,
) ([]*httpv1alpha1.HTTPScaledObject, error) {
	objects, err := r.owned(ctx, client.ObjectKeyFromObject(scaled))
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{"": true}
	for _, object := range objects {
		seen[object.Name] = true
	}
	for _, want := range wants {
		if seen[want.Name] {
			continue
		}
		seen[want.Name] = true
		object := new(httpv1alpha1.HTTPScaledObject)
		key := types.NamespacedName{Namespace: scaled.Namespace, Name: want.Name}
		switch err := r.Client.Get(ctx, key, object); {
		case err == nil:
			objects = append(objects, object)
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("read HTTPScaledObject %s: %w", key, err)
		}
	}
	return objects, nil
}

// owned reads the HTTPScaledObjects of the ScaledObject with that name.
func (r *ScaledObjectReconciler) owned(
	ctx context.Context, scaled types.NamespacedName,
) ([]*httpv1alpha1.HTTPScaledObject, error) {
	var list httpv1alpha1.HTTPScaledObjectList
	byOwner := client.MatchingFields{indexOwner: scaled.Name}
	if err := r.Client.List(ctx, &list, client.InNamespace(scaled.Namespace), byOwner); err != nil {
		return nil, fmt.Errorf("list the HTTPScaledObjects of %s: %w", scaled, err)
	}
	var objects []*httpv1alpha1.HTTPScaledObject
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	return objects, nil
}

// warn emits a Warning Event on a ScaledObject.
func (r *ScaledObjectReconciler) warn(scaled *apis.ScaledObject, reason, message string) {
	r.Events.Event(scaled, corev1.EventTypeWarning, reason, truncate.Text(message, maxEvent))
}

// Indexes of the cache.
const (
	indexOwner  = "owner"  // HTTPScaledObjects by the name of their ScaledObject
	indexWanted = "wanted" // ScaledObjects by the names of their HTTPScaledObjects
	indexTarget = "target" // ScaledObjects that scale a Rollout, by its name
)

const (
	// workers is the number of concurrent reconciliations of each controller.
	workers = 4
	// reconcileTimeout bounds one reconciliation.
	reconcileTimeout = 30 * time.Second
	// pollInterval is how often the agent checks whether a kind has been installed.
	pollInterval = 10 * time.Second
)

// SetupWithManager adds the controller to mgr. It reconciles a ScaledObject when the ScaledObject, its Rollout or
// one of its HTTPScaledObjects changes. Rollouts are watched as soon as Argo Rollouts is installed.
func (r *ScaledObjectReconciler) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	if err := r.index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	running, err := ctrl.NewControllerManagedBy(mgr).
		Named("scaledobject").
		For(&apis.ScaledObject{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&httpv1alpha1.HTTPScaledObject{}, handler.EnqueueRequestsFromMapFunc(r.requestsForHTTPScaledObject),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: nonStatusChanged})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   reconcileTimeout,
			UsePriorityQueue:        new(true), // new changes precede the initial list of a new leader
		}).
		Build(r)
	if err != nil {
		return fmt.Errorf("set up the ScaledObject controller: %w", err)
	}
	return whenInstalled(mgr, apis.RolloutKind(), func() error { return r.watchRollouts(mgr, running) })
}

// index declares the indexes of the cache.
func (r *ScaledObjectReconciler) index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []struct {
		object client.Object
		name   string
		values client.IndexerFunc
	}{
		{&httpv1alpha1.HTTPScaledObject{}, indexOwner, ownerOf},
		{&apis.ScaledObject{}, indexWanted, r.wantedNames},
		{&apis.ScaledObject{}, indexTarget, targetRollout},
	} {
		if err := indexer.IndexField(ctx, index.object, index.name, index.values); err != nil {
			return fmt.Errorf("index %s: %w", index.name, err)
		}
	}
	return nil
}

// ownerOf returns the name of the ScaledObject that an HTTPScaledObject belongs to.
func ownerOf(object client.Object) []string {
	controller := metav1.GetControllerOf(object)
	scaled, ok := object.(*httpv1alpha1.HTTPScaledObject)
	if controller == nil || !ok || !desired.IsOwnedBy(scaled, controller.Name) {
		return nil
	}
	return []string{controller.Name}
}

// wantedNames returns the names of the HTTPScaledObjects of a ScaledObject.
func (r *ScaledObjectReconciler) wantedNames(object client.Object) []string {
	scaled, ok := object.(*apis.ScaledObject)
	if !ok {
		return nil
	}
	return desired.ObjectNames(scaled, r.ScalerAddress)
}

// targetRollout returns the name of the Rollout that a ScaledObject scales.
func targetRollout(object client.Object) []string {
	scaled, ok := object.(*apis.ScaledObject)
	if !ok || !scaled.TargetsRollout() {
		return nil
	}
	return []string{scaled.Spec.ScaleTargetRef.Name}
}

// requestsForHTTPScaledObject maps an HTTPScaledObject to its ScaledObject, and to those that want its name.
func (r *ScaledObjectReconciler) requestsForHTTPScaledObject(
	ctx context.Context, object client.Object,
) []reconcile.Request {
	requests := r.requestsByIndex(ctx, object.GetNamespace(), indexWanted, object.GetName())
	for _, name := range ownerOf(object) {
		key := types.NamespacedName{Namespace: object.GetNamespace(), Name: name}
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// requestsByIndex returns the ScaledObjects of a namespace with a value in an index.
func (r *ScaledObjectReconciler) requestsByIndex(
	ctx context.Context, namespace, index, value string,
) []reconcile.Request {
	var list apis.ScaledObjectList
	byIndex := client.MatchingFields{index: value}
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace), byIndex); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list ScaledObjects failed", "namespace", namespace, index, value)
	}
	var requests []reconcile.Request
	for _, scaled := range list.Items {
		key := client.ObjectKeyFromObject(&scaled)
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// watchRollouts makes the controller watch Rollouts.
func (r *ScaledObjectReconciler) watchRollouts(mgr manager.Manager, running controller.Controller) error {
	scaledObjects := func(ctx context.Context, rollout *apis.Rollout) []reconcile.Request {
		return r.requestsByIndex(ctx, rollout.Namespace, indexTarget, rollout.Name)
	}
	serviceChanged := func(change event.TypedUpdateEvent[*apis.Rollout]) bool {
		return change.ObjectOld.StableService() != change.ObjectNew.StableService()
	}
	return running.Watch(source.Kind(mgr.GetCache(), &apis.Rollout{},
		handler.TypedEnqueueRequestsFromMapFunc(scaledObjects),
		predicate.TypedFuncs[*apis.Rollout]{UpdateFunc: serviceChanged}))
}
