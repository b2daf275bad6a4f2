package status

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
)

const (
	// tableWindow is how many of the last tables a Ledger knows by their version. A proxy whose last ACK is older has much to catch up with.
	tableWindow = 1024
	// maxRefusal is the longest reason for a refusal that is kept, in bytes.
	maxRefusal = 512
	// noReason stands for the reason that a proxy did not give.
	noReason = "no reason given"
)

// Stream is what one connected proxy has confirmed.
type Stream struct {
	// Number rises with every stream of the replica.
	Number uint64
	// Peer is the proxy's address, host:port.
	Peer string
	// Confirmed returns how to look up a resource of an xDS type URL by its name. Of a resource that the proxy knows nothing of that is the zero value.
	Confirmed func(typeURL string) func(name string) Confirmation
	// Refused are the culprits that the discovery server has found: what the proxy refuses on its own merits, and what is held back from it. What else it
	// has refused is only suspected.
	Refused []Culprit
}

// Culprit is a resource, or a virtual host of the table, that a proxy refuses.
type Culprit struct {
	// TypeURL and Name name the resource.
	TypeURL, Name string
	// Host is the name of the virtual host, "" when it is not about one.
	Host string
	// Message is the proxy's reason.
	Message string
}

// Confirmation is what one proxy has answered about one resource.
type Confirmation struct {
	// Acked is the version that it last confirmed, "" when it never did or when a NACK took that back.
	Acked string
	// InSync says that it confirmed the last thing that it was sent.
	InSync bool
	// Nacked is a version that travelled in a response which it refused, "" when there is none of which no later ACK is known.
	Nacked string
	// Message is the reason that it gave for that.
	Message string
	// Unconfirmed are, of a table that is not the published one, the virtual hosts that the proxy is not known to have as they are published; it has
	// confirmed all others. A table that leaves out what a proxy refuses has a version that the Ledger does not know. Sorted; it says nothing when it is nil.
	Unconfirmed []string
}

// Ledger knows which published table had which Part of each object, so that the ACK of any table that carries an object as it is wanted counts for
// that object, whatever has changed for others.
//
// Publications are numbered. Of each object the Ledger keeps the number since which its routes are what they are, so a proxy has them when the table it
// confirmed has that number or a later one. This takes one number per object and the numbers of the last tableWindow versions.
//
// The zero value is not usable; make it with NewLedger. It is not safe for concurrent use.
type Ledger struct {
	edition uint64 // the number of the last publication that changed anything
	table   string // its version
	// tables are the numbers by version: a version is a content hash, and a table that comes back has its old one. window lists them, oldest first.
	tables map[string]span
	window []issue
	parts  map[ir.Key]entry
	order  []ir.Key
	// records counts the publications, and complete is, by stream, that count when the stream was last seen to have everything.
	records  uint64
	complete map[uint64]uint64
}

// span are the first and the last publication in which a version of the table was in force.
type span struct{ first, last uint64 }

// issue is one publication of a table.
type issue struct {
	version string
	edition uint64
}

// entry is an object's Part, the number of the publication since which its routes are these, and the count of records when the Part became what it is.
type entry struct {
	Part
	since, changed uint64
}

// NewLedger returns a Ledger that knows of no publication.
func NewLedger() *Ledger {
	return &Ledger{tables: map[string]span{}, parts: map[ir.Key]entry{}, complete: map[uint64]uint64{}}
}

// Record notes what is published now: the version of the table, and the Part of each object.
func (l *Ledger) Record(table string, parts map[ir.Key]Part) {
	changed := table != l.table
	for key, part := range parts {
		before, known := l.parts[key]
		changed = changed || !known || before.Routes != part.Routes
	}
	if changed {
		l.edition++
		l.issue(table)
	}
	l.records++
	next := make(map[ir.Key]entry, len(parts))
	for key, part := range parts {
		is := entry{part, l.edition, l.records}
		before, known := l.parts[key]
		if known && before.Routes == part.Routes {
			is.since = before.since
		}
		if known && before.Digest == part.Digest {
			is.changed = before.changed
		}
		next[key] = is
	}
	l.parts = next
	l.order = slices.SortedFunc(maps.Keys(next), ir.Key.Compare)
}

// issue enters the table of the present edition, and forgets the oldest one beyond the window.
func (l *Ledger) issue(table string) {
	l.table = table
	found, known := l.tables[table]
	if !known {
		found.first = l.edition
	}
	found.last = l.edition
	l.tables[table] = found
	l.window = append(l.window, issue{table, l.edition})
	if len(l.window) <= tableWindow {
		return
	}
	oldest := l.window[0]
	l.window = slices.Delete(l.window, 0, 1)
	if l.tables[oldest.version].last == oldest.edition {
		delete(l.tables, oldest.version)
	}
}

// Acks compares what is published with what streams have confirmed. Of several streams of one address the newest counts: a proxy has one, and the
// others are remains.
func (l *Ledger) Acks(replica string, streams []Stream) Acks {
	acks := Acks{Replica: replica, Objects: make([]PublishedObject, 0, len(l.order))}
	for _, key := range l.order {
		acks.Objects = append(acks.Objects, PublishedObject{key.String(), l.parts[key].Digest})
	}
	newest := newestByAddress(streams)
	refusals := map[string]Refusal{}
	acks.Proxies = make([]ProxyAcks, 0, len(newest))
	for _, address := range slices.SortedFunc(maps.Keys(newest), netip.Addr.Compare) {
		acks.Proxies = append(acks.Proxies, ProxyAcks{address, l.compare(newest[address], address, refusals)})
	}
	for _, name := range slices.Sorted(maps.Keys(refusals)) {
		acks.Refusals = append(acks.Refusals, refusals[name])
	}
	l.forget(newest)
	return acks
}

// compare returns what a stream has not confirmed, and adds what it may have refused: what travelled in a response that it refused, and has changed since it
// last had everything. Good ones beside the culprit are among them until the proxy confirms them.
func (l *Ledger) compare(stream Stream, address netip.Addr, refusals map[string]Refusal) []Range {
	table := stream.Confirmed(resourcev3.RouteType)(translate.RouteConfigName)
	clusters, assignments := stream.Confirmed(resourcev3.ClusterType), stream.Confirmed(resourcev3.EndpointType)
	has := l.editionOf(table)
	var behind []Range
	for i, key := range l.order {
		wanted := l.parts[key]
		isTaken, refusal := clustersTaken(wanted.Clusters, clusters, assignments)
		if isTaken && (has >= wanted.since || confirmsHosts(table, wanted.Hosts)) {
			continue
		}
		behind = extend(behind, i)
		if refusal == "" && table.Nacked != "" && l.tables[table.Nacked].last >= wanted.since {
			refusal = cmp.Or(table.Message, noReason)
		}
		if wanted.changed <= l.complete[stream.Number] {
			refusal = ""
		}
		if found := slices.IndexFunc(stream.Refused, wanted.has); found >= 0 {
			refusal = cmp.Or(stream.Refused[found].Message, noReason)
		}
		if _, known := refusals[key.String()]; refusal != "" && !known {
			refusals[key.String()] = Refusal{key.String(), address, shorten(refusal, maxRefusal)}
		}
	}
	if len(behind) == 0 {
		l.complete[stream.Number] = l.records
	}
	return behind
}

// confirmsHosts says whether the table that a proxy uses, and nothing newer is under way, has virtual hosts as they are published.
func confirmsHosts(table Confirmation, hosts []string) bool {
	return table.Acked != "" && table.InSync && table.Unconfirmed != nil && !slices.ContainsFunc(hosts, func(host string) bool {
		_, missing := slices.BinarySearch(table.Unconfirmed, host)
		return missing
	})
}

// has says whether a culprit is a part of the object.
func (p Part) has(culprit Culprit) bool {
	if culprit.TypeURL == resourcev3.RouteType {
		return slices.Contains(p.Hosts, culprit.Host)
	}
	return slices.ContainsFunc(p.Clusters, func(cluster PublishedCluster) bool { return cluster.Name == culprit.Name })
}

// editionOf returns the number of the oldest publication whose table the proxy may be using, 0 when that is not known.
//
// Later tables may be on their way to it, and it may be using one of those already; they have everything that has not changed since. But a table that has
// come back has several numbers, and while something is on its way it is not known which of them was confirmed: then the lowest counts.
func (l *Ledger) editionOf(table Confirmation) uint64 {
	found := l.tables[table.Acked]
	if table.InSync {
		return found.last
	}
	return found.first
}

// forget drops what is known of streams that are no more.
func (l *Ledger) forget(open map[netip.Addr]Stream) {
	numbers := make(map[uint64]bool, len(open))
	for _, stream := range open {
		numbers[stream.Number] = true
	}
	maps.DeleteFunc(l.complete, func(number, _ uint64) bool { return !numbers[number] })
}

// clustersTaken says whether a proxy has confirmed clusters and their load assignments in their published versions, and if it refused one, why.
func clustersTaken(wanted []PublishedCluster, clusters, assignments func(name string) Confirmation) (taken bool, refusal string) {
	taken = true
	for _, each := range wanted {
		for _, resource := range [...]struct {
			version string
			is      Confirmation
		}{{each.Cluster, clusters(each.Name)}, {each.Assignment, assignments(each.Name)}} {
			if !resource.is.InSync || resource.version == "" || resource.is.Acked != resource.version {
				taken = false
			}
			if resource.is.Nacked != "" && resource.is.Nacked == resource.version && refusal == "" {
				refusal = cmp.Or(resource.is.Message, noReason)
			}
		}
	}
	return taken, refusal
}

// newestByAddress returns the newest stream of each address. A stream without a readable address cannot be told whose it is and is left out.
func newestByAddress(streams []Stream) map[netip.Addr]Stream {
	newest := map[netip.Addr]Stream{}
	for _, stream := range streams {
		peer, err := netip.ParseAddrPort(stream.Peer)
		if err != nil {
			continue
		}
		address := peer.Addr().Unmap().WithZone("")
		if other, known := newest[address]; !known || other.Number < stream.Number {
			newest[address] = stream
		}
	}
	return newest
}
