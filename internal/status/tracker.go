package status

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/replicas"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
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
	objects map[ir.Key]published
	// scopes are those of the objects. A cluster is found by its name, which has that of its object.
	scopes map[scope]scopeState
	// proxies are the newest streams by address.
	proxies map[netip.Addr]stream
	// recorded are the digests since the last Look, and suspects the objects that any proxy may have
	// another answer about.
	recorded map[ir.Key]string
	suspects map[ir.Key]struct{}
}

// published is what is published of an object, and the versions of its Clusters in their order.
type published struct {
	Publication

	versions []clusterVersions
}

// clusterVersions are the versions of a cluster and of its load assignment.
type clusterVersions struct{ cluster, endpoints string }

// scope names a scope of a fleet.
type scope struct {
	fleet ir.Fleet
	name  string
}

// scopeState is a scope in its published version, and the objects that have routes in it.
type scopeState struct {
	version string
	owners  []ir.Key
}

// stream names a stream.
type stream struct {
	number uint64
	fleet  ir.Fleet
}

// NewAckTracker returns an AckTracker that knows of no publication and no proxy.
func NewAckTracker() *AckTracker {
	return &AckTracker{
		objects: map[ir.Key]published{}, scopes: map[scope]scopeState{}, proxies: map[netip.Addr]stream{},
		recorded: map[ir.Key]string{}, suspects: map[ir.Key]struct{}{},
	}
}

// Record notes what is published now: the Publication of each object that may have changed, the zero
// value for one that is not published any more. versions are those of all resources now.
func (t *AckTracker) Record(publications map[ir.Key]Publication, versions Versions) {
	touched := map[scope]struct{}{}
	for key, publication := range publications {
		before := t.objects[key]
		for _, name := range before.Scopes {
			at := scope{before.Fleet, name}
			is := t.scopes[at]
			is.owners = slices.DeleteFunc(is.owners, func(owner ir.Key) bool { return owner == key })
			t.scopes[at], touched[at] = is, struct{}{}
		}
		for _, name := range publication.Scopes {
			at := scope{publication.Fleet, name}
			is := t.scopes[at]
			is.owners = append(is.owners, key)
			t.scopes[at], touched[at] = is, struct{}{}
		}
		t.put(key, before, published{publication, versionsOf(publication, versions)})
	}
	for at := range touched {
		t.refresh(at, versions)
	}
}

// versionsOf are the versions of the Clusters of a Publication.
func versionsOf(publication Publication, versions Versions) []clusterVersions {
	if len(publication.Clusters) == 0 {
		return nil
	}
	all := make([]clusterVersions, len(publication.Clusters))
	for i, name := range publication.Clusters {
		all[i].cluster = versions(Resource{publication.Fleet, resourcev3.ClusterType, name})
		all[i].endpoints = versions(Resource{publication.Fleet, resourcev3.EndpointType, name})
	}
	return all
}

// put notes what is published of an object. If it is something else, a proxy may have lost what it had
// of the object, or have it already.
func (t *AckTracker) put(key ir.Key, before, now published) {
	if before.Digest != now.Digest {
		t.recorded[key], t.suspects[key] = now.Digest, struct{}{}
	}
	if !slices.Equal(before.versions, now.versions) {
		t.suspects[key] = struct{}{}
	}
	if t.objects[key] = now; now.Digest == "" {
		delete(t.objects, key)
	}
}

// refresh reads the version of a scope. If it is another one, that is news to all who have routes in it.
func (t *AckTracker) refresh(at scope, versions Versions) {
	is := t.scopes[at]
	if len(is.owners) == 0 {
		delete(t.scopes, at)
		return
	}
	version := versions(Resource{at.fleet, resourcev3.ScopedRouteType, at.name})
	if version == is.version {
		return
	}
	is.version = version
	t.scopes[at] = is
	for _, owner := range is.owners {
		t.suspects[owner] = struct{}{}
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
	judge := func(key ir.Key) {
		is := t.objects[key]
		if _, isJudged := answers[key]; !isJudged && is.Fleet == each.Fleet && is.Digest != "" {
			answers[key] = t.judge(is, each)
		}
	}
	if isNew {
		for key := range t.objects {
			judge(key)
		}
		return answers
	}
	for key := range t.suspects {
		judge(key)
	}
	for _, typeURL := range [...]string{resourcev3.ClusterType, resourcev3.EndpointType} {
		for name := range each.Changed(typeURL) {
			judge(translate.OwnerOf(name))
		}
	}
	for name := range each.Changed(resourcev3.ScopedRouteType) {
		for _, owner := range t.scopes[scope{each.Fleet, name}].owners {
			judge(owner)
		}
	}
	return answers
}

// judge says whether a stream has confirmed an object as it is published, and if not, why it may have
// refused it: what travelled in a response that it refused. Good resources beside the culprit are
// among those until the proxy confirms them.
func (t *AckTracker) judge(object published, each Stream) replicas.Answer {
	answer := replicas.Answer{Confirmed: true}
	look := func(typeURL, name, version string) {
		is := each.Confirmed(typeURL, name)
		if !is.InSync || version == "" || is.Acked != version {
			answer.Confirmed = false
		}
		if is.Nacked != "" && is.Nacked == version && answer.Refusal == "" {
			answer.Refusal = shorten(cmp.Or(is.Message, noReason), replicas.MaxRefusal)
		}
	}
	for i, name := range object.Clusters {
		look(resourcev3.ClusterType, name, object.versions[i].cluster)
		look(resourcev3.EndpointType, name, object.versions[i].endpoints)
	}
	for _, name := range object.Scopes {
		look(resourcev3.ScopedRouteType, name, t.scopes[scope{object.Fleet, name}].version)
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
