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

// noReason stands for the reason of a NACK without one.
const noReason = "no reason given"

// Stream is the xDS stream of one connected proxy.
type Stream interface {
	// Number increases with every stream of the replica.
	Number() uint64
	// Address is the address of the proxy.
	Address() netip.Addr
	// Fleet is the fleet that the proxy belongs to and receives the resources of.
	Fleet() model.Fleet
	// Changed returns the names of the resources of an xDS type URL for which ResourceAck may return another result
	// than at the last Poll.
	Changed(typeURL string) iter.Seq[string]
	// ResourceAck looks up a resource. It returns the zero value for a resource that the proxy neither ACKed nor
	// NACKed.
	ResourceAck(typeURL, name string) ResourceAck
}

// ResourceAck is the ACK or NACK of one proxy of one resource.
type ResourceAck struct {
	// Acked is the version that the proxy has confirmed: it ACKed the last response with the resource. It is "" if there
	// is none.
	Acked string
	// Nacked is a version in a response that the proxy NACKed without a later ACK, "" if there is none.
	Nacked string
	// Message is the error message of the NACK.
	Message string
}

// AckTracker compares the publications of objects with the ACKs of the proxies of this replica, and returns what has
// changed. The cost of a call depends on the number of changes and not on the number of objects.
//
// The zero value is not usable; call NewAckTracker. An AckTracker is not safe for concurrent use.
type AckTracker struct {
	publications map[model.Key]Publication
	// owners are the objects that have routes in a scope. The owner of a cluster is in the name of the cluster.
	owners map[scope][]model.Key
	// versions are those of the last call of Record.
	versions Versions
	// streams are the numbers of the newest streams by address.
	streams map[netip.Addr]uint64
	// dirty are the objects about which any proxy may have another ACK since the last call of Changes.
	dirty map[model.Key]struct{}
}

// scope is a scope of a fleet.
type scope struct {
	fleet model.Fleet
	name  string
}

// NewAckTracker returns an AckTracker without publications and proxies.
func NewAckTracker() *AckTracker {
	return &AckTracker{
		publications: map[model.Key]Publication{}, owners: map[scope][]model.Key{}, streams: map[netip.Addr]uint64{},
		dirty: map[model.Key]struct{}{},
	}
}

// Record stores the Publication of each object that may have changed, the zero value for an object that is no longer
// published. versions returns the published versions of all resources. A new publication can change the ACKs of
// proxies about the object and about other objects in its scopes.
func (t *AckTracker) Record(publications map[model.Key]Publication, versions Versions) {
	t.versions = versions
	touched := map[scope]struct{}{}
	for key, now := range publications {
		before := t.publications[key]
		if before.isSame(now) {
			continue
		}
		t.dirty[key] = struct{}{}
		for _, s := range before.scopes() {
			t.owners[s] = slices.DeleteFunc(t.owners[s], func(owner model.Key) bool { return owner == key })
			touched[s] = struct{}{}
		}
		for _, s := range now.scopes() {
			t.owners[s] = append(t.owners[s], key)
			touched[s] = struct{}{}
		}
		if t.publications[key] = now; now.Digest == "" {
			delete(t.publications, key)
		}
	}
	for s := range touched {
		for _, owner := range t.owners[s] {
			t.dirty[owner] = struct{}{}
		}
		if len(t.owners[s]) == 0 {
			delete(t.owners, s)
		}
	}
}

// Changes compares the publications with the ACKs of all open streams, and returns the answers that may have changed
// since the last call. If an address has several streams, the newest one counts: a proxy has one stream, and the others
// are about to close.
func (t *AckTracker) Changes(streams []Stream) peers.Delta {
	delta := peers.Delta{Objects: map[model.Key]string{}, Proxies: map[netip.Addr]peers.Proxy{}}
	for key := range t.dirty {
		delta.Objects[key] = t.publications[key].Digest
	}
	open := map[netip.Addr]Stream{}
	for _, stream := range streams {
		if other, ok := open[stream.Address()]; !ok || other.Number() < stream.Number() {
			open[stream.Address()] = stream
		}
	}
	for address := range t.streams {
		if _, isOpen := open[address]; !isOpen {
			delete(t.streams, address)
			delta.Proxies[address] = peers.Proxy{Gone: true}
		}
	}
	for address, stream := range open {
		number, isKnown := t.streams[address]
		t.streams[address] = stream.Number()
		isNew := !isKnown || number != stream.Number()
		if acks := t.acks(stream, isNew); isNew || len(acks) > 0 {
			delta.Proxies[address] = peers.Proxy{Fleet: stream.Fleet(), Full: isNew, Acks: acks}
		}
	}
	t.dirty = map[model.Key]struct{}{}
	return delta
}

// acks returns the ACKs of a stream about the objects of its fleet: about all objects if the stream is new,
// otherwise about the objects with a new publication or a new confirmation.
func (t *AckTracker) acks(stream Stream, isNew bool) map[model.Key]peers.Ack {
	acks := map[model.Key]peers.Ack{}
	add := func(key model.Key) {
		published := t.publications[key]
		if _, isAdded := acks[key]; !isAdded && published.Fleet == stream.Fleet() && published.Digest != "" {
			acks[key] = t.ack(published, stream)
		}
	}
	if isNew {
		for key := range t.publications {
			add(key)
		}
		return acks
	}
	for key := range t.dirty {
		add(key)
	}
	for _, typeURL := range [...]string{resourcev3.ClusterType, resourcev3.EndpointType} {
		for name := range stream.Changed(typeURL) {
			add(translate.OwnerOf(name))
		}
	}
	for name := range stream.Changed(resourcev3.ScopedRouteType) {
		for _, owner := range t.owners[scope{stream.Fleet(), name}] {
			add(owner)
		}
	}
	return acks
}

// ack reports whether a stream has ACKed all resources of an object, and otherwise the message of a NACK of a
// response with one of them. Such a response can also contain valid resources: these count as rejected until the proxy
// ACKs them.
func (t *AckTracker) ack(object Publication, stream Stream) peers.Ack {
	ack := peers.Ack{Acked: true}
	add := func(typeURL, name string) {
		confirmed, version := stream.ResourceAck(typeURL, name), t.versions(object.Fleet, typeURL, name)
		if version == "" || confirmed.Acked != version {
			ack.Acked = false
		}
		if confirmed.Nacked != "" && confirmed.Nacked == version && ack.NackMessage == "" {
			ack.NackMessage = truncate.Text(cmp.Or(confirmed.Message, noReason), peers.MaxNackMessage)
		}
	}
	for _, name := range object.clusters() {
		add(resourcev3.ClusterType, name)
		add(resourcev3.EndpointType, name)
	}
	for _, s := range object.scopes() {
		add(resourcev3.ScopedRouteType, s.name)
	}
	if ack.Acked {
		ack.NackMessage = ""
	}
	return ack
}
