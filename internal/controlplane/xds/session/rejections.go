package session

import "sync"

const (
	// rejectionsLimit is the maximum number of versions that count as rejected, and proxyRejectionsLimit that of the
	// versions of one proxy: a proxy that rejects everything, such as an old version of Envoy, leaves room for the
	// rejections of others. The versions that were least recently looked up are dropped; all other proxies then receive
	// them as usual.
	rejectionsLimit, proxyRejectionsLimit = 64, 16
)

// Rejections are the published versions that some proxy of a fleet rejected. Every other proxy receives such a version
// alone, so that its NACK affects no other resource. This matters most in the first response of a stream, which makes
// Envoy ready. The zero value is empty. Rejections are safe for concurrent use.
type Rejections struct {
	mu       sync.Mutex
	versions map[change]rejectedVersion
	lookups  uint64
}

// rejectedVersion is a version that a proxy rejected.
type rejectedVersion struct {
	version  version
	proxy    string // that rejected it last
	lastUsed uint64 // the number of the lookup
}

// ProxyRejections are the Rejections of a fleet as one proxy sees them.
type ProxyRejections struct {
	all   *Rejections
	proxy string
}

// Of returns the Rejections for a proxy, which is identified by its address.
func (r *Rejections) Of(proxy string) ProxyRejections { return ProxyRejections{r, proxy} }

// add adds a version that the proxy rejected.
func (p ProxyRejections) add(k Kind, name string, rejected version) {
	r := p.all
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.versions == nil {
		r.versions = map[change]rejectedVersion{}
	}
	r.lookups++
	r.versions[change{k, name}] = rejectedVersion{rejected, p.proxy, r.lookups}
	r.dropAbove(proxyRejectionsLimit, func(v rejectedVersion) bool { return v.proxy == p.proxy })
	r.dropAbove(rejectionsLimit, func(rejectedVersion) bool { return true })
}

// dropAbove drops the least recently used of the chosen versions if there are more than a limit. The caller holds the
// lock.
func (r *Rejections) dropAbove(limit int, isChosen func(rejectedVersion) bool) {
	count, oldest, lastUsed := 0, change{}, r.lookups+1
	for key, rejected := range r.versions {
		if !isChosen(rejected) {
			continue
		}
		if count++; rejected.lastUsed < lastUsed {
			oldest, lastUsed = key, rejected.lastUsed
		}
	}
	if count > limit {
		delete(r.versions, oldest)
	}
}

// has reports whether a proxy rejected this version of the resource.
func (p ProxyRejections) has(k Kind, res *Resource) bool {
	r := p.all
	r.mu.Lock()
	defer r.mu.Unlock()
	rejected, exists := r.versions[change{k, res.name}]
	if !exists || rejected.version != res.version {
		return false
	}
	r.lookups++
	rejected.lastUsed = r.lookups
	r.versions[change{k, res.name}] = rejected
	return true
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
		if published.version(key.kind, key.name) != rejected.version {
			delete(r.versions, key)
		}
	}
}
