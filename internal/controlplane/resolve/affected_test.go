package resolve_test

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// expectAffected expects an object among the affected ones.
func expectAffected(t *testing.T, outcome resolve.Outcome, key model.Key, change string) {
	t.Helper()
	if _, isAffected := outcome.Affected[key]; !isAffected {
		t.Errorf("%s has %s, but is not affected", key, change)
	}
}

// expectUsersAffected expects the objects with Routes to a changed Service, even if only its EndpointSlices changed,
// and even if no Route changed.
func expectUsersAffected(t *testing.T, change resolve.Change, outcome resolve.Outcome, routes []model.Route) {
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
				expectAffected(t, outcome, route.Owner, "Service "+port.Service.Name)
			}
		}
	}
}
