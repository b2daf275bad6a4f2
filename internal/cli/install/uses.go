package install

import (
	"fmt"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// Owned is what an installation has that others may use.
type Owned struct {
	// Routers are those that it has registered.
	Routers []string
	// Scales says that the scaler or the agent is its, Defines that the definition of HTTPScaledObjects is.
	Scales, Defines bool
}

// Uses are the objects that stand still, or go, when what is owned goes, each with what becomes of it.
func Uses(cluster *facts.Facts, owned Owned) []string {
	var all []string
	for i := range cluster.Rollouts {
		rollout := &cluster.Rollouts[i]
		for _, router := range rollout.Plugins() {
			if slices.Contains(owned.Routers, router) {
				all = append(all, fmt.Sprintf("Rollout %s uses router %s: its canaries would stop", rollout.Key(), router))
			}
		}
	}
	if owned.Scales {
		for _, object := range cluster.ScaledByRequests() {
			all = append(all, fmt.Sprintf("ScaledObject %s/%s uses the scaler: it would keep its current replicas", object.Namespace, object.Name))
		}
	}
	if owned.Defines {
		for _, object := range cluster.HTTPScaledObjects {
			all = append(all, fmt.Sprintf("HTTPScaledObject %s/%s would be deleted together with its CustomResourceDefinition", object.Namespace, object.Name))
		}
	}
	return all
}
