package resolve

import (
	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// applyFrozen freezes objects, and releases others.
func (u *update) applyFrozen(changed map[model.Key]bool) {
	for key, isFrozen := range changed {
		u.object(key).isFrozen = isFrozen
		u.dirty[key] = struct{}{}
	}
}

// frozenObject returns the result for a frozen object: its published Routes, whatever its current version requests. It
// owns the hosts of these, and none before its first publication.
func frozenObject(object *httpv1alpha1.HTTPScaledObject, published []model.Route) resolvedObject {
	allowed, _ := delegationOf(object)
	return resolvedObject{routes: published, claimant: claimant{
		object: ownerOf(object).key, created: object.CreationTimestamp.UTC(), allowed: allowed,
		isConverted: object.Spec.Converted != nil,
	}}
}
