package session

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
)

// ErrInconsistent is in the chain of errors of [Snapshot.Replace] and [Snapshot.Apply] if the desired resources
// contradict each other. For example, a route names a cluster that does not exist. The caller has a bug.
var ErrInconsistent = errors.New("inconsistent resources")

// change is that a resource was added, removed or got another version.
type change struct {
	kind Kind
	name string
}

// Snapshot is all desired resources of one fleet at one time. It is immutable. The zero value is empty.
type Snapshot struct {
	resources [KindCount]table
	// dictionaries are those of compressed kinds, nil before their first resource.
	dictionaries [KindCount]*dictionary
}

// Replace returns the snapshot that follows s and contains exactly the desired messages, by type URL and resource name.
// It shares unchanged resources with s and is s itself if nothing changed.
func (s *Snapshot) Replace(desired map[string]map[string]proto.Message) (*Snapshot, error) {
	removed := map[string][]string{}
	for k := range Kind(KindCount) {
		for name := range s.resources[k].all() {
			if _, isDesired := desired[k.TypeURL()][name]; !isDesired {
				removed[k.TypeURL()] = append(removed[k.TypeURL()], name)
			}
		}
	}
	return s.Apply(desired, removed)
}

// Apply returns the snapshot that follows s: changed are new or changed messages by type URL and resource name, removed
// are names by type URL. Its cost depends on the size of the change only. It returns s itself if nothing changed, and
// the first error that it finds.
func (s *Snapshot) Apply(changed map[string]map[string]proto.Message, removed map[string][]string) (*Snapshot, error) {
	for _, typeURL := range slices.AppendSeq(slices.Collect(maps.Keys(changed)), maps.Keys(removed)) {
		if _, isServed := KindOf(typeURL); !isServed {
			return nil, fmt.Errorf("type URL %q is not served: %w", typeURL, ErrInconsistent)
		}
	}
	next := &Snapshot{resources: s.resources, dictionaries: s.dictionaries}
	for k := range Kind(KindCount) {
		if err := next.put(k, changed[k.TypeURL()], removed[k.TypeURL()]); err != nil {
			return nil, err
		}
	}
	if next.resources == s.resources {
		return s, nil
	}
	if err := next.validate(next.changesSince(s)); err != nil {
		return nil, err
	}
	return next, nil
}

// put changes the resources of one kind.
func (s *Snapshot) put(k Kind, messages map[string]proto.Message, removed []string) error {
	changed := make(map[string]*Resource, len(messages)+len(removed))
	for name, message := range messages {
		res, err := newResource(k, name, message)
		if err != nil {
			return err
		}
		if !s.resources[k].get(name).equals(res) {
			s.compress(res)
			changed[name] = res
		}
	}
	for _, name := range removed {
		if s.resources[k].get(name) == nil {
			return fmt.Errorf("%s %q: removed but does not exist: %w", k, name, ErrInconsistent)
		}
		changed[name] = nil
	}
	s.resources[k] = s.resources[k].with(changed)
	return nil
}

// compress makes a new resource share memory with the snapshot: names of clusters, which are put before scopes, and
// text of the dictionary.
func (s *Snapshot) compress(r *Resource) {
	for i, name := range r.clusters {
		if cluster := s.resources[ClusterKind].get(name); cluster != nil {
			r.clusters[i] = cluster.name
		}
	}
	if !r.kind.traits().compressed || len(r.body) < minCompressed {
		return
	}
	if s.dictionaries[r.kind] == nil {
		first := dictionary(r.body)
		s.dictionaries[r.kind] = &first
	}
	if compressed := s.dictionaries[r.kind].compress(r.body); len(compressed) < len(r.body) {
		r.body, r.dictionary = compressed, s.dictionaries[r.kind]
	}
}

// changesSince returns the differences to an earlier snapshot.
func (s *Snapshot) changesSince(earlier *Snapshot) []change {
	var changes []change
	for k := range Kind(KindCount) {
		for _, name := range s.resources[k].changedSince(earlier.resources[k]) {
			changes = append(changes, change{k, name})
		}
	}
	return changes
}

// validate returns an error if a proxy would respond 503, reject a resource, or wait forever. The reasons are a route
// to a cluster that does not exist, and an EDS cluster without a load assignment. An empty load assignment is valid.
// The snapshot before was valid, so only new resources are validated, and those that may depend on a removed one.
func (s *Snapshot) validate(changed []change) error {
	var hasRemoved [KindCount]bool
	for _, c := range changed {
		res := s.resources[c.kind].get(c.name)
		if res == nil {
			hasRemoved[c.kind] = true
			continue
		}
		if err := s.validateReferences(res); err != nil {
			return err
		}
	}
	dependents := []struct{ kind, needs Kind }{{ClusterKind, EndpointKind}, {ScopeKind, ClusterKind}}
	for _, dependent := range dependents {
		if !hasRemoved[dependent.needs] {
			continue
		}
		for _, r := range s.resources[dependent.kind].all() {
			if err := s.validateReferences(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// validateReferences returns an error if a resource refers to one that does not exist.
func (s *Snapshot) validateReferences(r *Resource) error {
	if r.usesEDS && s.resources[EndpointKind].get(r.name) == nil {
		return fmt.Errorf("cluster %q: no cluster load assignment %q: %w", r.name, r.name, ErrInconsistent)
	}
	for _, name := range r.clusters {
		if s.resources[ClusterKind].get(name) == nil {
			return fmt.Errorf("scope %q: no cluster %q: %w", r.name, name, ErrInconsistent)
		}
	}
	return nil
}

// Version returns the version of a resource, a hash of its content; empty if there is no such resource.
func (s *Snapshot) Version(k Kind, name string) string { return s.version(k, name).String() }

// Count returns the number of resources.
func (s *Snapshot) Count() int {
	count := 0
	for _, t := range s.resources {
		for range t.all() {
			count++
		}
	}
	return count
}

// version returns the version of a resource, the zero value if there is no such resource.
func (s *Snapshot) version(k Kind, name string) version {
	if res := s.lookup(k, name); res != nil {
		return res.version
	}
	return version{}
}
