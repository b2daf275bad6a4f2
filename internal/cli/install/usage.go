package install

import (
	"fmt"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// Owned describes the parts of an installation that other objects may use.
type Owned struct {
	// Routers are the registered routers.
	Routers []string
	// HasScaler is true if the scaler or the agent belongs to the installation, HasCRD if the CustomResourceDefinition
	// of HTTPScaledObjects does.
	HasScaler, HasCRD bool
}

// Uses describes the objects that stop working, or are deleted, without the owned parts.
func Uses(cluster *facts.Facts, owned Owned) []string {
	var all []string
	for i := range cluster.Rollouts {
		rollout := &cluster.Rollouts[i]
		for _, router := range rollout.RouterNames() {
			if slices.Contains(owned.Routers, router) {
				all = append(all, fmt.Sprintf("Rollout %s uses router %s: its canaries would stop", rollout.Key(),
					router))
			}
		}
	}
	if owned.HasScaler {
		for _, object := range cluster.ScaledByRequests() {
			all = append(all, fmt.Sprintf("ScaledObject %s/%s uses the scaler: it would keep its current replicas",
				object.Namespace, object.Name))
		}
	}
	if owned.HasCRD {
		for _, object := range cluster.HTTPScaledObjects {
			all = append(all,
				fmt.Sprintf("HTTPScaledObject %s/%s would be deleted together with its CustomResourceDefinition",
					object.Namespace, object.Name))
		}
	}
	return all
}
