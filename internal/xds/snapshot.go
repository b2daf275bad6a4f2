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

// logLimit is how many changes a snapshot remembers. A stream that fell further behind compares
// everything once.
const logLimit = 1024

// Delta is how a fleet's snapshot differs from the one before it.
type Delta struct {
	// Fleet is the fleet.
	Fleet string
	// Changed are the messages that came or changed, by type URL and resource name.
	Changed map[string]map[string]proto.Message
	// Removed are the names of those that are gone, by type URL.
	Removed map[string][]string
}

// check refuses types that are not served.
func (d Delta) check() error {
	types := slices.Concat(slices.Collect(maps.Keys(d.Changed)), slices.Collect(maps.Keys(d.Removed)))
	for _, typeURL := range types {
		if _, served := kindOf(typeURL); !served {
			return fmt.Errorf("type URL %q is not served: %w", typeURL, ErrInconsistent)
		}
	}
	return nil
}

// change says that a resource came, went or got another version.
type change struct {
	kind kind
	name string
}

// snapshot is everything that is desired of one fleet at one time. It is immutable.
type snapshot struct {
	resources [kindCount]map[string]*resource
	// log holds the last changes that led here, oldest first.
	log []change
	// changes counts all changes since the first snapshot, so it also numbers the end of log.
	changes uint64
}

// replace builds the snapshot that follows s (nil for the first one) and has exactly what is
// desired. What didn't change is taken over.
func (s *snapshot) replace(desired map[string]map[string]proto.Message) (*snapshot, error) {
	removed := map[string][]string{}
	for k := range kind(kindCount) {
		if s == nil {
			break
		}
		for name := range s.resources[k] {
			if _, wanted := desired[k.typeURL()][name]; !wanted {
				removed[k.typeURL()] = append(removed[k.typeURL()], name)
			}
		}
	}
	return s.apply(Delta{Changed: desired, Removed: removed})
}

// apply builds the snapshot that follows s (nil for the first one) and differs from it as d says.
// It costs what d holds and a copy of the names of the kinds in it. An error is about the first
// thing found wrong, and no snapshot comes of it.
func (s *snapshot) apply(d Delta) (*snapshot, error) {
	if s == nil {
		s = &snapshot{}
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	next := &snapshot{resources: s.resources, changes: s.changes}
	var changed []change
	for k := range kind(kindCount) {
		names, err := next.put(k, d.Changed[k.typeURL()], d.Removed[k.typeURL()])
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			changed = append(changed, change{k, name})
		}
	}
	if err := next.check(changed); err != nil {
		return nil, err
	}
	next.record(s.log, changed)
	return next, nil
}

// put changes the resources of one kind, and names those that are new, in order.
func (s *snapshot) put(
	k kind, messages map[string]proto.Message, removed []string,
) ([]string, error) {
	if len(messages) == 0 && len(removed) == 0 {
		return nil, nil
	}
	next := maps.Clone(s.resources[k])
	if next == nil {
		next = make(map[string]*resource, len(messages))
	}
	var changed []string
	for name, message := range messages {
		now, err := newResource(k, name, message)
		if err != nil {
			return nil, err
		}
		if !next[name].is(now) {
			s.shareNames(now)
			next[name] = now
			changed = append(changed, name)
		}
	}
	for _, name := range removed {
		if next[name] == nil {
			return nil, fmt.Errorf("%s %q is removed and wasn't there: %w", k, name, ErrInconsistent)
		}
		delete(next, name)
		changed = append(changed, name)
	}
	if len(changed) > 0 {
		s.resources[k] = next
	}
	slices.Sort(changed)
	return changed, nil
}

// shareNames replaces the names of clusters in a new resource by the texts that the snapshot has
// already. Clusters are put before scopes.
func (s *snapshot) shareNames(r *resource) {
	for i, name := range r.clusters {
		if cluster := s.resources[clusterKind][name]; cluster != nil {
			r.clusters[i] = cluster.name
		}
	}
}

// record appends the changes to a copy of the log of the snapshot before and drops the oldest past
// the limit.
func (s *snapshot) record(log, changed []change) {
	s.changes += uint64(len(changed))
	if len(changed) > logLimit {
		return
	}
	excess := max(0, len(log)+len(changed)-logLimit)
	s.log = slices.Concat(log[excess:], changed)
}

// since returns the changes after the given count of changes, or false when the log doesn't reach
// back that far.
func (s *snapshot) since(changes uint64) ([]change, bool) {
	behind := s.changes - changes
	if behind > uint64(len(s.log)) {
		return nil, false
	}
	return s.log[uint64(len(s.log))-behind:], true
}

// changesSince returns what differs from an earlier snapshot, nil for one without anything. It costs as
// much, unless that is too long ago.
func (s *snapshot) changesSince(earlier *snapshot) []change {
	if earlier == nil {
		earlier = &snapshot{}
	}
	if changes, isComplete := s.since(earlier.changes); isComplete {
		return changes
	}
	var changes []change
	for k := range kind(kindCount) {
		var names []string
		for name, res := range s.resources[k] {
			if !earlier.resources[k][name].is(res) {
				names = append(names, name)
			}
		}
		for name := range earlier.resources[k] {
			if s.resources[k][name] == nil {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
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
		now := s.resources[c.kind][c.name]
		if now == nil {
			anyGone[c.kind] = true
			continue
		}
		if err := s.checkReferences(c.kind, now); err != nil {
			return err
		}
	}
	dependents := []struct{ kind, needs kind }{{clusterKind, endpointKind}, {scopeKind, clusterKind}}
	for _, dependent := range dependents {
		if !anyGone[dependent.needs] {
			continue
		}
		for _, r := range s.resources[dependent.kind] {
			if err := s.checkReferences(dependent.kind, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkReferences finds what a resource needs and isn't there.
func (s *snapshot) checkReferences(k kind, r *resource) error {
	if k == clusterKind && r.endpoints != "" && s.resources[endpointKind][r.endpoints] == nil {
		return fmt.Errorf("cluster %q: no cluster load assignment %q: %w",
			r.name, r.endpoints, ErrInconsistent)
	}
	for _, name := range r.clusters {
		if s.resources[clusterKind][name] == nil {
			return fmt.Errorf("scope %q: no cluster %q: %w", r.name, name, ErrInconsistent)
		}
	}
	return nil
}

// version returns the version of a resource; empty when there is none.
func (s *snapshot) version(k kind, name string) string {
	if s == nil || s.resources[k][name] == nil {
		return ""
	}
	return s.resources[k][name].version
}
