package httpso

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/router/reconcile"
)

// objects are the names of the HTTPScaledObjects that a Rollout shares its requests by: the one that it names, first, and those of the other triggers of the same
// ScaledObject. isAlone says that these could not be looked for, because the ServiceAccount may not list.
//
// While the first one is missing, nobody knows its ScaledObject. The others are those of any ScaledObject with the Rollout's mark then: the agent makes it again
// within a second, and until then they are no leftovers.
//
// A watch tells all that without a request. Without one, a list tells, while a canary runs, and where the first one is known to be no trigger's there is none.
func (c *Client) objects(ctx context.Context, ask reconcile.Ask, named types.NamespacedName) (names []types.NamespacedName, isAlone bool, err error) {
	first, _, believed := c.cache.Get(named)
	others, stillBelieved := c.cache.Marked(commonMark(first, ask))
	if !believed || !stillBelieved {
		if ask.AtRest() || first != nil && first.scaledObject == "" {
			return []types.NamespacedName{named}, false, nil
		}
		var all []*object
		all, err = c.list(ctx, named.Namespace)
		others = together(all, ask, named)
	}
	names = []types.NamespacedName{named}
	for _, other := range others {
		if other.name != named && other.scaledObject != "" {
			names = append(names, other.name)
		}
	}
	slices.SortFunc(names[1:], func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
	switch {
	case apierrors.IsForbidden(err):
		return names, true, nil
	case apierrors.IsNotFound(err): // no such resource: so will the first one be
		return names, false, nil
	}
	return names, false, err
}

// together are, of all objects of a namespace, those that the Rollout of ask shares its requests by.
func together(all []*object, ask reconcile.Ask, named types.NamespacedName) []*object {
	var first *object
	if at := slices.IndexFunc(all, func(o *object) bool { return o.name == named }); at >= 0 {
		first = all[at]
	}
	mark := commonMark(first, ask)
	return slices.DeleteFunc(all, func(o *object) bool { return !slices.Contains(o.Marks(), mark) })
}

// commonMark is the mark of the objects that belong to the one that a Rollout names, nil where that is missing.
func commonMark(first *object, ask reconcile.Ask) string {
	if first == nil {
		return ask.Name()
	}
	return first.group()
}
