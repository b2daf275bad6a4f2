package translate_test

import (
	"flag"
	"maps"
	"slices"
	"testing"
	"time"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds/session"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

var update = flag.Bool("update", false, "write the golden files of testdata and remove orphans")

// TestScenarios translates Kubernetes objects to Envoy resources. Each folder of testdata has an input.yaml, a
// previous.yaml if a Config is already published, and the expected results: the model in ir.yaml, validation errors
// in problems.yaml and Envoy's resources in envoy.yaml. If the input has proxies, endpoints-<proxy>.yaml is what each
// of them receives from the discovery server.
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
		objects := kit.DecodeObjects(t, scenario.Input(t, "input.yaml"))
		config, problems := resolve.Build(inputs(objects, published))
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
		for _, proxy := range (resolve.Inputs{EndpointSlices: kit.ResolveEndpointSlices(objects.EndpointSlices...)}).Proxies()["apps"] {
			received := endpointsOf(t, resources, session.Topology{Zone: proxy.Zone, Node: proxy.Node})
			checkValid(t, received)
			scenario.Golden(t, "endpoints-"+proxy.Name+".yaml", kit.NewEnvoyConfig(t, received).YAML(t))
		}
	})
}

// endpointsOf returns the endpoints that a proxy receives from the discovery server.
func endpointsOf(t *testing.T, resources translate.Resources, topology session.Topology) translate.Resources {
	t.Helper()
	snapshot, err := new(session.Snapshot).Replace(resources)
	if err != nil {
		t.Fatal(err)
	}
	now, stream := time.Time{}, session.New(session.ModeDelta, 0, "", new(session.Rejections).Of(""))
	stream.SetTopology(now, topology)
	stream.Publish(now, snapshot)
	received := translate.Resources{resourcev3.EndpointType: {}}
	for _, response := range stream.Receive(now, session.Request{
		TypeURL:   resourcev3.EndpointType,
		Subscribe: slices.Collect(maps.Keys(resources[resourcev3.EndpointType])),
	}).Responses {
		for _, resource := range response.Resources {
			message, err := resource.Any(nil).UnmarshalNew()
			if err != nil {
				t.Fatal(err)
			}
			received[resourcev3.EndpointType][resource.Name()] = message
		}
	}
	return received
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
