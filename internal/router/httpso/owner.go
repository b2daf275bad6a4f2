package httpso

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/router/rollouts"
)

// errOwned says that another Rollout shares the requests of an HTTPScaledObject.
var errOwned = errors.New("another Rollout already shares its requests")

// owner is a Rollout as the annotation weighted-backends-owner names it: "namespace/name uid".
type owner struct {
	rollout types.NamespacedName
	uid     types.UID
}

// ownerOf is rollout as an owner.
func ownerOf(rollout *v1alpha1.Rollout) owner {
	return owner{rollout: types.NamespacedName{Namespace: rollout.Namespace, Name: rollout.Name}, uid: rollout.UID}
}

// String is the text of the annotation.
func (o owner) String() string { return strings.TrimSpace(o.rollout.String() + " " + string(o.uid)) }

// parseOwner reads the annotation's text. What nobody of ours could have written names no owner: a Rollout owns objects of its own namespace only.
func parseOwner(text, namespace string) (owner, bool) {
	path, uid, _ := strings.Cut(text, " ")
	ofNamespace, name, found := strings.Cut(path, "/")
	if !found || name == "" || ofNamespace != namespace || strings.ContainsAny(name, "/") || len(text) > 400 {
		return owner{}, false
	}
	return owner{rollout: types.NamespacedName{Namespace: ofNamespace, Name: name}, uid: types.UID(uid)}, true
}

// foreign returns the other Rollout that found's weights belong to, if its marks say so. A Rollout of the same name is the same or its successor. Marks
// without weights are a leftover.
func (i intent) foreign(found *object) (other owner, isForeign bool) {
	other, marked := parseOwner(found.owner, found.name.Namespace)
	return other, marked && found.present && other.rollout != i.owner.rollout
}

// checkOwner fails with errOwned when another Rollout really owns found: it exists, is the very one that the mark means, and still names the object. Otherwise its
// mark is a leftover, of a Rollout that was deleted or given another object, and the weights are free.
func (t *target) checkOwner(ctx context.Context, found *object) error {
	other, isForeign := t.want.foreign(found)
	if !isForeign {
		return nil
	}
	left, err := rollouts.Left(ctx, t.client.api, rollouts.Mark{Rollout: other.rollout, UID: other.uid}, func(rollout *v1alpha1.Rollout) bool {
		return t.names(ctx, rollout, found)
	})
	switch {
	case err != nil:
		return err
	case left:
		t.log.InfoContext(ctx, "weights of a Rollout that has left the object are taken over", "rollout", t.want.rollout, "httpScaledObject", found.name.String(),
			"former", other.rollout.String())
		return nil
	}
	return fmt.Errorf("%w: rollout %q: give rollout %q an HTTPScaledObject of its own in %s.%s", errOwned, other.rollout, t.want.rollout, configField, objectKey)
}

// names says whether rollout is routed by this router through found: it names that, or an object of the same ScaledObject. One that cannot be read for now may
// be of it.
func (t *target) names(ctx context.Context, rollout *v1alpha1.Rollout, found *object) bool {
	chosen, err := settingsOf(rollout)
	switch {
	case err != nil || rollout.Namespace != found.name.Namespace:
		return false
	case chosen.object == found.name.Name:
		return true
	case found.scaledObject == "":
		return false
	}
	other, _, err := t.client.recent(ctx, types.NamespacedName{Namespace: rollout.Namespace, Name: chosen.object})
	if err != nil {
		return !apierrors.IsNotFound(err)
	}
	return other.scaledObject == found.scaledObject
}
