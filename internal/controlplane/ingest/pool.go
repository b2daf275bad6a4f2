package ingest

import (
	"sync"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
)

const (
	// maxShared is how many values a pool knows at a time, and maxText the length of the longest text, in bytes.
	maxShared, maxText = 4096, 512
)

// pool keeps each value that many objects have once. When there are too many it begins anew, which costs memory and nothing else. It is safe for
// concurrent use.
type pool[K comparable, V any] struct {
	mu    sync.Mutex
	known map[K]V
}

// share returns the one copy of a value that is known by a key.
func (p *pool[K, V]) share(key K, value V) V {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, is := p.known[key]; is {
		return known
	}
	if p.known == nil || len(p.known) >= maxShared {
		p.known = map[K]V{}
	}
	p.known[key] = value
	return value
}

// shareOne replaces a list by the one copy of it that is known, if it has one element, as most have.
func shareOne[T comparable](known *pool[T, []T], list *[]T) {
	if len(*list) == 1 {
		*list = known.share((*list)[0], *list)
	}
}

// shared are the pools of what objects are reduced to: names of namespaces and ports, what conditions say, the ports of Services and of their Pods.
type shared struct {
	texts      pool[string, string]
	prefixes   pool[string, []string]
	ports      pool[resolve.Port, []resolve.Port]
	slicePorts pool[resolve.SlicePort, []resolve.SlicePort]
}

// share replaces each text by the one copy of it that is known.
func (s *shared) share(all ...*string) {
	for _, text := range all {
		if *text != "" && len(*text) <= maxText {
			*text = s.texts.share(*text, *text)
		}
	}
}
