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
	if got, err := ParseAddons([]string{"keda-api", "traefik", "keda"}); err != nil ||
		!slices.Equal(got, []Addon{Traefik, KEDA}) {
		t.Errorf("KEDA and its API: %v, %v", got, err)
	}
	if _, err := ParseAddons([]string{"linkerd"}); !errors.Is(err, ErrUnknownAddon) {
		t.Errorf("an unknown add-on: error %v", err)
	}
	if _, err := ParseAddons([]string{"keda", "keda-v2.20.2"}); !errors.Is(err, ErrTwoKEDAs) {
		t.Errorf("two versions of KEDA: error %v", err)
	}
}

func TestAddonPartsExist(t *testing.T) {
	var components []string
	for _, addon := range Addons() {
		components = append(components, addon.Components()...)
	}
	for _, name := range components {
		if !slices.ContainsFunc(build.OnDemand("..", "debian-12"), func(p build.Component) bool { return p.Name == name }) {
			t.Errorf("there is no part %s", name)
		}
	}
}

func TestAddonImagesAndBundles(t *testing.T) {
	programs := map[product.Program]string{
		product.Sample: "/bin/rollouts-demo", product.GatewayPlugin: "/bin/gatewayapi-plugin", product.Scaler: "/bin/scaler",
		product.Agent: "/bin/agent",
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
		{"both share the CRDs and the plugin", []Addon{EnvoyGateway, Traefik}, programs, 3 + guides, 4},
		{"Istio has an image for its proxies", []Addon{Istio}, programs, 2 + guides, 3},
		{"Contour for Gateways", []Addon{ContourGateway}, programs, 2 + guides, 3},
		{"Contour for Ingresses and for Gateways", []Addon{ContourGateway, Contour}, programs, 2 + guides, 4},
		{"older CRDs instead of the usual ones", []Addon{Istio, OldGatewayAPI}, programs, 2 + guides, 3},
		{"KEDA brings the scaler and the agent, and nothing of the Gateway API", []Addon{KEDA}, programs, 3 + 2, 2},
		{"KEDA in a bare cluster", []Addon{KEDA}, nil, 3, 1},
		{"the API of KEDA, with the scaler and the agent", []Addon{KEDAAPI}, programs, 2, 2},
		{"another KEDA", []Addon{"keda-v2.20.2"}, programs, 3 + 2, 2},
		{"an older controller is an image and nothing else", []Addon{OldRollouts}, programs, 1, 0},
		{"the HTTP add-on is three images", []Addon{HTTPAddOn}, programs, 3, 0},
		{"busybox is one", []Addon{Busybox}, programs, 1, 0},
		{"KEDA and a gateway", []Addon{Traefik, KEDA}, programs, 1 + 3 + 2 + guides, 5},
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
				product.Scaler: slices.ContainsFunc(tt.addons, Addon.scaling),
				product.Agent:  slices.ContainsFunc(tt.addons, Addon.scaling),
			} {
				if slices.Contains(Programs(tt.addons), program) != wanted {
					t.Errorf("%s is built: %v", program, !wanted)
				}
			}
		})
	}
}

func TestOlderCRDsReplaceUsualOnes(t *testing.T) {
	components := map[string]string{"gateway-api": "/parts/usual", "gateway-api-v1.2.1": "/parts/older"}
	for want, addons := range map[string][]Addon{
		"/parts/usual/share/experimental": {Istio}, "/parts/older/share": {Istio, OldGatewayAPI},
	} {
		args := AddonBundles(addons, components, install.Sources{}, true)[0].Apply[0].Args
		if !slices.Contains(args, want) {
			t.Errorf("%v: the CRDs are %v, want %s", addons, args, want)
		}
	}
}

// Its images have the tag of KEDA's manifests and the tag of their own version.
func TestOtherKEDAVersionReplacesDefault(t *testing.T) {
	components := map[string]string{"keda": "/parts/usual", "keda-v2.20.2": "/parts/other"}
	operator := AddonImages([]Addon{"keda-v2.20.2"}, components, nil)[0]
	if diff := cmp.Diff([]string{"kedacore/keda:main", "kedacore/keda:2.20.2"}, operator.Names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if source := operator.Files[0].Source; source != "/parts/other/bin/operator" {
		t.Errorf("the operator is %s", source)
	}
	manifests := AddonBundles([]Addon{"keda-v2.20.2"}, components, install.Sources{}, true)[0].Apply[0].Args
	if !slices.Contains(manifests, "/parts/other/share/config/default") {
		t.Errorf("its manifests are applied by %q", manifests)
	}
}
