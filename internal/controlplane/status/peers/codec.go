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
	// DigestBytes is the length of a digest: half of SHA-256, which nobody finds a second text for.
	DigestBytes = 16
	// MaxRefusal is the longest reason for a refusal that is told, in bytes.
	MaxRefusal = 512
	// maxRefusals is how many reasons of one proxy a Delta has, so that it stays below maxMessage when a
	// proxy refuses everything. The others are told as noRoom: they are refusals too.
	maxRefusals = 64
	noRoom      = "…"
	// maxNamespace, maxName and maxFleet are the longest names that the API server takes, in bytes.
	maxNamespace, maxName, maxFleet = 63, 253, 63
	// maxEntries bounds what is kept of one replica, see State.entries: 10,000 objects and a hundred
	// proxies that have none of them yet.
	maxEntries = 1 << 20
)

// errProtocol says that a replica told something that no replica tells.
var errProtocol = errors.New("unusable message")

// encoder writes the Deltas of one stream.
type encoder struct {
	sequence uint64
	last     uint32
	numbers  map[model.Key]uint32
}

// encode writes a Delta. What it says of objects that are not published is left out.
func (e *encoder) encode(d Delta) *peerspb.Delta {
	e.sequence++
	message := &peerspb.Delta{Sequence: e.sequence}
	for object, digest := range d.Objects {
		number, known := e.numbers[object]
		update := &peerspb.Object{Number: number, Digest: []byte(digest)}
		switch {
		case !known && digest == "":
			continue
		case !known:
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

// proxy writes what is new about one proxy.
func (e *encoder) proxy(address netip.Addr, proxy Proxy) *peerspb.Proxy {
	update := &peerspb.Proxy{Address: address.AsSlice()}
	if proxy.Gone {
		return update
	}
	update.Fleet, update.Full = string(proxy.Fleet), proxy.Full
	for object, answer := range proxy.Answers {
		number, known := e.numbers[object]
		switch {
		case !known:
		case answer.Confirmed:
			update.Confirmed = append(update.Confirmed, number)
		default:
			update.Unconfirmed = append(update.Unconfirmed, number)
			if answer.Refusal == "" {
				continue
			}
			refusal := &peerspb.Refusal{Number: number, Message: answer.Refusal}
			if len(update.GetRefusals()) >= maxRefusals {
				refusal.Message = noRoom
			}
			update.Refusals = append(update.Refusals, refusal)
		}
	}
	return update
}

// decoder reads the Deltas of one stream.
type decoder struct {
	sequence uint64
	objects  map[uint32]model.Key
}

// decode reads a Delta. Every error has errProtocol in its chain.
func (d *decoder) decode(message *peerspb.Delta) (Delta, error) {
	if message.GetSequence() != d.sequence+1 {
		return Delta{}, fmt.Errorf("%w: number %d follows %d", errProtocol, message.GetSequence(), d.sequence)
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
			return Delta{}, fmt.Errorf("%w: proxy %v of fleet %.70q", errProtocol, update.GetAddress(), update.GetFleet())
		}
		proxy, err := d.proxy(update)
		if err != nil {
			return Delta{}, err
		}
		out.Proxies[address] = proxy
	}
	return out, nil
}

// object returns the object that is told of, and learns or forgets its number.
func (d *decoder) object(update *peerspb.Object) (model.Key, error) {
	number, digest := update.GetNumber(), update.GetDigest()
	object, known := d.objects[number]
	if !known {
		object = model.Key{Namespace: update.GetNamespace(), Name: update.GetName()}
	}
	switch {
	case object.Name == "" || len(object.Name) > maxName || len(object.Namespace) > maxNamespace:
		return model.Key{}, fmt.Errorf("%w: object %d has no usable name", errProtocol, number)
	case len(digest) == 0:
		delete(d.objects, number)
	case len(digest) != DigestBytes || len(d.objects) >= maxEntries:
		return model.Key{}, fmt.Errorf("%w: object %d is one too many, or has a digest of %d bytes",
			errProtocol, number, len(digest))
	default:
		d.objects[number] = object
	}
	return object, nil
}

// proxy reads what is new about one proxy.
func (d *decoder) proxy(update *peerspb.Proxy) (Proxy, error) {
	if update.GetFleet() == "" {
		return Proxy{Gone: true}, nil
	}
	count := len(update.GetConfirmed()) + len(update.GetUnconfirmed())
	if count > len(d.objects) {
		return Proxy{}, fmt.Errorf("%w: %d answers about %d objects", errProtocol, count, len(d.objects))
	}
	proxy := Proxy{Fleet: model.Fleet(update.GetFleet()), Full: update.GetFull(), Answers: make(map[model.Key]Answer, count)}
	var unknown error
	answer := func(number uint32, is Answer) {
		object, known := d.objects[number]
		if !known {
			unknown = fmt.Errorf("%w: an answer about object %d, which was not told", errProtocol, number)
		}
		proxy.Answers[object] = is
	}
	for _, number := range update.GetConfirmed() {
		answer(number, Answer{Confirmed: true})
	}
	for _, number := range update.GetUnconfirmed() {
		answer(number, Answer{})
	}
	for _, refusal := range update.GetRefusals() {
		text := refusal.GetMessage()
		answer(refusal.GetNumber(), Answer{Refusal: strings.Clone(text[:min(len(text), MaxRefusal)])})
	}
	return proxy, unknown
}
