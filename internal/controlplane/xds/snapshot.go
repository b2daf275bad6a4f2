package xds

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
)

// ErrInconsistent is in the chain of an error of Publish or ApplyDelta that says the desired
// resources contradict themselves, such as a route to a cluster that isn't there. The caller has a
// bug; the last good resources stay in force.
var ErrInconsistent = errors.New("inconsistent resources")

// Delta is how a fleet's snapshot differs from the one before it.
type Delta struct {
	// Fleet is the fleet.
	Fleet string
	// Changed are the messages that came or changed, by type URL and resource name.
	Changed map[string]map[string]proto.Message
	// Removed are the names of those that are gone, by type URL.
	Removed map[string][]string
}

// change says that a resource came, went or got another version.
type change struct {
	kind kind
	name string
}

// snapshot is everything that is desired of one fleet at one time. It is immutable.
type snapshot struct {
	resources [kindCount]table
	// patterns are those of kinds of which the resources are alike, nil before the first of them.
	patterns [kindCount]*pattern
}

// replace builds the snapshot that follows s and has exactly what is desired. What didn't change is taken
// over.
func (s *snapshot) replace(desired map[string]map[string]proto.Message) (*snapshot, error) {
	removed := map[string][]string{}
	for k := range kind(kindCount) {
		for name := range s.resources[k].all() {
			if _, wanted := desired[k.typeURL()][name]; !wanted {
				removed[k.typeURL()] = append(removed[k.typeURL()], name)
			}
		}
	}
	return s.apply(Delta{Changed: desired, Removed: removed})
}

// apply builds the snapshot that follows s and differs from it as d says. It costs what d holds. An
// error is about the first thing found wrong, and the snapshot is of no use then.
func (s *snapshot) apply(d Delta) (*snapshot, error) {
	for _, typeURL := range slices.AppendSeq(slices.Collect(maps.Keys(d.Changed)), maps.Keys(d.Removed)) {
		if _, served := kindOf(typeURL); !served {
			return nil, fmt.Errorf("type URL %q is not served: %w", typeURL, ErrInconsistent)
		}
	}
	next := &snapshot{resources: s.resources, patterns: s.patterns}
	for k := range kind(kindCount) {
		if err := next.put(k, d.Changed[k.typeURL()], d.Removed[k.typeURL()]); err != nil {
			return nil, err
		}
	}
	return next, next.check(next.changesSince(s))
}

// put changes the resources of one kind.
func (s *snapshot) put(k kind, messages map[string]proto.Message, removed []string) error {
	changed := make(map[string]*resource, len(messages)+len(removed))
	for name, message := range messages {
		now, err := newResource(k, name, message)
		if err != nil {
			return err
		}
		if !s.resources[k].get(name).is(now) {
			s.share(now)
			changed[name] = now
		}
	}
	for _, name := range removed {
		if s.resources[k].get(name) == nil {
			return fmt.Errorf("%s %q is removed and wasn't there: %w", k, name, ErrInconsistent)
		}
		changed[name] = nil
	}
	s.resources[k] = s.resources[k].with(changed)
	return nil
}

// share has a new resource keep once what the snapshot has already: names of clusters, which are put
// before scopes, and what the marshalled form says like others.
func (s *snapshot) share(r *resource) {
	for i, name := range r.clusters {
		if cluster := s.resources[clusterKind].get(name); cluster != nil {
			r.clusters[i] = cluster.name
		}
	}
	if !r.kind.traits().alike || len(r.body) < patternMin {
		return
	}
	if s.patterns[r.kind] == nil {
		first := pattern(r.body)
		s.patterns[r.kind] = &first
	}
	if packed := s.patterns[r.kind].pack(r.body); len(packed) < len(r.body) {
		r.body, r.pattern = packed, s.patterns[r.kind]
	}
}

// changesSince returns what differs from an earlier snapshot.
func (s *snapshot) changesSince(earlier *snapshot) []change {
	var changes []change
	for k := range kind(kindCount) {
		for _, name := range s.resources[k].changedSince(earlier.resources[k]) {
			changes = append(changes, change{k, name})
		}
	}
	return changes
}

// check finds what would make a proxy answer 503, refuse, or wait in vain: a route to a cluster
// that doesn't exist, an EDS cluster without endpoints (an empty load assignment is one, a missing
// load assignment is not). What was before was good, so only what is new is looked at, and what
// could have needed what is gone.
func (s *snapshot) check(changed []change) error {
	var anyGone [kindCount]bool
	for _, c := range changed {
		now := s.resources[c.kind].get(c.name)
		if now == nil {
			anyGone[c.kind] = true
			continue
		}
		if err := s.checkReferences(now); err != nil {
			return err
		}
	}
	dependents := []struct{ kind, needs kind }{{clusterKind, endpointKind}, {scopeKind, clusterKind}}
	for _, dependent := range dependents {
		if !anyGone[dependent.needs] {
			continue
		}
		for _, r := range s.resources[dependent.kind].all() {
			if err := s.checkReferences(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkReferences finds what a resource needs and isn't there.
func (s *snapshot) checkReferences(r *resource) error {
	if r.byEDS && s.resources[endpointKind].get(r.name) == nil {
		return fmt.Errorf("cluster %q: no cluster load assignment %q: %w", r.name, r.name, ErrInconsistent)
	}
	for _, name := range r.clusters {
		if s.resources[clusterKind].get(name) == nil {
			return fmt.Errorf("scope %q: no cluster %q: %w", r.name, name, ErrInconsistent)
		}
	}
	return nil
}

// version returns the version of a resource, none when it isn't there.
func (s *snapshot) version(k kind, name string) version {
	if found := s.find(k, name); found != nil {
		return found.version
	}
	return version{}
}
