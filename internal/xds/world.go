package xds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

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
	// log holds the last changes that led here, oldest first.
	log []change
	// changes counts all changes since the first world, so it also numbers the
	// end of log.
	changes uint64
}

// nextWorld builds the world that follows prev (nil for the first one) and has
// exactly what is desired. What didn't change is taken over from prev. An error is
// about the first thing found wrong, and no world comes of it.
func nextWorld(prev *world, desired map[string]map[string]proto.Message) (*world, error) {
	for typeURL := range desired {
		if _, served := kindOf(typeURL); !served {
			return nil, fmt.Errorf("type URL %q is not served: %w", typeURL, ErrInconsistent)
		}
	}
	return amendedWorld(prev, Difference{Changed: desired, Removed: missingFrom(desired, prev)})
}

// missingFrom names what a world has and desired has not.
func missingFrom(desired map[string]map[string]proto.Message, w *world) map[string][]string {
	removed := map[string][]string{}
	if w == nil {
		return removed
	}
	for k := range kind(kindCount) {
		for name := range w.resources[k] {
			if _, wanted := desired[k.typeURL()][name]; !wanted {
				removed[k.typeURL()] = append(removed[k.typeURL()], name)
			}
		}
	}
	return removed
}

// amendedWorld builds the world that follows prev (nil for the first one) and
// differs from it as d says. It costs what d holds, a copy of the names of the kinds
// in it, and a look at the versions of the virtual hosts of the tables in it.
func amendedWorld(prev *world, d Difference) (*world, error) {
	if prev == nil {
		prev = &world{}
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	w := &world{resources: prev.resources, changes: prev.changes}
	var changed []change
	for k := range kind(kindCount) {
		names, err := w.amend(k, d.Changed[k.typeURL()], d.Removed[k.typeURL()])
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			changed = append(changed, change{k, name})
		}
	}
	names, err := w.amendTables(d)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		changed = append(changed, change{routeKind, name})
	}
	if err := w.check(prev, changed); err != nil {
		return nil, err
	}
	w.record(prev.log, changed)
	return w, nil
}

// amend changes the resources of one kind, and names those that are new.
func (w *world) amend(k kind, messages map[string]proto.Message, removed []string) ([]string, error) {
	if len(messages) == 0 && len(removed) == 0 {
		return nil, nil
	}
	next := maps.Clone(w.resources[k])
	if next == nil {
		next = make(map[string]*resource, len(messages))
	}
	var changed []string
	for name, message := range messages {
		before := next[name]
		now, err := newResource(k, name, message, before)
		if err != nil {
			return nil, err
		}
		if before == nil || before.version != now.version {
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
		w.resources[k] = next
	}
	return changed, nil
}

// amendTables changes single virtual hosts, and names the route configurations that
// are new by that.
func (w *world) amendTables(d Difference) ([]string, error) {
	tables, err := d.hosts()
	if err != nil {
		return nil, err
	}
	var changed []string
	for name, edits := range tables {
		before := w.resources[routeKind][name]
		if before == nil {
			return nil, fmt.Errorf("a virtual host of route configuration %q, which isn't there: %w", name, ErrInconsistent)
		}
		edited, err := before.table.edit(edits)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", routeKind, name, err)
		}
		if now := newTableResource(name, edited); now.version != before.version {
			now.pack = sync.OnceValue(now.pack) // All streams send it.
			w.resources[routeKind] = maps.Clone(w.resources[routeKind])
			w.resources[routeKind][name] = now
			changed = append(changed, name)
		}
	}
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
// assignment is one, a missing load assignment is not). prev was good, so only what
// is new is looked at, and what could have needed what is gone.
func (w *world) check(prev *world, changed []change) error {
	var gone [kindCount]map[string]struct{}
	for _, c := range changed {
		now := w.resources[c.kind][c.name]
		switch {
		case now == nil:
			if gone[c.kind] == nil {
				gone[c.kind] = map[string]struct{}{}
			}
			gone[c.kind][c.name] = struct{}{}
		case c.kind == clusterKind && now.endpoints != "" && w.resources[endpointKind][now.endpoints] == nil:
			return fmt.Errorf("cluster %q: no cluster load assignment %q: %w", c.name, now.endpoints, ErrInconsistent)
		case c.kind == routeKind:
			if missing := w.missing(now.table, prev.resources[routeKind][c.name].parts()); missing != "" {
				return fmt.Errorf("route configuration %q: no cluster %q: %w", c.name, missing, ErrInconsistent)
			}
		default:
		}
	}
	return w.checkGone(gone[clusterKind], gone[endpointKind])
}

// checkGone finds what still needs a cluster or endpoints that are gone.
func (w *world) checkGone(clusters, endpoints map[string]struct{}) error {
	if len(endpoints) > 0 {
		for name, cluster := range w.resources[clusterKind] {
			if _, missing := endpoints[cluster.endpoints]; missing {
				return fmt.Errorf("cluster %q: no cluster load assignment %q: %w", name, cluster.endpoints, ErrInconsistent)
			}
		}
	}
	if len(clusters) == 0 {
		return nil
	}
	for name, route := range w.resources[routeKind] {
		for p := range route.table.all() {
			for _, cluster := range p.clusters {
				if _, missing := clusters[cluster]; missing {
					return fmt.Errorf("route configuration %q: no cluster %q: %w", name, cluster, ErrInconsistent)
				}
			}
		}
	}
	return nil
}

// missing returns a cluster that the table names and that doesn't exist, or "".
// Parts that the table before (nil for none) had too are known to be good.
func (w *world) missing(t, before *table) string {
	for _, p := range t.news(before) {
		for _, cluster := range p.clusters {
			if w.resources[clusterKind][cluster] == nil {
				return cluster
			}
		}
	}
	return ""
}
