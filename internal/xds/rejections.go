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
	versions map[change]string
}

// note adds a version.
func (r *rejections) note(k kind, name, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.versions == nil {
		r.versions = map[change]string{}
	}
	r.versions[change{k, name}] = version
}

// has tells whether a proxy has refused the resource in this version.
func (r *rejections) has(k kind, res *resource) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	version, has := r.versions[change{k, res.name}]
	return has && version == res.version && len(r.versions) <= rejectionsLimit
}

// keep forgets what is not in the snapshot.
func (r *rejections) keep(w *snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, version := range r.versions {
		if w.version(key.kind, key.name) != version {
			delete(r.versions, key)
		}
	}
}
