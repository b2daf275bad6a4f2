package translate_test

import (
	"flag"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/testkit"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
)

var update = flag.Bool("update", false, "write the golden files of testdata and remove orphans")

// TestScenarios takes Kubernetes objects all the way to Envoy's resources. Each folder of testdata has an input.yaml, a previous.yaml when something was in
// force before, and what becomes of it: the model in ir.yaml, users' mistakes in problems.yaml and Envoy's resources in envoy.yaml.
func TestScenarios(t *testing.T) {
	t.Parallel()
	testkit.Scenarios{Dir: "testdata", Update: *update}.Run(t, func(t *testing.T, scenario *testkit.Scenario) {
		t.Helper()
		var inForce ir.Config
		if before, found := scenario.OptionalInput(t, "previous.yaml"); found {
			config, problems := resolve.Build(world(testkit.DecodeObjects(t, before), ir.Config{}))
			if len(problems) > 0 {
				t.Fatalf("previous.yaml was not good: %v", problems)
			}
			inForce = config
		}
		config, problems := resolve.Build(world(testkit.DecodeObjects(t, scenario.Input(t, "input.yaml")), inForce))
		if fleets := ir.ByFleet(config); len(fleets) > 1 {
			t.Fatalf("a scenario is about one fleet, and this one has %d", len(fleets))
		}
		resources, err := translate.Envoy(config)
		if err != nil {
			t.Fatal(err)
		}
		checkValid(t, resources)
		scenario.Golden(t, "ir.yaml", toYAML(t, config))
		scenario.Golden(t, "problems.yaml", toYAML(t, append([]ir.Problem{}, problems...)))
		scenario.Golden(t, "envoy.yaml", testkit.NewEnvoyConfig(t, resources).YAML(t))
	})
}

func world(objects testkit.Objects, inForce ir.Config) resolve.World {
	return resolve.World{
		ScaledObjects:  objects.ScaledObjects,
		Services:       testkit.Services(objects.Services...),
		EndpointSlices: testkit.EndpointSlices(objects.EndpointSlices...),
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
