package status

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/replicas"
)

// noReason stands for the reason that a proxy did not give.
const noReason = "no reason given"

// Stream is what one connected proxy has confirmed.
type Stream struct {
	// Number rises with every stream of the replica.
	Number uint64
	// Peer is the proxy's address, host:port.
	Peer string
	// Fleet is the fleet that the proxy belongs to: it is published what is of that fleet.
	Fleet ir.Fleet
	// Changed visits the names of the resources of an xDS type URL about which Confirmed may say
	// something else than at the last poll.
	Changed func(typeURL string) iter.Seq[string]
	// Confirmed looks up a resource. Of one that the proxy knows nothing of that is the zero value.
	Confirmed func(typeURL, name string) Confirmation
}

// Confirmation is what one proxy has answered about one resource.
type Confirmation struct {
	// Acked is the version that it last confirmed, "" when it never did or when a NACK took that back.
	Acked string
	// InSync says that it confirmed the last thing that it was sent.
	InSync bool
	// Nacked is a version that travelled in a response which it refused, "" when there is none of which
	// no later ACK is known.
	Nacked string
	// Message is the reason that it gave for that.
	Message string
}

// AckTracker compares what is published of each object with what the proxies of this replica have
// confirmed, and tells what is new of that. To record a publication, and to look at the proxies, costs
// what is new.
//
// The zero value is not usable; make it with NewAckTracker. It is not safe for concurrent use.
type AckTracker struct {
	objects   map[ir.Key]Publication
	resources map[Resource]*resource
	// proxies are the newest streams by address.
	proxies map[netip.Addr]stream
	// recorded are the digests since the last Look, and suspects the objects that any proxy may have
	// another answer about.
	recorded map[ir.Key]string
	suspects map[ir.Key]struct{}
}

// resource is a resource in its published version, and the objects that depend on it.
type resource struct {
	version string
	owners  map[ir.Key]struct{}
}

// stream names a stream.
type stream struct {
	number uint64
	fleet  ir.Fleet
}

// NewAckTracker returns an AckTracker that knows of no publication and no proxy.
func NewAckTracker() *AckTracker {
	return &AckTracker{
		objects: map[ir.Key]Publication{}, resources: map[Resource]*resource{}, proxies: map[netip.Addr]stream{},
		recorded: map[ir.Key]string{}, suspects: map[ir.Key]struct{}{},
	}
}

// Record notes what is published now: the Publication of each object that may have changed, the zero
// value for one that is not published any more. versions are those of all resources now.
func (t *AckTracker) Record(publications map[ir.Key]Publication, versions Versions) {
	touched := map[Resource]struct{}{}
	for key, publication := range publications {
		for _, name := range t.objects[key].Resources {
			touched[name] = struct{}{}
			if is := t.resources[name]; is != nil {
				delete(is.owners, key)
			}
		}
		for _, name := range publication.Resources {
			touched[name] = struct{}{}
			if t.resources[name] == nil {
				t.resources[name] = &resource{owners: map[ir.Key]struct{}{}}
			}
			t.resources[name].owners[key] = struct{}{}
		}
		if t.objects[key].Digest != publication.Digest {
			t.recorded[key], t.suspects[key] = publication.Digest, struct{}{}
		}
		if t.objects[key] = publication; publication.Digest == "" {
			delete(t.objects, key)
		}
	}
	for name := range touched {
		t.refresh(name, versions)
	}
}

// refresh reads the version of a resource. If it is another one, a proxy may have lost what it had of
// the objects that depend on it, or have it already.
func (t *AckTracker) refresh(name Resource, versions Versions) {
	is := t.resources[name]
	if len(is.owners) == 0 {
		delete(t.resources, name)
		return
	}
	if version := versions(name); version != is.version {
		is.version = version
		maps.Copy(t.suspects, is.owners)
	}
}

// Look compares what is published with what the streams have confirmed, which are all that are open,
// and returns what may be news since the last Look. Of several streams of one address the newest
// counts: a proxy has one, and the others are remains. A stream without a readable address can't be
// told whose it is and is left out.
func (t *AckTracker) Look(streams []Stream) replicas.Delta {
	delta := replicas.Delta{Objects: t.recorded, Proxies: map[netip.Addr]replicas.Proxy{}}
	open := map[netip.Addr]Stream{}
	for _, each := range streams {
		address := addressOf(each)
		if other, known := open[address]; address.IsValid() && (!known || other.Number < each.Number) {
			open[address] = each
		}
	}
	for address, before := range t.proxies {
		if _, isOpen := open[address]; !isOpen {
			delete(t.proxies, address)
			delta.Proxies[address] = replicas.Proxy{Fleet: before.fleet, Gone: true}
		}
	}
	for address, each := range open {
		before, known := t.proxies[address]
		t.proxies[address] = stream{each.Number, each.Fleet}
		isNew := !known || before.number != each.Number
		if answers := t.answers(each, isNew); isNew || len(answers) > 0 {
			delta.Proxies[address] = replicas.Proxy{Fleet: each.Fleet, Full: isNew, Answers: answers}
		}
	}
	t.recorded, t.suspects = map[ir.Key]string{}, map[ir.Key]struct{}{}
	return delta
}

// answers are what a stream has answered about the objects of its fleet: about all when it is new, else
// about those of which the published form or a confirmation is new.
func (t *AckTracker) answers(each Stream, isNew bool) map[ir.Key]replicas.Answer {
	answers := map[ir.Key]replicas.Answer{}
	judge := func(keys iter.Seq[ir.Key]) {
		for key := range keys {
			publication := t.objects[key]
			if _, isJudged := answers[key]; !isJudged && publication.Fleet == each.Fleet && publication.Digest != "" {
				answers[key] = t.judge(publication, each)
			}
		}
	}
	if isNew {
		judge(maps.Keys(t.objects))
		return answers
	}
	judge(maps.Keys(t.suspects))
	for _, typeURL := range [...]string{resourcev3.ClusterType, resourcev3.EndpointType, resourcev3.ScopedRouteType} {
		for name := range each.Changed(typeURL) {
			if is := t.resources[Resource{each.Fleet, typeURL, name}]; is != nil {
				judge(maps.Keys(is.owners))
			}
		}
	}
	return answers
}

// judge says whether a stream has confirmed an object as it is published, and if not, why it may have
// refused it: what travelled in a response that it refused. Good resources beside the culprit are
// among those until the proxy confirms them.
func (t *AckTracker) judge(publication Publication, each Stream) replicas.Answer {
	answer := replicas.Answer{Confirmed: true}
	for _, name := range publication.Resources {
		is, version := each.Confirmed(name.TypeURL, name.Name), t.resources[name].version
		if !is.InSync || version == "" || is.Acked != version {
			answer.Confirmed = false
		}
		if is.Nacked != "" && is.Nacked == version && answer.Refusal == "" {
			answer.Refusal = shorten(cmp.Or(is.Message, noReason), replicas.MaxRefusal)
		}
	}
	if answer.Confirmed {
		answer.Refusal = ""
	}
	return answer
}

// addressOf returns the address of the proxy of a stream, one that is not valid when it cannot be
// read.
func addressOf(each Stream) netip.Addr {
	peer, err := netip.ParseAddrPort(each.Peer)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap().WithZone("")
}
