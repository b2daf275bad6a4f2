package resolve

import (
	"fmt"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

// MaxManaged is the highest accepted number of matches of an HTTPScaledObject's header and mirror routes, times its hosts, times its path prefixes: each is a
// route in every proxy.
const MaxManaged = 4096

// managedOf returns the header and mirror routes that object asks for, and what is wrong with them; backends and matches are the numbers of those that it has.
func managedOf(object *httpv1alpha1.HTTPScaledObject, backends, matches int) ([]managedroute.Route, []mistake) {
	text, present := object.Annotations[httpv1alpha1.AnnotationManagedRoutes]
	if !present {
		return nil, nil
	}
	const field = "annotation " + httpv1alpha1.AnnotationManagedRoutes
	wrong := func(format string, args ...any) ([]managedroute.Route, []mistake) {
		return nil, []mistake{{httpv1alpha1.ReasonInvalidManagedRoutes, field + ": " + fmt.Sprintf(format, args...)}}
	}
	routes, err := managedroute.Parse(text)
	switch count := managedroute.CountMatches(routes); {
	case err != nil:
		return wrong("%v; correct or remove it, or let the Rollout write it", err)
	case len(routes) > 0 && backends < 2:
		return wrong("there is no canary to send to; name one as the second entry of the annotation %s, or remove this one", httpv1alpha1.AnnotationWeightedBackends)
	case count*matches > MaxManaged:
		return wrong("%d matches for each of %d hosts and path prefixes are more than %d routes; match less, or split the object", count, matches, MaxManaged)
	}
	return routes, nil
}
