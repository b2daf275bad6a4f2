package httpso

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/router/reasons"
	"github.com/kedify/argo-rollouts-plugin/internal/router/rollouts"
)

// errUnrouted means that no request is routed to an object, so a canary has nothing to split.
var errUnrouted = errors.New("no request is routed to the object")

// errOwned means that another Rollout owns the weights of an object.
var errOwned = reasons.New(reasons.OwnedByOtherRollout, "another Rollout already sets its weights")

// maxOwnerLength is the maximum length of an owner mark in bytes.
const maxOwnerLength = 400

// owner is a Rollout in the annotation weighted-backends-owner: "namespace/name uid".
type owner struct {
	rollout types.NamespacedName
	uid     types.UID
}

// ownerOf returns rollout as an owner.
func ownerOf(rollout *v1alpha1.Rollout) owner {
	return owner{rollout: types.NamespacedName{Namespace: rollout.Namespace, Name: rollout.Name}, uid: rollout.UID}
}

// String returns the text of the annotation.
func (o owner) String() string { return strings.TrimSpace(o.rollout.String() + " " + string(o.uid)) }

// parseOwner parses the annotation of an object in namespace. A text that this router does not write names no owner: a
// Rollout owns only objects of its own namespace.
func parseOwner(text, namespace string) (owner, bool) {
	path, uid, _ := strings.Cut(text, " ")
	ownerNamespace, name, ok := strings.Cut(path, "/")
	if !ok || name == "" || ownerNamespace != namespace || strings.ContainsAny(name, "/") || len(text) > maxOwnerLength {
		return owner{}, false
	}
	return owner{rollout: types.NamespacedName{Namespace: ownerNamespace, Name: name}, uid: types.UID(uid)}, true
}

// otherOwner returns the other Rollout that owns the weights of live according to the owner mark. A Rollout with the
// same name is the same Rollout or its successor. A mark without weights is a leftover.
func (d desiredState) otherOwner(live *object) (other owner, ok bool) {
	other, ok = parseOwner(live.owner, live.name.Namespace)
	return other, ok && live.hasWeightedBackends && other.rollout != d.owner.rollout
}

// checkOwner returns errOwned if another Rollout owns the weights of live: it exists, has the UID of the owner mark,
// and still references the object. Otherwise the mark is a leftover of a deleted or reconfigured Rollout.
func (t *target) checkOwner(ctx context.Context, live *object) error {
	other, ok := t.desired.otherOwner(live)
	if !ok {
		return nil
	}
	isGone, err := rollouts.IsOwnerGone(ctx, t.client.api, rollouts.Owner{Rollout: other.rollout, UID: other.uid},
		func(rollout *v1alpha1.Rollout) bool { return t.isReferencedBy(ctx, rollout, live) })
	switch {
	case err != nil:
		return err
	case isGone:
		t.log.InfoContext(ctx, "overwriting the weights of a Rollout that no longer references the object", "rollout",
			t.desired.rollout,
			"object", t.String(), "former", other.rollout.String())
		return nil
	}
	return fmt.Errorf("%w: rollout %q: give rollout %q an %s of its own in %s.%s", errOwned, other.rollout,
		t.desired.rollout, t.desired.kind.name, configField, t.desired.kind.key)
}

// isReferencedBy reports whether rollout uses this router with live: it names live, or an object of the same
// ScaledObject. An object that cannot be read now counts as one of the same ScaledObject.
func (t *target) isReferencedBy(ctx context.Context, rollout *v1alpha1.Rollout, live *object) bool {
	chosen, err := settingsOf(rollout)
	switch {
	case err != nil || rollout.Namespace != live.name.Namespace || chosen.isRoute != (t.desired.kind.key == routeKey):
		return false
	case chosen.object == live.name.Name:
		return true
	case live.scaledObject == "":
		return false
	}
	other, _, err := t.client.get(ctx, types.NamespacedName{Namespace: rollout.Namespace, Name: chosen.object})
	if err != nil {
		return !apierrors.IsNotFound(err)
	}
	return other.scaledObject == live.scaledObject
}
