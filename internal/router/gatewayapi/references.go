package gatewayapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/router/engine"
)

// references returns the configured routes and those that the selectors match.
func (c *configuration) references(ctx context.Context, request engine.Request) ([]reference, error) {
	var references []reference
	var errs []error
	for _, ref := range c.settings.routes {
		if err := c.namespaces.check(request, ref.name.Namespace, ref.field); err != nil {
			errs = append(errs, err)
			continue
		}
		references = append(references, ref)
	}
	for _, s := range c.settings.selections {
		names, err := c.selectedNames(ctx, request, s)
		if err != nil {
			all := reference{kind: s.kind, name: types.NamespacedName{Namespace: s.namespace, Name: "*"}, field: s.field}
			errs = append(errs, explain(request.Name(), all, err))
			continue
		}
		for _, name := range names {
			if !slices.ContainsFunc(references, func(r reference) bool { return r.kind == s.kind && r.name == name }) {
				references = append(references, reference{kind: s.kind, name: name, field: s.field})
			}
		}
	}
	return references, engine.Join(errs...)
}

// selectedNames returns the names of the routes that a selector matches, sorted. No match is an error unless the
// request is idle.
func (r *routing) selectedNames(
	ctx context.Context, request engine.Request, s selection,
) (names []types.NamespacedName, err error) {
	if err := r.namespaces.check(request, s.namespace, s.field); err != nil {
		return nil, err
	}
	err = kube.Retry(ctx, func(ctx context.Context) (err error) {
		names, err = r.client.selectNames(ctx, s)
		return err
	})
	switch isMissing := apierrors.IsNotFound(err) || errors.Is(err, errNotServed); {
	case isMissing && request.IsIdle():
		return nil, nil
	case err != nil:
		return nil, err
	case len(names) == 0 && !request.IsIdle():
		return nil, fmt.Errorf("no %s in namespace %q has these labels (%s): correct the labels there, or the selector",
			s.kind, s.namespace, s.labels)
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int { return cmp.Compare(a.Name, b.Name) })
	return names, nil
}
