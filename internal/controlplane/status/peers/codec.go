package peers

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers/peerspb"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// DigestBytes is the length of a digest: half of SHA-256, which is enough to be collision resistant.
	DigestBytes = 16
	// MaxNackMessage is the longest reason for a NACK that is sent, in bytes.
	MaxNackMessage = 512
	// maxRefusals limits the reasons of one proxy in a Delta, so that it stays below maxMessage when a proxy rejects
	// everything. Further NACKs have the reason elided.
	maxRefusals = 64
	elided      = "…"
	// maxNamespace, maxName and maxFleet are the limits of the API server for names, in bytes.
	maxNamespace, maxName, maxFleet = 63, 253, 63
	// maxEntries limits the State of one replica, see State.entries: 10,000 objects and a hundred proxies that have
	// ACKed none of them.
	maxEntries = 1 << 20
)

// errProtocol means that the other replica violated the protocol.
var errProtocol = errors.New("protocol error")

// encoder encodes the Deltas of one stream.
type encoder struct {
	sequence uint64
	last     uint32
	numbers  map[model.Key]uint32
}

// encode encodes a Delta. It omits objects that are not published.
func (e *encoder) encode(d Delta) *peerspb.Delta {
	e.sequence++
	message := &peerspb.Delta{Sequence: e.sequence}
	for object, digest := range d.Objects {
		number, isKnown := e.numbers[object]
		update := &peerspb.Object{Number: number, Digest: []byte(digest)}
		switch {
		case !isKnown && digest == "":
			continue
		case !isKnown:
			e.last++
			e.numbers[object], update.Number = e.last, e.last
			update.Namespace, update.Name = object.Namespace, object.Name
		case digest == "":
			delete(e.numbers, object)
		default:
		}
		message.Objects = append(message.Objects, update)
	}
	for address, proxy := range d.Proxies {
		message.Proxies = append(message.Proxies, e.proxy(address, proxy))
	}
	return message
}

// proxy encodes the changes of one proxy.
func (e *encoder) proxy(address netip.Addr, proxy Proxy) *peerspb.Proxy {
	update := &peerspb.Proxy{Address: address.AsSlice()}
	if proxy.Gone {
		return update
	}
	update.Fleet, update.Full = string(proxy.Fleet), proxy.Full
	for object, ack := range proxy.Acks {
		number, isKnown := e.numbers[object]
		switch {
		case !isKnown:
		case ack.Acked:
			update.Confirmed = append(update.Confirmed, number)
		default:
			update.Unconfirmed = append(update.Unconfirmed, number)
			if ack.NackMessage == "" {
				continue
			}
			refusal := &peerspb.Refusal{Number: number, Message: ack.NackMessage}
			if len(update.GetRefusals()) >= maxRefusals {
				refusal.Message = elided
			}
			update.Refusals = append(update.Refusals, refusal)
		}
	}
	return update
}

// decoder decodes the Deltas of one stream.
type decoder struct {
	sequence uint64
	objects  map[uint32]model.Key
}

// decode decodes a Delta. Every error has errProtocol in its chain.
func (d *decoder) decode(message *peerspb.Delta) (Delta, error) {
	if message.GetSequence() != d.sequence+1 {
		return Delta{}, fmt.Errorf("%w: sequence number %d after %d", errProtocol, message.GetSequence(), d.sequence)
	}
	d.sequence++
	out := Delta{Objects: map[model.Key]string{}, Proxies: map[netip.Addr]Proxy{}}
	for _, update := range message.GetObjects() {
		object, err := d.object(update)
		if err != nil {
			return Delta{}, err
		}
		out.Objects[object] = string(update.GetDigest())
	}
	for _, update := range message.GetProxies() {
		address, isAddress := netip.AddrFromSlice(update.GetAddress())
		if !isAddress || len(update.GetFleet()) > maxFleet {
			return Delta{}, fmt.Errorf(
				"%w: invalid proxy address %v or fleet %.70q", errProtocol, update.GetAddress(), update.GetFleet(),
			)
		}
		proxy, err := d.proxy(update)
		if err != nil {
			return Delta{}, err
		}
		out.Proxies[address] = proxy
	}
	return out, nil
}

// object decodes the key of an object, and adds or removes its number.
func (d *decoder) object(update *peerspb.Object) (model.Key, error) {
	number, digest := update.GetNumber(), update.GetDigest()
	object, isKnown := d.objects[number]
	if !isKnown {
		object = model.Key{Namespace: update.GetNamespace(), Name: update.GetName()}
	}
	switch {
	case object.Name == "" || len(object.Name) > maxName || len(object.Namespace) > maxNamespace:
		return model.Key{}, fmt.Errorf("%w: object %d: invalid name", errProtocol, number)
	case len(digest) == 0:
		delete(d.objects, number)
	case len(digest) != DigestBytes || len(d.objects) >= maxEntries:
		return model.Key{}, fmt.Errorf("%w: object %d: more than the allowed objects, or a digest of %d bytes",
			errProtocol, number, len(digest))
	default:
		d.objects[number] = object
	}
	return object, nil
}

// proxy decodes the changes of one proxy.
func (d *decoder) proxy(update *peerspb.Proxy) (Proxy, error) {
	if update.GetFleet() == "" {
		return Proxy{Gone: true}, nil
	}
	count := len(update.GetConfirmed()) + len(update.GetUnconfirmed())
	if count > len(d.objects) {
		return Proxy{}, fmt.Errorf("%w: %d ACKs of %d objects", errProtocol, count, len(d.objects))
	}
	proxy := Proxy{
		Fleet: model.Fleet(update.GetFleet()), Full: update.GetFull(), Acks: make(map[model.Key]Ack, count),
	}
	var unknown error
	set := func(number uint32, ack Ack) {
		object, isKnown := d.objects[number]
		if !isKnown {
			unknown = fmt.Errorf("%w: ACK of unknown object %d", errProtocol, number)
		}
		proxy.Acks[object] = ack
	}
	for _, number := range update.GetConfirmed() {
		set(number, Ack{Acked: true})
	}
	for _, number := range update.GetUnconfirmed() {
		set(number, Ack{})
	}
	for _, refusal := range update.GetRefusals() {
		text := refusal.GetMessage()
		set(refusal.GetNumber(), Ack{NackMessage: strings.Clone(text[:min(len(text), MaxNackMessage)])})
	}
	return proxy, unknown
}
