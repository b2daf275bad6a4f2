package session

import "sync"

// rejectionsLimit is how many versions may count as rejected. A larger number points to a problem of the proxy, for
// example an old version of Envoy. Then no version counts as rejected, and all other proxies receive them as usual.
const rejectionsLimit = 64

// Rejections are the published versions that some proxy of a fleet rejected. Every other proxy receives such a version
// alone, so that its NACK affects no other resource. This matters most in the first response of a stream, which makes
// Envoy ready. The zero value is empty. Rejections are safe for concurrent use.
type Rejections struct {
	mu       sync.Mutex
	versions map[change]version
}

// add adds a version.
func (r *Rejections) add(k Kind, name string, rejected version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.versions == nil {
		r.versions = map[change]version{}
	}
	r.versions[change{k, name}] = rejected
}

// has reports whether a proxy rejected this version of the resource.
func (r *Rejections) has(k Kind, res *Resource) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	rejected, has := r.versions[change{k, res.name}]
	return has && rejected == res.version && len(r.versions) <= rejectionsLimit
}

// Len returns the number of versions.
func (r *Rejections) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.versions)
}

// Retain removes all versions that are not in the snapshot.
func (r *Rejections) Retain(published *Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, rejected := range r.versions {
		if published.version(key.kind, key.name) != rejected {
			delete(r.versions, key)
		}
	}
}
