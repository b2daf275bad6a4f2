package proxies

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// ParseEnvoyConfig validates an addition to the bootstrap: a YAML mapping with fields of Envoy's Bootstrap. Envoy
// validates the fields when it starts.
func ParseEnvoyConfig(text string) (string, error) {
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		return "", fmt.Errorf("%w: %.200q is not a YAML mapping with fields of Envoy's bootstrap: %w", errSetting, text, err)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch name {
		case "node", "dynamic_resources", "admin":
			return "", fmt.Errorf("%w: %s: the interceptor and the probes need the value of config/kedify-proxy: remove it",
				errSetting, name)
		}
	}
	if len(fields) == 0 {
		return "", nil
	}
	return text, nil
}

// addEnvoyConfig makes the container start Envoy with an addition to its bootstrap. Envoy merges the two: it adds
// elements to lists, and replaces single values
// (https://www.envoyproxy.io/docs/envoy/latest/operations/cli#cmdoption-config-yaml).
func addEnvoyConfig(container map[string]any, text string) error {
	if text == "" {
		return nil
	}
	args, _, err := unstructured.NestedStringSlice(container, "args")
	if err != nil {
		return fmt.Errorf("%w: %w", errManifests, err)
	}
	return unstructured.SetNestedStringSlice(container, append(args, "--config-yaml", text), "args")
}
