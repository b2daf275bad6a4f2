package resolve_test

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// expectConcerned looks for an object among those of which anything may be new.
func expectConcerned(t *testing.T, outcome resolve.Outcome, key model.Key, what string) {
	t.Helper()
	if _, is := outcome.Concerned[key]; !is {
		t.Errorf("%s has %s, and is not concerned", key, what)
	}
}

// expectUsersConcerned looks for the objects whose Routes lead to a Service that changed, be it in its EndpointSlices, whether that changes a Route or not.
func expectUsersConcerned(t *testing.T, change resolve.Change, outcome resolve.Outcome, routes []model.Route) {
	t.Helper()
	changed := map[model.Key]bool{}
	for key := range change.Services {
		changed[key] = true
	}
	for _, slice := range change.EndpointSlices {
		if slice != nil {
			changed[slice.Service] = true
		}
	}
	for _, route := range routes {
		for _, port := range route.Destinations() {
			if changed[port.Service] {
				expectConcerned(t, outcome, route.Owner, "Service "+port.Service.Name)
			}
		}
	}
}
