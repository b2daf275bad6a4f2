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

// TestScenarios takes Kubernetes objects all the way to Envoy's resources. Each folder of testdata has an input.yaml, a previous.yaml when something was in
// force before, and what becomes of it: the model in ir.yaml, users' mistakes in problems.yaml and Envoy's resources in envoy.yaml.
func TestScenarios(t *testing.T) {
	t.Parallel()
	kit.Scenarios{Dir: "testdata", Update: *update}.Run(t, func(t *testing.T, scenario *kit.Scenario) {
		t.Helper()
		var inForce model.Config
		if before, found := scenario.OptionalInput(t, "previous.yaml"); found {
			config, problems := resolve.Build(world(scenario.DecodeObjects(t, before), model.Config{}))
			if len(problems) > 0 {
				t.Fatalf("previous.yaml was not good: %v", problems)
			}
			inForce = config
		}
		config, problems := resolve.Build(world(scenario.DecodeObjects(t, scenario.Input(t, "input.yaml")), inForce))
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
		scenario.Golden(t, "envoy.yaml", scenario.NewEnvoyConfig(t, resources).YAML(t))
	})
}

func world(objects kit.Objects, inForce model.Config) resolve.World {
	return resolve.World{
		ScaledObjects:  objects.ScaledObjects,
		Services:       kit.Services(objects.Services...),
		EndpointSlices: kit.EndpointSlices(objects.EndpointSlices...),
		Options:        resolve.Options{SharedFleet: "keda"},
		InForce:        inForce,
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
