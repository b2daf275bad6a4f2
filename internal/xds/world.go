package xds

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
)

// ErrInconsistent is in the chain of a Publish error that says the desired world
// contradicts itself, such as a route to a cluster that isn't there. The caller
// has a bug; the last good world stays in force.
var ErrInconsistent = errors.New("inconsistent resources")

// logLimit is how many changes a world remembers. A stream that fell further
// behind compares everything once.
const logLimit = 1024

// change says that a resource came, went or got another version.
type change struct {
	kind kind
	name string
}

// world is everything that is desired at one time. It is immutable.
type world struct {
	resources [kindCount]map[string]*resource
	// messages are what was published: the same pointer again is the same content.
	messages [kindCount]map[string]proto.Message
	// log holds the last changes that led here, oldest first.
	log []change
	// changes counts all changes since the first world, so it also numbers the
	// end of log.
	changes uint64
}

// nextWorld builds the world that follows prev (nil for the first one). What
// didn't change is taken over from prev. An error is about the first thing found
// wrong, and no world comes of it.
func nextWorld(prev *world, desired map[string]map[string]proto.Message) (*world, error) {
	if prev == nil {
		prev = &world{}
	}
	for typeURL := range desired {
		if _, served := kindOf(typeURL); !served {
			return nil, fmt.Errorf("type URL %q is not served: %w", typeURL, ErrInconsistent)
		}
	}
	w := &world{changes: prev.changes}
	var changed []change
	for k := range kind(kindCount) {
		names, err := w.fill(k, prev, desired[k.typeURL()])
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			changed = append(changed, change{k, name})
		}
	}
	if err := w.check(changed); err != nil {
		return nil, err
	}
	w.record(prev.log, changed)
	return w, nil
}

// fill takes over from prev what is the same in desired, and names what is not.
func (w *world) fill(k kind, prev *world, desired map[string]proto.Message) ([]string, error) {
	old, next := prev.resources[k], make(map[string]*resource, len(desired))
	var changed []string
	for name, message := range desired {
		before := old[name]
		if before != nil && prev.messages[k][name] == message {
			next[name] = before
			continue
		}
		now, err := newResource(k, name, message, before)
		if err != nil {
			return nil, err
		}
		if before != nil && before.version == now.version {
			now = before
		} else {
			changed = append(changed, name)
		}
		next[name] = now
	}
	for name := range old {
		if next[name] == nil {
			changed = append(changed, name)
		}
	}
	w.resources[k], w.messages[k] = next, maps.Clone(desired)
	return changed, nil
}

// record appends the changes to a copy of the log of the world before and drops
// the oldest past the limit.
func (w *world) record(log, changed []change) {
	w.changes += uint64(len(changed))
	if len(changed) > logLimit {
		return
	}
	excess := max(0, len(log)+len(changed)-logLimit)
	w.log = slices.Concat(log[excess:], changed)
}

// since returns the changes after the given count of changes, or false when the
// log doesn't reach back that far.
func (w *world) since(changes uint64) ([]change, bool) {
	behind := w.changes - changes
	if behind > uint64(len(w.log)) {
		return nil, false
	}
	return w.log[uint64(len(w.log))-behind:], true
}

// check finds what would make a proxy answer 503 or wait in vain: a route to a
// cluster that doesn't exist, an EDS cluster without endpoints (an empty load
// assignment is one, a missing load assignment is not). Worlds that differ from
// a good one only in the content of endpoints need no look.
func (w *world) check(changed []change) error {
	suspicious := false
	for _, c := range changed {
		if c.kind != endpointKind || w.resources[endpointKind][c.name] == nil {
			suspicious = true
			break
		}
	}
	if !suspicious {
		return nil
	}
	for name, cluster := range w.resources[clusterKind] {
		if cluster.endpoints != "" && w.resources[endpointKind][cluster.endpoints] == nil {
			return fmt.Errorf("cluster %q: no cluster load assignment %q: %w", name, cluster.endpoints, ErrInconsistent)
		}
	}
	for name, route := range w.resources[routeKind] {
		if missing := w.missing(route.table); missing != "" {
			return fmt.Errorf("route configuration %q: no cluster %q: %w", name, missing, ErrInconsistent)
		}
	}
	return nil
}

// missing returns a cluster that the table names and that doesn't exist, or "".
func (w *world) missing(t *table) string {
	for p := range t.all() {
		for _, cluster := range p.clusters {
			if w.resources[clusterKind][cluster] == nil {
				return cluster
			}
		}
	}
	return ""
}
