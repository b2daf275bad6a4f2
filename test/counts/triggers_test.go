package counts_test

import (
	"fmt"
	"testing"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"

	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// triggerObject is the HTTPScaledObject of one trigger of a ScaledObject.
const triggerObject = `{apiVersion: http.keda.sh/v1alpha1, kind: HTTPScaledObject, metadata: {name: %[1]s-%[2]s, ownerReferences: [{apiVersion: keda.sh/v1alpha1,
  kind: ScaledObject, name: %[1]s, uid: uid-of-%[1]s, controller: true}]}, spec: {hosts: [%[2]s.%[1]s.test], scaleTargetRef: {service: web-stable, port: 80}}}`

// triggersRollout returns Rollout n with two HTTPScaledObjects, of which it names one.
func triggersRollout(n int) *v1alpha1.Rollout {
	return rollout(n, httpso.Type, fmt.Sprintf(`{"httpScaledObjectName":"pair-%d-shop"}`, n))
}

// TestRequestsForTriggers expects one write per object, and no request for objects that the watch has delivered.
func TestRequestsForTriggers(t *testing.T) {
	ctx := t.Context()
	for n := range rollouts {
		for _, host := range []string{"shop", "api"} {
			shared.apply(t, fmt.Sprintf(triggerObject, fmt.Sprint("pair-", n), host))
		}
	}
	c := calls{start(t, "rollouts-plugin-kedify", apiserver.RolloutsToken, getLease), triggersRollout}
	c.awaitWatch(t, c.setWeight(0))
	at20 := c.atWeight(20)
	c.run(t,
		step{name: "SetWeight, another weight", call: c.setWeight(20), want: requests{patchObject: 2}},
		step{name: "SetWeight, the same weight", call: at20.setWeight(20)},
		step{name: "UpdateHash, in a canary", call: c.updateHash("new", "old")},
		step{name: "RemoveManagedRoutes", call: c.removeManagedRoutes},
		step{name: "SetWeight, full", call: at20.setWeight(100), want: requests{patchObject: 2}},
		step{name: "SetWeight, none", call: c.atWeight(100).setWeight(0), want: requests{patchObject: 2}},
		step{name: "an idle resync", call: c.reconcile(ctx)},
	)
}
