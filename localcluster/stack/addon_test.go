package stack

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/localcluster/build"
	"github.com/kedify/argo-rollouts-plugin/localcluster/install"
	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
)

func TestParseAddons(t *testing.T) {
	got, err := ParseAddons([]string{"envoy-gateway", "traefik", "keda", "envoy-gateway"})
	if diff := cmp.Diff([]Addon{EnvoyGateway, Traefik, KEDA}, got); diff != "" || err != nil {
		t.Errorf("%v; add-ons (-want +got):\n%s", err, diff)
	}
	if _, err := ParseAddons([]string{"istio"}); !errors.Is(err, ErrUnknownAddon) {
		t.Errorf("an unknown add-on: error %v", err)
	}
}

func TestAddonsAreMadeOfPartsThatExist(t *testing.T) {
	var parts []string
	for _, addon := range Addons() {
		parts = append(parts, addon.Parts()...)
	}
	for _, name := range parts {
		if !slices.ContainsFunc(build.OnDemand("..", "debian-12"), func(p build.Part) bool { return p.Name == name }) {
			t.Errorf("there is no part %s", name)
		}
	}
}

func TestAddonsBringOnlyWhatWasAskedFor(t *testing.T) {
	programs := map[product.Program]string{
		product.Sample: "/bin/rollouts-demo", product.GatewayPlugin: "/bin/gatewayapi-plugin", product.Scaler: "/bin/scaler", product.Agent: "/bin/agent",
	}
	const guides = 3 + 3 // versions of the two guides' apps
	tests := []struct {
		name            string
		addons          []Addon
		programs        map[product.Program]string
		images, bundles int
	}{
		{"none", nil, programs, 0, 0},
		{"none of them bare", nil, nil, 0, 0},
		{"one", []Addon{EnvoyGateway}, programs, 2 + guides, 3},
		{"one in a bare cluster", []Addon{EnvoyGateway}, nil, 2, 2},
		{"both share the definitions and the plugin", []Addon{EnvoyGateway, Traefik}, programs, 3 + guides, 4},
		{"KEDA brings the scaler and the agent, and nothing of the Gateway API", []Addon{KEDA}, programs, 3 + 2, 2},
		{"KEDA in a bare cluster", []Addon{KEDA}, nil, 3, 1},
		{"an older controller is an image and nothing else", []Addon{OldRollouts}, programs, 1, 0},
		{"KEDA beside a gateway", []Addon{Traefik, KEDA}, programs, 1 + 3 + 2 + guides, 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			specs := AddonImages(tt.addons, map[string]string{}, tt.programs)
			bundles := AddonBundles(tt.addons, map[string]string{}, install.Sources{}, tt.programs == nil)
			if len(specs) != tt.images || len(bundles) != tt.bundles {
				t.Errorf("%d images and %d bundles, want %d and %d: %+v", len(specs), len(bundles), tt.images, tt.bundles, specs)
			}
			gateways := slices.ContainsFunc(tt.addons, Addon.gateway)
			for program, wanted := range map[product.Program]bool{
				product.Plugin: true, product.GatewayPlugin: gateways,
				product.Scaler: slices.Contains(tt.addons, KEDA), product.Agent: slices.Contains(tt.addons, KEDA),
			} {
				if slices.Contains(Programs(tt.addons), program) != wanted {
					t.Errorf("%s is built: %v", program, !wanted)
				}
			}
		})
	}
}
