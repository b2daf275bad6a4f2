package controllers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/crd"
)

// conditionRetryInterval is how long conditions are not written after the installed CRD rejected one.
const conditionRetryInterval = time.Minute

// conditionWriter writes the agent's conditions if the installed CRD accepts them. The CRDs of the KEDA HTTP
// add-on before v0.12 and of Kedify's chart only accept conditions of their own, and reject the whole write.
type conditionWriter struct {
	mu               sync.Mutex
	unsupportedSince time.Time // when the CRD last rejected a condition
}

// isUnsupported reports whether the CRD rejected a condition within conditionRetryInterval.
func (w *conditionWriter) isUnsupported(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.unsupportedSince.IsZero() && now.Sub(w.unsupportedSince) < conditionRetryInterval
}

// markUnsupported records that the CRD rejected a condition.
func (w *conditionWriter) markUnsupported(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unsupportedSince = now
}

// writeConditions writes the conditions of objects, unless the CRD does not accept them.
func (r *ScaledObjectReconciler) writeConditions(
	ctx context.Context, scaled *apis.ScaledObject, all map[string][]metav1.Condition,
	current map[string]*httpv1alpha1.HTTPScaledObject,
) (failed error) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		err := r.conditions.write(ctx, r.Client, fieldOwner, r.Now(), current[name], all[name])
		if err != nil {
			failed = errors.Join(failed, r.reportWriteError(scaled, name, err))
		}
	}
	return failed
}

// write replaces the conditions of a field owner on an object, unless the CRD does not accept them. A condition
// whose status does not change keeps its time.
func (w *conditionWriter) write(
	ctx context.Context, api client.Client, owner client.FieldOwner, now time.Time,
	object *httpv1alpha1.HTTPScaledObject, conditions []metav1.Condition,
) error {
	if w.isUnsupported(now) {
		return nil
	}
	body := fieldsOf(object)
	body.Status = &fieldsStatus{Conditions: []metav1.Condition{}} // the API server rejects null
	for _, condition := range conditions {
		condition.LastTransitionTime = metav1.NewTime(now)
		before := meta.FindStatusCondition(object.Status.Conditions, condition.Type)
		if before != nil && before.Status == condition.Status {
			condition.LastTransitionTime = before.LastTransitionTime
		}
		body.Status.Conditions = append(body.Status.Conditions, condition)
	}
	patch, err := applyPatch(body)
	if err != nil {
		return err
	}
	written := &httpv1alpha1.HTTPScaledObject{ObjectMeta: named(object)}
	if err = api.Status().Patch(ctx, written, patch, owner, client.ForceOwnership); crd.MayBeUndeclared(err) {
		w.markUnsupported(now)
		return nil
	}
	return err
}
