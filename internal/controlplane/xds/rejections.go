package xds

import "sync"

// rejectionsLimit is how many versions may be known as refused. More than that are the fault of a
// proxy, such as one that is too old for them, not of the versions: then none counts as refused, so
// that all other proxies get them as ever.
const rejectionsLimit = 64

// rejections are the versions that some proxy has refused, as long as they are published. A proxy
// that is sent one of them gets it alone, so that it doesn't take others with it: above all not in
// the first response of a stream, which makes Envoy ready. It is safe for concurrent use.
type rejections struct {
	mu       sync.Mutex
	versions map[change]version
}

// note adds a version.
func (r *rejections) note(k kind, name string, refused version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.versions == nil {
		r.versions = map[change]version{}
	}
	r.versions[change{k, name}] = refused
}

// has tells whether a proxy has refused the resource in this version.
func (r *rejections) has(k kind, res *resource) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	refused, has := r.versions[change{k, res.name}]
	return has && refused == res.version && len(r.versions) <= rejectionsLimit
}

// keep forgets what is not in the snapshot.
func (r *rejections) keep(w *snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, refused := range r.versions {
		if w.version(key.kind, key.name) != refused {
			delete(r.versions, key)
		}
	}
}
