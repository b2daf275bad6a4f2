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

// errMayNotList says that the ServiceAccount may not list HTTPScaledObjects.
var errMayNotList = errors.New("HTTPScaledObjects may not be listed")

// objects are the names of the HTTPScaledObjects that a Rollout shares its requests by: the one that it names, first, and those of the other triggers of the same
// ScaledObject. isAlone says that these could not be looked for, because the ServiceAccount may not list.
//
// While the first one is missing, nobody knows its ScaledObject. The others are those of any ScaledObject with the Rollout's mark then: the agent makes it again
// within a second, and until then they are no leftovers.
//
// A watch tells all that without a request. Without one, a list of the namespace does, in a canary, and of an object that is a trigger's.
func (c *Client) objects(ctx context.Context, ask engine.Ask, named types.NamespacedName) (names []types.NamespacedName, isAlone bool, err error) {
	first, _, believed := c.cache.Get(named)
	others, stillBelieved := c.cache.Marked(commonMark(first, ask))
	if !believed || !stillBelieved {
		others, err = c.listed(ctx, ask, named)
	}
	names = []types.NamespacedName{named}
	for _, other := range others {
		if other.name != named && other.scaledObject != "" {
			names = append(names, other.name)
		}
	}
	slices.SortFunc(names[1:], func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
	if errors.Is(err, errMayNotList) {
		return names, true, nil
	}
	return names, false, err
}

// listed are the same as the API server tells it. It is asked about the named object once, until that is known.
func (c *Client) listed(ctx context.Context, ask engine.Ask, named types.NamespacedName) ([]*object, error) {
	first, _, _ := c.cache.Get(named)
	if ask.AtRest() {
		return nil, nil
	}
	if first == nil {
		err := kube.Retry(ctx, func(ctx context.Context) (err error) {
			first, err = c.get(ctx, named)
			return err
		})
		if apierrors.IsNotFound(err) {
			return nil, nil // the next one who asks for it says so
		}
		if err != nil {
			return nil, err
		}
	}
	if first.scaledObject == "" {
		return nil, nil
	}
	all, err := c.list(ctx, named.Namespace)
	if apierrors.IsForbidden(err) {
		return nil, errMayNotList
	}
	return slices.DeleteFunc(all, func(o *object) bool { return o.group() != first.group() }), err
}

// commonMark is the mark of the objects that belong to the one that a Rollout names, nil where that is missing.
func commonMark(first *object, ask engine.Ask) string {
	if first == nil {
		return ask.Name()
	}
	return first.group()
}
