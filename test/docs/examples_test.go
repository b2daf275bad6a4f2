package docs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestFromZeroDiffersOnlyInReplicas: the ScaledObject that scales to zero is otherwise that of the tutorial.
func TestFromZeroDiffersOnlyInReplicas(t *testing.T) {
	objects := map[string]map[string]any{}
	for _, name := range []string{"scaledobject.yaml", "from-zero.yaml"} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text(t, "examples/argo-rollouts-canary/"+name)), &object); err != nil {
			t.Fatal(err)
		}
		objects[name] = object
	}
	spec, _ := objects["from-zero.yaml"]["spec"].(map[string]any)
	if spec["minReplicaCount"] != float64(0) || spec["cooldownPeriod"] != float64(30) {
		t.Errorf("minReplicaCount %v, cooldownPeriod %v, want 0 and 30", spec["minReplicaCount"], spec["cooldownPeriod"])
	}
	spec["minReplicaCount"] = float64(2)
	delete(spec, "cooldownPeriod")
	if diff := cmp.Diff(objects["scaledobject.yaml"], objects["from-zero.yaml"]); diff != "" {
		t.Errorf("(-scaledobject.yaml +from-zero.yaml):\n%s", diff)
	}
}
