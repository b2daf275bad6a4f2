package httpso

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
)

// errListForbidden means that the ServiceAccount may not list HTTPScaledObjects.
var errListForbidden = errors.New("listing HTTPScaledObjects is forbidden")

// objectsOf returns the names of the HTTPScaledObjects that split the Rollout's traffic: first the configured one, then
// those of the other triggers of the same ScaledObject, without unrouted ones. listForbidden is true if the latter are unknown, because the
// ServiceAccount may not list.
//
// If the configured object is missing, its ScaledObject is unknown. The others are then those of any ScaledObject that
// carry the Rollout's owner mark: the agent creates the missing object again within a second, and until then the others
// must not count as leftovers.
//
// With a watch this sends no request. Otherwise it lists the namespace, during a canary and only if the object belongs
// to a ScaledObject.
func (c *Client) objectsOf(
	ctx context.Context, request engine.Request, configured types.NamespacedName,
) (names []types.NamespacedName, listForbidden bool, err error) {
	first, _, firstCurrent := c.cache.Get(configured)
	others, othersCurrent := c.cache.ByIndexKey(siblingsKey(first, request))
	if !firstCurrent || !othersCurrent {
		others, err = c.listObjectsOf(ctx, request, configured)
	}
	names = []types.NamespacedName{configured}
	for _, other := range others {
		if other.name != configured && other.scaledObject != "" && !other.isUnrouted {
			names = append(names, other.name)
		}
	}
	slices.SortFunc(names[1:], func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
	if errors.Is(err, errListForbidden) {
		return names, true, nil
	}
	return names, false, err
}

// listObjectsOf lists the objects of the configured object's ScaledObject from the API server. It reads the configured
// object only if the cache does not have it.
func (c *Client) listObjectsOf(
	ctx context.Context, request engine.Request, configured types.NamespacedName,
) ([]*object, error) {
	first, _, _ := c.cache.Get(configured)
	if request.IsAtRest() {
		return nil, nil
	}
	if first == nil {
		err := kube.Retry(ctx, func(ctx context.Context) (err error) {
			first, err = c.getLive(ctx, configured)
			return err
		})
		if apierrors.IsNotFound(err) {
			return nil, nil // the next read of the object returns the error
		}
		if err != nil {
			return nil, err
		}
	}
	if first.scaledObject == "" {
		return nil, nil
	}
	all, err := c.list(ctx, configured.Namespace)
	if apierrors.IsForbidden(err) {
		return nil, errListForbidden
	}
	return slices.DeleteFunc(all, func(o *object) bool { return o.scaledObjectKey() != first.scaledObjectKey() }), err
}

// siblingsKey returns the index key that the Rollout's objects have in common: the ScaledObject of the configured one,
// or the owner mark if that is nil.
func siblingsKey(configured *object, request engine.Request) string {
	if configured == nil {
		return request.Name()
	}
	return configured.scaledObjectKey()
}
