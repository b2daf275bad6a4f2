package status

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

const (
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
	// Changed visits the names of the resources of an xDS type URL about which Confirmed may say
	// something else than at the last look at this stream. A nil Changed stands for all.
	Changed func(typeURL string) iter.Seq[string]
	// Confirmed looks up a resource. Of one that the proxy knows nothing of that is the zero value.
	Confirmed func(typeURL, name string) Confirmation
	// Refused are the culprits that the discovery server has found: what the proxy refuses on its own merits, and what is held back from it. What else it
	// has refused is only suspected.
	Refused []Culprit
}

// Culprit is a resource that a proxy refuses.
type Culprit struct {
	// Resource is what it refuses, in the refused version.
	Resource PublishedResource
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
}

// Ledger compares what is published of each object with what each proxy has confirmed. Of each stream
// it keeps what that has not confirmed. So to record a publication, and to look at a stream, costs
// what is new.
//
// The zero value is not usable; make it with NewLedger. It is not safe for concurrent use.
type Ledger struct {
	parts map[ir.Key]entry
	// owners are the objects that depend on a resource, by its name: a cluster and its load assignment
	// have the same, and no scope has that of a cluster.
	owners map[string][]ir.Key
	// order are the objects in order, nil when out of date, and listed what Acks has of them, but for those that are unlisted.
	order    []ir.Key
	listed   []PublishedObject
	unlisted []ir.Key
	streams  map[uint64]*standing
}

// entry is an object's Part and the object's name.
type entry struct {
	Part

	name string
}

// NewLedger returns a Ledger that knows of no publication.
func NewLedger() *Ledger {
	return &Ledger{parts: map[ir.Key]entry{}, owners: map[string][]ir.Key{}, streams: map[uint64]*standing{}}
}

// Record notes what is published now: the Part of each object that may have changed, the zero Part
// for one that is not published any more.
func (l *Ledger) Record(parts map[ir.Key]Part) {
	for key, part := range parts {
		l.put(key, part)
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
	l.disown(key, before.Part)
	if part.Digest == "" {
		delete(l.parts, key)
		l.order = nil
		for _, stream := range l.streams {
			delete(stream.behind, key)
			delete(stream.published, key)
		}
		return
	}
	is := entry{part, before.name}
	if !known {
		is.name, l.order = key.String(), nil
	}
	l.parts[key] = is
	for _, name := range part.names() {
		l.owners[name] = append(l.owners[name], key)
	}
	for _, stream := range l.streams {
		stream.published[key] = struct{}{}
	}
}

// disown takes an object from the owners of its resources.
func (l *Ledger) disown(key ir.Key, part Part) {
	for _, name := range part.names() {
		others := slices.DeleteFunc(l.owners[name], func(owner ir.Key) bool { return owner == key })
		if l.owners[name] = others; len(others) == 0 {
			delete(l.owners, name)
		}
	}
}

// names lists the names of the Part's resources, each once.
func (p Part) names() []string {
	names := make([]string, 0, len(p.Resources))
	for _, resource := range p.Resources {
		names = append(names, resource.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
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
