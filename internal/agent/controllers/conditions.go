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

// placeAgain is how long a definition is taken to have no place for conditions after it had none.
const placeAgain = time.Minute

// place remembers whether the installed CustomResourceDefinition has a place for the agent's conditions:
// those of the KEDA HTTP add-on before v0.12 and of Kedify's chart have one for conditions of their own
// only, and refuse the whole write.
type place struct {
	mu      sync.Mutex
	missing time.Time // when it had none
}

// isMissing reports whether the CRD recently had no place for them.
func (p *place) isMissing(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.missing.IsZero() && now.Sub(p.missing) < placeAgain
}

// miss notes that there is none.
func (p *place) miss(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing = now
}

// putConditions writes the conditions of objects, unless the definition has no place for them.
func (r *ScaledObjectReconciler) putConditions(
	ctx context.Context, scaled *apis.ScaledObject, all map[string][]metav1.Condition,
	current map[string]*httpv1alpha1.HTTPScaledObject,
) (failed error) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		err := r.conditions.put(ctx, r.Client, fieldOwner, r.Now(), current[name], all[name])
		if err != nil {
			failed = errors.Join(failed, r.reportWriteError(scaled, name, err))
		}
	}
	return failed
}

// put makes the conditions of a field owner on an object what they should be, where there is a place for them.
// A condition whose status does not change keeps its time.
func (p *place) put(
	ctx context.Context, api client.Client, owner client.FieldOwner, now time.Time,
	object *httpv1alpha1.HTTPScaledObject, conditions []metav1.Condition,
) error {
	if p.isMissing(now) {
		return nil
	}
	body := fieldsOf(object)
	body.Status = &fieldsStatus{Conditions: []metav1.Condition{}} // null would be refused
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
		p.miss(now)
		return nil
	}
	return err
}
