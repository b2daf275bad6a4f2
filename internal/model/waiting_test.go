package model_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestWaitsForEndpoint lists which backends wait.
func TestWaitsForEndpoint(t *testing.T) {
	t.Parallel()
	type backend struct {
		weight  uint32
		isReady bool
	}
	for name, c := range map[string]struct {
		min       uint32
		isMissing bool
		backends  []backend
		want      []bool
	}{
		"ready":                               {backends: []backend{{100, true}}, want: []bool{false}},
		"at zero":                             {backends: []backend{{100, false}}, want: []bool{true}},
		"never at zero, but nothing is ready": {min: 1, backends: []backend{{100, false}}, want: []bool{false}},
		"its port is not there":               {isMissing: true, backends: []backend{{100, false}}, want: []bool{false}},
		"the stable side of a canary":         {backends: []backend{{80, false}, {20, true}}, want: []bool{true, false}},
		"a canary's weight goes to stable":    {backends: []backend{{80, true}, {20, false}}, want: []bool{false, false}},
		"both sides: all wait for stable":     {backends: []backend{{80, false}, {20, false}}, want: []bool{true, false}},
		"a canary that has everything":        {backends: []backend{{0, true}, {100, false}}, want: []bool{false, true}},
		"no requests are sent there, so none wait": {
			backends: []backend{{100, true}, {0, false}}, want: []bool{false, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			route := model.Route{MinReplicas: c.min}
			services := map[model.ServicePort]model.Endpoints{}
			for i, each := range c.backends {
				added := model.Backend{
					Service: model.Key{Namespace: "apps", Name: string(rune('a' + i))}, Port: 80,
					Weight: each.weight,
				}
				route.Backends = append(route.Backends, added)
				endpoints := model.Endpoints{IsMissing: c.isMissing}
				if each.isReady {
					endpoints.Ready = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80")}
				}
				services[added.ServicePort()] = endpoints
			}
			if got := model.WaitsForEndpoint(route, services); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
