package ingest

import (
	"fmt"
	"maps"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/interceptorroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// watchInterceptorRoutes creates the stores of InterceptorRoutes and their sources. They have the bound of memory of
// HTTPScaledObjects, separately.
func (l *Loop) watchInterceptorRoutes(sources Sources, pools *interner) {
	maxBytes := l.resolve.MaxObjectBytes()
	if sources.InterceptorRoute == nil {
		maxBytes = 0
	}
	for _, listWatch := range sources.InterceptorRoutes {
		routes := newStore(pools.reduceScaledObject, isSameScaledObjectRouting, l.wake)
		routes.parse = pools.parseInterceptorRoute
		routes.versionOf = (*httpv1alpha1.HTTPScaledObject).GetResourceVersion
		routes.budget = newBudget(maxBytes)
		l.interceptorRoutes = append(l.interceptorRoutes,
			watchInto(l, gatePublication, httpv1beta1.Resource, listWatch, &httpv1beta1.InterceptorRoute{}, routes))
		added := l.sources[len(l.sources)-1]
		added.isKindOptional, added.notify = true, l.wake
	}
	if maxBytes > 0 {
		l.watchStubs(httpv1beta1.Resource, l.interceptorRoutes, sources.InterceptorRoute)
	}
}

// parseInterceptorRoute is the parse function of a store of InterceptorRoutes. A watch has InterceptorRoutes, and a
// list of the interceptor has converted ones: each is converted and trimmed before the next one is decoded.
func (s *interner) parseInterceptorRoute(object any) (model.Key, *httpv1alpha1.HTTPScaledObject, error) {
	switch typed := object.(type) {
	case *httpv1beta1.InterceptorRoute:
		converted := s.reduceScaledObject(interceptorroute.Convert(typed))
		return keyOf(converted), converted, nil
	case *httpv1alpha1.HTTPScaledObject:
		return keyOf(typed), s.reduceScaledObject(typed), nil
	default: // The reflector checks this too, so the store was created for another kind.
		return model.Key{}, nil, fmt.Errorf("store of InterceptorRoutes received %T", object)
	}
}

// mergeObjects returns the objects to serve: all HTTPScaledObjects, and the InterceptorRoutes with other names.
func (l *Loop) mergeObjects() map[model.Key]*httpv1alpha1.HTTPScaledObject {
	all := merge(l.interceptorRoutes)
	maps.Copy(all, merge(l.scaledObjects))
	return all
}

// takeObjects takes the changes of the objects to serve, as takeAll does. If an HTTPScaledObject is deleted and an
// InterceptorRoute has its name, the change is one to the InterceptorRoute, so that both are one update for the proxies.
// A change of an InterceptorRoute that is not served affects no routing.
func (l *Loop) takeObjects() (
	changed map[model.Key]objectChange[*httpv1alpha1.HTTPScaledObject],
	routing map[model.Key]*httpv1alpha1.HTTPScaledObject,
) {
	changed, routing = takeAll(l.scaledObjects)
	routes, _ := takeAll(l.interceptorRoutes)
	for key, change := range changed {
		if change.exists {
			continue
		}
		if route, exists := find(l.interceptorRoutes, key); exists {
			changed[key] = objectChange[*httpv1alpha1.HTTPScaledObject]{object: route, exists: true, affectsRouting: true}
			routing[key] = route
		}
	}
	for key, change := range routes {
		if _, isTaken := changed[key]; isTaken {
			continue
		}
		tracked := l.objects[key]
		if tracked != nil && tracked.object != nil && !interceptorroute.IsConverted(tracked.object) {
			changed[key] = objectChange[*httpv1alpha1.HTTPScaledObject]{
				object: tracked.object, exists: true, routingVersion: tracked.writtenAt,
			}
			continue
		}
		changed[key] = change
		if change.affectsRouting {
			routing[key] = change.object
		}
	}
	return changed, routing
}

// supersededBy returns the InterceptorRoute with the name of an HTTPScaledObject, nil if there is none.
func (l *Loop) supersededBy(object *httpv1alpha1.HTTPScaledObject) *httpv1alpha1.HTTPScaledObject {
	if interceptorroute.IsConverted(object) {
		return nil
	}
	route, _ := find(l.interceptorRoutes, keyOf(object))
	return route
}

// find returns an object of several stores and whether it exists.
func find[T any](stores []*store[T], key model.Key) (object T, exists bool) {
	for _, s := range stores {
		if object, exists = s.get(key); exists {
			return object, true
		}
	}
	return object, false
}
