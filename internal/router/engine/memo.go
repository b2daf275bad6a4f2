package engine

import (
	"encoding/json"
	"sync"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
)

// memoSize is how many configurations a Memo remembers: more than there are Rollouts in a large cluster.
const memoSize = 20_000

// ConfigOf is what rollout configures of the router of that type, as the Rollout has it; nil where that is nothing.
func ConfigOf(rollout *v1alpha1.Rollout, router string) json.RawMessage {
	if canary := rollout.Spec.Strategy.Canary; canary != nil && canary.TrafficRouting != nil {
		return canary.TrafficRouting.Plugins[router]
	}
	return nil
}

// Memo remembers what configurations were read as. The controller sends a Rollout with the same one four times in each reconcile, and reading it was a third of what a call
// took that finds nothing to do. What is wrong is read again each time. Calls may come concurrently.
type Memo[V any] struct {
	router string
	parse  func(*v1alpha1.Rollout) (V, error)

	mu   sync.Mutex
	read map[memoKey]V
}

// memoKey is all that a configuration is read from.
type memoKey struct{ namespace, config string }

// NewMemo returns a Memo of what parse makes of a Rollout's namespace and its configuration of the router of that type.
func NewMemo[V any](router string, parse func(*v1alpha1.Rollout) (V, error)) *Memo[V] {
	return &Memo[V]{router: router, parse: parse, read: map[memoKey]V{}}
}

// Read returns what rollout configures. The value is shared by all who read the same, and is not to be changed.
func (m *Memo[V]) Read(rollout *v1alpha1.Rollout) (V, error) {
	key := memoKey{rollout.Namespace, string(ConfigOf(rollout, m.router))}
	m.mu.Lock()
	known, is := m.read[key]
	m.mu.Unlock()
	if is {
		return known, nil
	}
	value, err := m.parse(rollout)
	if err != nil {
		return value, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.read) >= memoSize {
		clear(m.read)
	}
	m.read[key] = value
	return value, nil
}
