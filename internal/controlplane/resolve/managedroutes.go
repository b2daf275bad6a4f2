package resolve

import (
	"fmt"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// MaxManagedRoutes is the maximum number of matches of an HTTPScaledObject's header and mirror routes, times its
// hosts, times its path prefixes. Each product is a route in every proxy.
const MaxManagedRoutes = 4096

// managedRoutesOf returns the header and mirror routes that the object requests, and the issues. backends and matches
// are the numbers of the object's backends and Matches.
func managedRoutesOf(object *httpv1alpha1.HTTPScaledObject, backends, matches int) ([]managedroute.Route, []issue) {
	text, present := object.Annotations[httpv1alpha1.AnnotationManagedRoutes]
	if !present {
		return nil, nil
	}
	const field = "annotation " + httpv1alpha1.AnnotationManagedRoutes
	invalid := func(format string, args ...any) ([]managedroute.Route, []issue) {
		return nil, []issue{{httpv1alpha1.ReasonInvalidManagedRoutes, field + ": " + fmt.Sprintf(format, args...)}}
	}
	routes, err := managedroute.Parse(text)
	switch count := managedroute.CountMatches(routes); {
	case err != nil:
		return invalid("%v: correct or remove the annotation, or let the Rollout write it", err)
	case len(routes) > 0 && backends < 2:
		return invalid("no canary backend: add one as the second entry of annotation %s, or remove this annotation",
			httpv1alpha1.AnnotationWeightedBackends)
	case count*matches > MaxManagedRoutes:
		return invalid("%d matches for each of %d combinations of host and path prefix exceed the limit of %d routes: use "+
			"fewer matches, or split the object", count, matches, MaxManagedRoutes)
	}
	return routes, nil
}
