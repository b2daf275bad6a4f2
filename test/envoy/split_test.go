package envoy_test

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/traffic"
)

// rate is the maximum rate, in requests per second, while a weight changes.
const rate = 1000

// TestSplit measures the canary's share of the requests and changes its weight under load: no request fails, and no
// connection is closed.
func TestSplit(t *testing.T) {
	t.Parallel()
	stable, canary := startBackend(t, "stable"), startBackend(t, "canary")
	publish := func(stableWeight, canaryWeight uint32) translate.Resources {
		object := kit.WithSplit(kit.NewScaledObject(namespace, "shop", "stable", 1, "shop.example.com"),
			split.Backend{Service: "stable", Weight: stableWeight}, split.Backend{Service: "canary", Weight: canaryWeight})
		return translated(t, newInputs(t, []*backend{stable, canary}, object), translate.DefaultOptions())
	}
	const scopesUpdated = "http.kedify-proxy.scoped_rds.kedify-proxy.update_success"
	p := start(t, publish(80, 20))
	load := traffic.Start(t, p.address, "shop.example.com", rate, "stable", "canary")
	load.CheckShare("canary", 0.2)

	listeners := p.stat(t, "listener_manager.lds.update_success")
	for _, weight := range []uint32{50, 80, 0, 100} {
		p.update(t, publish(100-weight, weight), scopesUpdated)
		load.CheckShare("canary", float64(weight)/100)
	}
	load.Stop()
	if after := p.stat(t, "listener_manager.lds.update_success"); after != listeners {
		t.Errorf("a weight step updated the listener: %d → %d", listeners, after)
	}
}
