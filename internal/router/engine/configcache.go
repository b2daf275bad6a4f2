package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// maxConfigs is the number of configurations that a ConfigCache keeps: more than there are Rollouts in a large cluster.
const maxConfigs = 20_000

// ConfigField is the field of a Rollout that configures the router of that type, as messages name it.
func ConfigField(routerType string) string {
	return `spec.strategy.canary.trafficRouting.plugins["` + routerType + `"]`
}

// ConfigOf returns the configuration of the router of that type in rollout, unparsed; nil if there is none.
func ConfigOf(rollout *v1alpha1.Rollout, routerType string) json.RawMessage {
	if canary := rollout.Spec.Strategy.Canary; canary != nil && canary.TrafficRouting != nil {
		return canary.TrafficRouting.Plugins[routerType]
	}
	return nil
}

// ParseConfig returns the configuration of the router of that type in rollout by key. An error ends with fix, an
// example of what to write.
func ParseConfig(rollout *v1alpha1.Rollout, routerType, fix string) (map[string]json.RawMessage, error) {
	raw := ConfigOf(rollout, routerType)
	if len(raw) == 0 {
		return nil, fmt.Errorf("%s is missing: %s", ConfigField(routerType), fix)
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(raw, &config); err != nil || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil, fmt.Errorf("%s is %.80s, not an object: %s", ConfigField(routerType), raw, fix)
	}
	return config, nil
}

// ConfigCache caches parsed configurations. The controller sends a Rollout with the same configuration four times in
// each reconcile, and parsing took a third of the time of a call that finds nothing to do. Errors are not cached. All
// methods are safe for concurrent use.
type ConfigCache[V any] struct {
	routerType string
	parse      func(*v1alpha1.Rollout) (V, error)

	mu     sync.Mutex
	parsed map[configKey]V
}

// configKey is the complete input of ConfigCache.parse.
type configKey struct{ namespace, config string }

// NewConfigCache returns a ConfigCache of the results of parse, which uses nothing but a Rollout's namespace and its
// configuration of the router of that type.
func NewConfigCache[V any](routerType string, parse func(*v1alpha1.Rollout) (V, error)) *ConfigCache[V] {
	return &ConfigCache[V]{routerType: routerType, parse: parse, parsed: map[configKey]V{}}
}

// Get returns the parsed configuration of rollout. The value is shared between callers and must not be modified.
func (c *ConfigCache[V]) Get(rollout *v1alpha1.Rollout) (V, error) {
	key := configKey{rollout.Namespace, string(ConfigOf(rollout, c.routerType))}
	c.mu.Lock()
	cached, ok := c.parsed[key]
	c.mu.Unlock()
	if ok {
		return cached, nil
	}
	value, err := c.parse(rollout)
	if err != nil {
		return value, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.parsed) >= maxConfigs {
		clear(c.parsed)
	}
	c.parsed[key] = value
	return value, nil
}
