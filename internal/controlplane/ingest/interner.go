package ingest

import (
	"sync"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
)

const (
	// maxPooled is the maximum number of values in a pool. maxTextBytes is the length of the longest text that is
	// interned.
	maxPooled, maxTextBytes = 4096, 512
)

// pool interns values that many objects have in common. A full pool is emptied, which costs only memory. It is safe
// for concurrent use.
type pool[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]V
}

// intern returns the first value that was stored under the key.
func (p *pool[K, V]) intern(key K, value V) V {
	p.mu.Lock()
	defer p.mu.Unlock()
	if existing, ok := p.values[key]; ok {
		return existing
	}
	if p.values == nil || len(p.values) >= maxPooled {
		p.values = map[K]V{}
	}
	p.values[key] = value
	return value
}

// internSingle interns a list with exactly one element, which is the most common length.
func internSingle[T comparable](values *pool[T, []T], list *[]T) {
	if len(*list) == 1 {
		*list = values.intern((*list)[0], *list)
	}
}

// interner has a pool for each kind of repeated value in the reduced objects: texts such as namespaces and condition
// messages, path prefixes, and ports of Services and Pods.
type interner struct {
	texts      pool[string, string]
	prefixes   pool[string, []string]
	ports      pool[resolve.Port, []resolve.Port]
	slicePorts pool[resolve.SlicePort, []resolve.SlicePort]
}

// intern replaces each text by its interned copy.
func (s *interner) intern(all ...*string) {
	for _, text := range all {
		if *text != "" && len(*text) <= maxTextBytes {
			*text = s.texts.intern(*text, *text)
		}
	}
}
