package resolve

import (
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// objectState is the state of an HTTPScaledObject that exists or has published Routes.
type objectState struct {
	desiredState

	object    *httpv1alpha1.HTTPScaledObject // nil for a deleted object
	published []model.Route
	// configMaps are the ConfigMaps that the object names.
	configMaps []model.Key
	// isFrozen is as in Change.Frozen.
	isFrozen bool
}

// desiredState is what an object requests, regardless of other objects.
type desiredState struct {
	resolvedObject

	services []model.Key   // the Services on which the result depends
	overlay  []model.Route // the published Routes on which the result depends, nil if it depends on none
}

// dependsOnPublished reports whether the result depends on the published Routes.
func (d desiredState) dependsOnPublished() bool { return len(d.problems) > 0 || d.isPending }

// serviceState is the state of a Service that exists, has EndpointSlices, or is used by an object.
type serviceState struct {
	service    *Service // nil if it does not exist
	slices     []*EndpointSlice
	dependents []model.Key // the objects that depend on it
	ports      []portState // the destinations of published Routes
}

// portState is the state of a port of a Service.
type portState struct {
	number    uint32
	users     []model.Key // the objects with published Routes to the port
	endpoints model.Endpoints
}

// port returns the state of a port in use, nil for any other port.
func (s *serviceState) port(number uint32) *portState {
	for i := range s.ports {
		if s.ports[i].number == number {
			return &s.ports[i]
		}
	}
	return nil
}

// addDependents adds the objects that depend on the Service.
func (s *serviceState) addDependents(objects map[model.Key]struct{}) {
	for _, key := range s.dependents {
		objects[key] = struct{}{}
	}
	for _, port := range s.ports {
		for _, key := range port.users {
			objects[key] = struct{}{}
		}
	}
}

// without returns a list of objects without one of them.
func without(objects []model.Key, object model.Key) []model.Key {
	return slices.DeleteFunc(objects, func(other model.Key) bool { return other == object })
}
