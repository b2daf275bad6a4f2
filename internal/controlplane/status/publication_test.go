package status_test

import (
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
)

func TestPublicationDigest(t *testing.T) {
	base := func() model.Config { return splitAt(map[string]uint32{"shop": 20, "other": 0}) }
	stable := model.ServicePort{Service: model.Key{Namespace: "apps", Name: "shop-stable"}, Port: 80}
	canary := model.ServicePort{Service: model.Key{Namespace: "apps", Name: "shop-canary"}, Port: 80}
	tests := []struct {
		name            string
		change          func(*model.Config)
		same, asDesired bool // whether the digest stays, and whether the weights are the desired ones
	}{
		{"nothing", func(*model.Config) {}, true, true},
		{"another object", func(c *model.Config) { c.Routes[0].Backends[0].Weight = 7 }, true, true},
		{"a neighbour in the same scope", func(c *model.Config) { c.Routes[0].Match.Host = "shop.test" }, true, true},
		{"a weight", func(c *model.Config) { c.Routes[1].Backends[0].Weight = 7 }, false, true},
		{"a host", func(c *model.Config) { c.Routes[1].Match.Host = "*.test" }, false, true},
		{
			"a header", func(c *model.Config) { c.Routes[1].Match.Headers = []model.Header{{Name: "a", Any: true}} },
			false, true,
		},
		{"a timeout", func(c *model.Config) { c.Routes[1].Timeouts.ResponseHeader = model.TimeoutOf(1) }, false, true},
		{"a fleet", func(c *model.Config) { c.Routes[1].Fleet = "keda" }, false, true},
		{"an endpoint", func(c *model.Config) { c.Services[stable] = ready("10.1.0.2") }, false, true},
		{"a draining endpoint", func(c *model.Config) {
			c.Services[stable] = model.Endpoints{Ready: ready("10.1.0.1").Ready, Draining: ready("10.1.0.2").Ready}
		}, false, true},
		{"a protocol", func(c *model.Config) { c.Routes[1].Backends[0].Protocol = model.HTTP2 }, false, true},
		{
			"a header route", func(c *model.Config) { c.Routes[1].Managed = []managedroute.Route{{Name: "qa"}} }, false,
			true,
		},
		{"a header route to a canary without endpoints", func(c *model.Config) {
			c.Routes[1].Backends[0].Weight, c.Routes[1].Backends[1].Weight = 100, 0
			c.Routes[1].Managed, c.Services[canary] = []managedroute.Route{{Name: "qa"}}, model.Endpoints{}
		}, false, false},
		{"a canary without endpoints", func(c *model.Config) { c.Services[canary] = model.Endpoints{} }, false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before, config := publications(base())[shopKey()], base()
			test.change(&config)
			after := publications(config)[shopKey()]
			if (after.Digest == before.Digest) != test.same || after.AsDesired != test.asDesired ||
				len(after.Digest) != peers.DigestBytes {
				t.Errorf("before %+v\nafter  %+v", before, after)
			}
		})
	}
}
