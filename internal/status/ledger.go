package status

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
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
	// News visits the names of the resources of an xDS type URL about which Confirmed may say something else than at the last look at this stream. A nil News
	// stands for all.
	News func(typeURL string) iter.Seq[string]
	// Confirmed looks up a resource. Of one that the proxy knows nothing of that is the zero value.
	Confirmed func(typeURL, name string) Confirmation
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
// confirmed has that number or a later one. This takes one number per object and the numbers of the last tableWindow versions. Of each stream it keeps what
// that has not confirmed. So to record a publication, and to look at a stream, costs what is new.
//
// The zero value is not usable; make it with NewLedger. It is not safe for concurrent use.
type Ledger struct {
	edition uint64 // the number of the last publication that changed anything
	table   string // its version
	// tables are the numbers by version: a version is a content hash, and a table that comes back has its old one. window lists them, oldest first.
	tables map[string]span
	window []issue
	parts  map[ir.Key]entry
	owners map[string]ir.Key // the objects by the names of their clusters
	// order are the objects in order, nil when out of date, and listed what Acks has of them, but for those that are unlisted.
	order    []ir.Key
	listed   []PublishedObject
	unlisted []ir.Key
	// records counts the publications, and log has the changes of Parts in their order, the last one of every object at least.
	records uint64
	log     []revision
	streams map[uint64]*standing
}

// revision is a change of an object's Part: in which record, and the number of the publication.
type revision struct {
	record, edition uint64
	key             ir.Key
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

	name           string // of the object
	since, changed uint64
}

// NewLedger returns a Ledger that knows of no publication.
func NewLedger() *Ledger {
	return &Ledger{tables: map[string]span{}, parts: map[ir.Key]entry{}, owners: map[string]ir.Key{}, streams: map[uint64]*standing{}}
}

// Record notes what is published now: the version of the table, and the Part of each object that may have changed, the zero Part for one that is not published
// any more.
func (l *Ledger) Record(table string, parts map[ir.Key]Part) {
	changed := table != l.table
	for key, part := range parts {
		before, known := l.parts[key]
		changed = changed || part.Digest != "" && (!known || before.Routes != part.Routes)
	}
	if changed {
		l.edition++
		l.issue(table)
	}
	l.records++
	for key, part := range parts {
		l.put(key, part)
	}
	if len(l.log) > 2*len(l.parts)+tableWindow {
		l.compact()
	}
	if len(l.unlisted) > len(l.parts) { // Nobody asks.
		l.order, l.unlisted = nil, nil
	}
}

// put keeps the Part of one object.
func (l *Ledger) put(key ir.Key, part Part) {
	before, known := l.parts[key]
	if known && before.Digest == part.Digest {
		before.Part = part // It may differ in what the digest is not about.
		l.parts[key] = before
		return
	}
	l.unlisted = append(l.unlisted, key)
	for _, cluster := range before.Clusters {
		delete(l.owners, cluster.Name)
	}
	if part.Digest == "" {
		delete(l.parts, key)
		l.order = nil
		for _, stream := range l.streams {
			delete(stream.behind, key)
		}
		return
	}
	is := entry{part, before.name, l.edition, l.records}
	if !known {
		is.name, l.order = key.String(), nil
	} else if before.Routes == part.Routes {
		is.since = before.since
	}
	l.parts[key] = is
	for _, cluster := range part.Clusters {
		l.owners[cluster.Name] = key
	}
	l.log = append(l.log, revision{l.records, l.edition, key})
}

// compact drops all but the last revision of each object.
func (l *Ledger) compact() {
	l.log = slices.DeleteFunc(l.log, func(each revision) bool { return l.parts[each.key].changed != each.record })
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

// Keep forgets all streams but these, by their numbers, and says whether there were any.
func (l *Ledger) Keep(open map[uint64]struct{}) bool {
	before := len(l.streams)
	maps.DeleteFunc(l.streams, func(number uint64, _ *standing) bool {
		_, isOpen := open[number]
		return !isOpen
	})
	return len(l.streams) < before
}

// Acks tells what streams have confirmed, as of the last look at each. Of several streams of one address the newest counts: a proxy has one, and the
// others are remains. A stream without a readable address cannot be told whose it is and is left out.
func (l *Ledger) Acks(replica string) Acks {
	acks := Acks{Replica: replica, Objects: l.objects(), Proxies: []ProxyAcks{}}
	newest := map[netip.Addr]uint64{}
	for number, stream := range l.streams {
		if stream.address.IsValid() {
			newest[stream.address] = max(newest[stream.address], number)
		}
	}
	refusals := map[string]Refusal{}
	for _, address := range slices.SortedFunc(maps.Keys(newest), netip.Addr.Compare) {
		behind := l.streams[newest[address]].behind
		places := make([]int, 0, len(behind))
		for key, refusal := range behind {
			place, _ := slices.BinarySearchFunc(l.order, key, ir.Key.Compare)
			places = append(places, place)
			name := l.parts[key].name
			if _, known := refusals[name]; refusal != "" && !known {
				refusals[name] = Refusal{name, address, refusal}
			}
		}
		acks.Proxies = append(acks.Proxies, ProxyAcks{address, ranges(places)})
	}
	for _, name := range slices.Sorted(maps.Keys(refusals)) {
		acks.Refusals = append(acks.Refusals, refusals[name])
	}
	return acks
}

// objects lists what is published. The result is never changed.
func (l *Ledger) objects() []PublishedObject {
	switch {
	case l.order == nil:
		l.order = slices.SortedFunc(maps.Keys(l.parts), ir.Key.Compare)
		l.listed = make([]PublishedObject, 0, len(l.order))
		for _, key := range l.order {
			l.listed = append(l.listed, PublishedObject{l.parts[key].name, l.parts[key].Digest})
		}
	case len(l.unlisted) > 0:
		l.listed = slices.Clone(l.listed)
		for _, key := range l.unlisted {
			if place, published := slices.BinarySearchFunc(l.order, key, ir.Key.Compare); published {
				l.listed[place].Digest = l.parts[key].Digest
			}
		}
	default:
	}
	l.unlisted = nil
	return l.listed
}
