package status

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// noReason stands for the reason that a proxy did not give.
const noReason = "no reason given"

// Stream is what one connected proxy has confirmed.
type Stream struct {
	// Number rises with every stream of the replica.
	Number uint64
	// Address is the proxy's address.
	Address netip.Addr
	// Fleet is the fleet that the proxy belongs to: it is published what is of that fleet.
	Fleet model.Fleet
	// Changed visits the names of the resources of an xDS type URL about which Confirmed may say
	// something else than at the last poll.
	Changed func(typeURL string) iter.Seq[string]
	// Confirmed looks up a resource. Of one that the proxy knows nothing of that is the zero value.
	Confirmed func(typeURL, name string) Confirmation
}

// Confirmation is what one proxy has answered about one resource.
type Confirmation struct {
	// Acked is the version that it runs for certain: it confirmed the last thing that it was sent, and that is
	// it. "" when there is none.
	Acked string
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
	objects map[model.Key]Publication
	// owners are the objects that have routes in a scope. That of a cluster is in its name.
	owners map[scope][]model.Key
	// versions are those of what was recorded last.
	versions Versions
	// proxies are the numbers of the newest streams by address.
	proxies map[netip.Addr]uint64
	// suspects are the objects that any proxy may have another answer about since the last Look.
	suspects map[model.Key]struct{}
}

// scope names a scope of a fleet.
type scope struct {
	fleet model.Fleet
	name  string
}

// NewAckTracker returns an AckTracker that knows of no publication and no proxy.
func NewAckTracker() *AckTracker {
	return &AckTracker{
		objects: map[model.Key]Publication{}, owners: map[scope][]model.Key{}, proxies: map[netip.Addr]uint64{},
		suspects: map[model.Key]struct{}{},
	}
}

// Record notes what is published now: the Publication of each object that may have changed, the zero
// value for one that is not published any more. versions are those of all resources now. If something
// else is published of an object, a proxy may have lost what it had of it and of others in its scopes,
// or have it already.
func (t *AckTracker) Record(publications map[model.Key]Publication, versions Versions) {
	t.versions = versions
	touched := map[scope]struct{}{}
	for key, now := range publications {
		before := t.objects[key]
		if before.isSame(now) {
			continue
		}
		t.suspects[key] = struct{}{}
		for _, at := range before.scopes() {
			t.owners[at] = slices.DeleteFunc(t.owners[at], func(owner model.Key) bool { return owner == key })
			touched[at] = struct{}{}
		}
		for _, at := range now.scopes() {
			t.owners[at] = append(t.owners[at], key)
			touched[at] = struct{}{}
		}
		if t.objects[key] = now; now.Digest == "" {
			delete(t.objects, key)
		}
	}
	for at := range touched {
		for _, owner := range t.owners[at] {
			t.suspects[owner] = struct{}{}
		}
		if len(t.owners[at]) == 0 {
			delete(t.owners, at)
		}
	}
}

// Look compares what is published with what the streams have confirmed, which are all that are open,
// and returns what may be news since the last Look. Of several streams of one address the newest
// counts: a proxy has one, and the others are remains.
func (t *AckTracker) Look(streams []Stream) peers.Delta {
	delta := peers.Delta{Objects: map[model.Key]string{}, Proxies: map[netip.Addr]peers.Proxy{}}
	for key := range t.suspects {
		delta.Objects[key] = t.objects[key].Digest
	}
	open := map[netip.Addr]*Stream{}
	for i := range streams {
		each := &streams[i]
		if other, known := open[each.Address]; !known || other.Number < each.Number {
			open[each.Address] = each
		}
	}
	for address := range t.proxies {
		if _, isOpen := open[address]; !isOpen {
			delete(t.proxies, address)
			delta.Proxies[address] = peers.Proxy{Gone: true}
		}
	}
	for address, each := range open {
		before, known := t.proxies[address]
		t.proxies[address] = each.Number
		isNew := !known || before != each.Number
		if answers := t.answers(each, isNew); isNew || len(answers) > 0 {
			delta.Proxies[address] = peers.Proxy{Fleet: each.Fleet, Full: isNew, Answers: answers}
		}
	}
	t.suspects = map[model.Key]struct{}{}
	return delta
}

// answers are what a stream has answered about the objects of its fleet: about all when it is new, else
// about those of which the published form or a confirmation is new.
func (t *AckTracker) answers(each *Stream, isNew bool) map[model.Key]peers.Answer {
	answers := map[model.Key]peers.Answer{}
	judge := func(key model.Key) {
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
		for _, owner := range t.owners[scope{each.Fleet, name}] {
			judge(owner)
		}
	}
	return answers
}

// judge says whether a stream has confirmed an object as it is published, and if not, why it may have
// refused it: what travelled in a response that it refused. Good resources beside the culprit are
// among those until the proxy confirms them.
func (t *AckTracker) judge(object Publication, each *Stream) peers.Answer {
	answer := peers.Answer{Confirmed: true}
	look := func(typeURL, name string) {
		is, version := each.Confirmed(typeURL, name), t.versions(object.Fleet, typeURL, name)
		if version == "" || is.Acked != version {
			answer.Confirmed = false
		}
		if is.Nacked != "" && is.Nacked == version && answer.Refusal == "" {
			answer.Refusal = truncate.Text(cmp.Or(is.Message, noReason), peers.MaxRefusal)
		}
	}
	for _, name := range object.clusters() {
		look(resourcev3.ClusterType, name)
		look(resourcev3.EndpointType, name)
	}
	for _, at := range object.scopes() {
		look(resourcev3.ScopedRouteType, at.name)
	}
	if answer.Confirmed {
		answer.Refusal = ""
	}
	return answer
}
