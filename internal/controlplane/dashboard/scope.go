package dashboard

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
)

const (
	// reviewTimeout limits the time of all reviews for one answer or one update of a stream.
	reviewTimeout = 10 * time.Second
	// maxReviews limits the concurrent reviews for one answer.
	maxReviews = 8
)

// grant is what a caller may read. An error means that it is unknown for now.
type grant interface {
	// Name returns the name of the user, "" for local callers.
	Name() string
	// MayRead reports whether the caller may list a resource in a namespace, in all namespaces for "".
	MayRead(ctx context.Context, namespace, resource string) (bool, error)
	// MayReadWorkloads reports whether the caller may read the workloads and Events of a namespace.
	MayReadWorkloads(ctx context.Context, namespace string) (bool, error)
}

// everything is the grant of local callers.
type everything struct{}

func (everything) Name() string                                           { return "" }
func (everything) MayRead(context.Context, string, string) (bool, error)  { return true, nil }
func (everything) MayReadWorkloads(context.Context, string) (bool, error) { return true, nil }

// collection is one resource in one namespace.
type collection struct{ namespace, resource string }

// scope are the objects that a caller sees in one answer or one stream.
type scope struct {
	granted grant
	// namespace is the only namespace, "" for all.
	namespace string
	// mayRead has the collections that were reviewed. Those with namespace "" are for all namespaces.
	mayRead map[collection]bool
}

// newScope returns the scope of a caller with one namespace, or with all namespaces for "".
func newScope(granted grant, namespace string) *scope {
	return &scope{granted: granted, namespace: namespace, mayRead: map[collection]bool{}}
}

// review reviews the permissions for collections that were not reviewed yet. It stops at the first error.
func (s *scope) review(ctx context.Context, collections []collection) error {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	wide, narrow := map[collection]struct{}{}, map[collection]struct{}{}
	if s.namespace == "" {
		for _, one := range collections {
			wide[collection{"", one.resource}] = struct{}{}
		}
	}
	if err := s.ask(ctx, wide); err != nil {
		return err
	}
	for _, one := range collections {
		if (s.namespace == "" || one.namespace == s.namespace) && !s.mayRead[collection{"", one.resource}] {
			narrow[one] = struct{}{}
		}
	}
	return s.ask(ctx, narrow)
}

// ask reviews the permissions for collections that were not reviewed yet.
func (s *scope) ask(ctx context.Context, collections map[collection]struct{}) error {
	var results []func()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxReviews)
	for asked := range collections {
		if _, isKnown := s.mayRead[asked]; isKnown {
			continue
		}
		isAllowed := new(bool)
		results = append(results, func() { s.mayRead[asked] = *isAllowed })
		group.Go(func() (err error) {
			*isAllowed, err = s.granted.MayRead(ctx, asked.namespace, asked.resource)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("review permissions: %w", err)
	}
	for _, keep := range results {
		keep()
	}
	return nil
}

// sees reports whether the caller sees the objects of a collection, after its review.
func (s *scope) sees(one collection) bool {
	if s.namespace != "" && one.namespace != s.namespace {
		return false
	}
	return s.mayRead[collection{"", one.resource}] || s.mayRead[one]
}

// admit returns an error if the caller may not list any objects of the scope's only namespace: neither
// HTTPScaledObjects nor InterceptorRoutes.
func (s *scope) admit(ctx context.Context) error {
	if s.namespace == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	for _, resource := range []string{httpv1alpha1.Resource, httpv1beta1.Resource} {
		if isAllowed, err := s.granted.MayRead(ctx, s.namespace, resource); isAllowed || err != nil {
			return err
		}
	}
	return errForbidden
}
