package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
)

// Reconciler keeps the HTTPScaledObjects of ScaledObjects. It is a reconcile.Reconciler of
// ScaledObjects; Register has controller-runtime call it.
type Reconciler struct {
	// Client reads from the cache whose indexes Register declares, and writes.
	Client client.Client
	// Stored reads without a cache.
	Stored client.Reader
	// Events takes the Events on ScaledObjects.
	Events record.EventRecorder
	// Now is the clock for times in conditions.
	Now func() time.Time
	// ScalerAddress is where KEDA reaches our scaler, as host:port.
	ScalerAddress string

	conditions place
}

// retryAfter is how long a write that met a newer version waits for the cache, and a deletion for the
// Ingresses. The watch usually brings the next try before.
const retryAfter = time.Second

// Reconcile makes the HTTPScaledObjects of one ScaledObject what its triggers say.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
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
	if apierrors.IsConflict(err) || errors.Is(err, errWired) {
		return ctrl.Result{RequeueAfter: retryAfter}, nil
	}
	return result, err
}

// deleteAll deletes the HTTPScaledObjects of a ScaledObject that is gone, which the garbage
// collector does too, later.
func (r *Reconciler) deleteAll(ctx context.Context, name types.NamespacedName) error {
	owned, err := r.owned(ctx, name)
	if err != nil {
		return err
	}
	var failed error
	for _, object := range owned {
		failed = errors.Join(failed, r.remove(ctx, object))
	}
	return failed
}

// reconcile does what the plan says about a ScaledObject, all of it as far as that is possible.
func (r *Reconciler) reconcile(ctx context.Context, scaled *apis.ScaledObject) (ctrl.Result, error) {
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
	if desired.Keeps(scaled, r.ScalerAddress) {
		changes.Delete = nil
	}
	failed := r.carryOut(ctx, scaled, changes, existing)
	failed = errors.Join(failed, r.convert(ctx, scaled))
	failed = errors.Join(failed, r.report(ctx, scaled, changes.Problems))
	if r.conditions.isMissing(r.Now()) {
		return ctrl.Result{RequeueAfter: placeAgain}, failed
	}
	return ctrl.Result{}, failed
}

// carryOut writes and deletes HTTPScaledObjects, and tells the ScaledObject's owner what the API
// server refused.
func (r *Reconciler) carryOut(
	ctx context.Context, scaled *apis.ScaledObject,
	changes desired.Changes, existing []*httpv1alpha1.HTTPScaledObject,
) (failed error) {
	current := map[string]*httpv1alpha1.HTTPScaledObject{}
	for _, object := range existing {
		current[object.Name] = object
	}
	for _, want := range append(changes.Create, changes.Update...) {
		written, err := r.apply(ctx, current[want.Name], want)
		if err != nil {
			failed = errors.Join(failed, r.refused(scaled, want.Name, err))
			delete(changes.Conditions, want.Name) // they would say that it is what it is not
			continue
		}
		current[want.Name] = written
	}
	failed = errors.Join(failed, r.putConditions(ctx, scaled, changes.Conditions, current))
	if failed != nil {
		return failed // What is to go may be all that serves until the rest is there.
	}
	for _, object := range changes.Delete {
		failed = errors.Join(failed, r.remove(ctx, object))
	}
	return failed
}

// refused tells of an error of the API server that comes again unless somebody does something.
func (r *Reconciler) refused(scaled *apis.ScaledObject, name string, err error) error {
	passes := apierrors.IsConflict(err) || apierrors.IsServerTimeout(err) || apierrors.IsNotFound(err)
	if !passes && !errors.Is(err, context.DeadlineExceeded) {
		r.warn(scaled, httpv1alpha1.ReasonRefused, fmt.Sprintf("HTTPScaledObject %q: %v", name, err))
	}
	return fmt.Errorf("write HTTPScaledObject %s/%s: %w", scaled.Namespace, name, err)
}

// rollout reads the Rollout that a ScaledObject targets. There is none where it targets another
// kind, where the Rollout is not there, and where Argo Rollouts is not installed.
func (r *Reconciler) rollout(
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

// existing reads the HTTPScaledObjects of a ScaledObject, and others with a name that it wants.
func (r *Reconciler) existing(
	ctx context.Context, scaled *apis.ScaledObject, wants []desired.Want,
) ([]*httpv1alpha1.HTTPScaledObject, error) {
	found, err := r.owned(ctx, client.ObjectKeyFromObject(scaled))
	if err != nil {
		return nil, err
	}
	known := map[string]bool{"": true}
	for _, object := range found {
		known[object.Name] = true
	}
	for _, want := range wants {
		if known[want.Name] {
			continue
		}
		known[want.Name] = true
		object := new(httpv1alpha1.HTTPScaledObject)
		key := types.NamespacedName{Namespace: scaled.Namespace, Name: want.Name}
		switch err := r.Client.Get(ctx, key, object); {
		case err == nil:
			found = append(found, object)
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("read HTTPScaledObject %s: %w", key, err)
		}
	}
	return found, nil
}

// owned reads the HTTPScaledObjects of the ScaledObject of that name.
func (r *Reconciler) owned(
	ctx context.Context, scaled types.NamespacedName,
) ([]*httpv1alpha1.HTTPScaledObject, error) {
	var list httpv1alpha1.HTTPScaledObjectList
	only := client.MatchingFields{indexOwner: scaled.Name}
	if err := r.Client.List(ctx, &list, client.InNamespace(scaled.Namespace), only); err != nil {
		return nil, fmt.Errorf("list the HTTPScaledObjects of %s: %w", scaled, err)
	}
	var found []*httpv1alpha1.HTTPScaledObject
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return found, nil
}

// warn writes a Warning on a ScaledObject.
func (r *Reconciler) warn(scaled *apis.ScaledObject, reason, message string) {
	r.Events.Event(scaled, corev1.EventTypeWarning, reason, truncate.Text(message, maxEvent))
}
