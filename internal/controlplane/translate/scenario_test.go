package translate_test

import (
	"flag"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

var update = flag.Bool("update", false, "write the golden files of testdata and remove orphans")

// TestScenarios translates Kubernetes objects to Envoy resources. Each folder of testdata has an input.yaml, a
// previous.yaml if a Config is already published, and the expected results: the model in ir.yaml, validation errors
// in problems.yaml and Envoy's resources in envoy.yaml.
func TestScenarios(t *testing.T) {
	t.Parallel()
	kit.Scenarios{Dir: "testdata", Update: *update}.Run(t, func(t *testing.T, scenario *kit.Scenario) {
		t.Helper()
		var published model.Config
		if before, exists := scenario.OptionalInput(t, "previous.yaml"); exists {
			config, problems := resolve.Build(inputs(kit.DecodeObjects(t, before), model.Config{}))
			if len(problems) > 0 {
				t.Fatalf("previous.yaml is invalid: %v", problems)
			}
			published = config
		}
		config, problems := resolve.Build(inputs(kit.DecodeObjects(t, scenario.Input(t, "input.yaml")), published))
		if fleets := model.ByFleet(config); len(fleets) > 1 {
			t.Fatalf("a scenario is about one fleet, and this one has %d", len(fleets))
		}
		resources, err := translate.Envoy(config)
		if err != nil {
			t.Fatal(err)
		}
		checkValid(t, resources)
		scenario.Golden(t, "ir.yaml", toYAML(t, config))
		scenario.Golden(t, "problems.yaml", toYAML(t, append([]model.Problem{}, problems...)))
		scenario.Golden(t, "envoy.yaml", kit.NewEnvoyConfig(t, resources).YAML(t))
	})
}

func inputs(objects kit.Objects, published model.Config) resolve.Inputs {
	return resolve.Inputs{
		ScaledObjects:  objects.ScaledObjects,
		Services:       kit.ResolveServices(objects.Services...),
		EndpointSlices: kit.ResolveEndpointSlices(objects.EndpointSlices...),
		Options:        resolve.Options{SharedFleet: "keda"},
		Published:      published,
	}
}

func toYAML(t *testing.T, value any) []byte {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
