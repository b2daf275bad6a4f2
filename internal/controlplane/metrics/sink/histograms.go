package sink

import (
	"cmp"
	"slices"
	"sync"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// DefaultMaxHistograms is a limit of histograms of response times. With it, a page of 10,000 objects in a canary, all
// with requests, is below 10 MB. A histogram has 22 series, and a backend has two others.
const DefaultMaxHistograms = 1000

// histograms selects the objects whose histograms of response times are on a page. It is safe for concurrent use.
type histograms struct {
	limit int // of backends

	mu       sync.Mutex
	selected map[model.Key]struct{} // those of the last page
}

// active is an object with requests.
type active struct {
	key      model.Key
	backends int
}

// choose returns the objects that have histograms, and how many backends of others have none. An object has those of
// all its backends or none. Objects in a canary, which have several backends, precede the others. Among equals, an object
// that had histograms on the last page keeps them: a rate needs several pages.
func (h *histograms) choose(objects []active) (chosen map[model.Key]struct{}, omitted int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortFunc(objects, func(a, b active) int {
		return cmp.Or(cmp.Compare(h.rank(a), h.rank(b)), a.key.Compare(b.key))
	})
	chosen = make(map[model.Key]struct{}, min(len(objects), h.limit))
	free := h.limit
	for _, object := range objects {
		if object.backends > free {
			omitted += object.backends
			continue
		}
		chosen[object.key] = struct{}{}
		free -= object.backends
	}
	h.selected = chosen
	return chosen, omitted
}

// rank returns the place of an object: lower ones are chosen first. The caller holds the lock.
func (h *histograms) rank(object active) (rank int) {
	if object.backends == 1 {
		rank += 2
	}
	if _, isSelected := h.selected[object.key]; !isSelected {
		rank++
	}
	return rank
}
