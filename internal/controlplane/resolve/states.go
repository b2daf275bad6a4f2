package resolve

import (
	"slices"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// objectState is what is known of an HTTPScaledObject that is there, or of which something is in force.
type objectState struct {
	asked

	object  *httpv1alpha1.HTTPScaledObject // nil when it is gone
	inForce []model.Route
}

// asked is what an object asks for as if it were the only one.
type asked struct {
	routes   []model.Route // in the order of their Matches
	mistakes []model.Problem
	reads    []model.Key   // the Services that this depends on
	onTop    []model.Route // what was in force; kept of an object with mistakes, for which it matters
}

// serviceState is what is known of a Service that is there, has EndpointSlices, or matters to an object.
type serviceState struct {
	service *Service // nil when it is not there
	slices  []*EndpointSlice
	readers []model.Key    // the objects that it matters to
	ports   []portState // those that Routes in force lead to
}

// portState is what is known of a port of a Service.
type portState struct {
	number uint32
	users  []model.Key // the objects whose Routes in force lead there
	found  model.Endpoints
}

// port returns what is known of a port that is in use, nil for another one.
func (s *serviceState) port(number uint32) *portState {
	for i := range s.ports {
		if s.ports[i].number == number {
			return &s.ports[i]
		}
	}
	return nil
}

// addUsers adds the objects that the Service matters to.
func (s *serviceState) addUsers(users map[model.Key]struct{}) {
	for _, key := range s.readers {
		users[key] = struct{}{}
	}
	for _, port := range s.ports {
		for _, key := range port.users {
			users[key] = struct{}{}
		}
	}
}

// without is a list of objects without one of them.
func without(objects []model.Key, object model.Key) []model.Key {
	return slices.DeleteFunc(objects, func(each model.Key) bool { return each == object })
}
