package status

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// Acks is what the proxies that are connected to one replica have taken. It is what replicas tell one another, as JSON, under AcksPath.
type Acks struct {
	// Replica names the replica.
	Replica string `json:"replica"`
	// Objects are the HTTPScaledObjects that the replica publishes, in the order of namespaces, then names.
	Objects []PublishedObject `json:"objects"`
	// Proxies are the proxies that are connected to it, in the order of their addresses.
	Proxies []ProxyAcks `json:"proxies"`
	// Refusals tell which objects proxies refused in their published form. There is at most one for an object.
	Refusals []Refusal `json:"refusals,omitempty"`
}

// PublishedObject is one HTTPScaledObject in its published form.
type PublishedObject struct {
	// Name is namespace/name.
	Name string `json:"name"`
	// Digest is that of its Part: replicas that publish the same have the same.
	Digest string `json:"digest"`
}

// ProxyAcks is what one proxy has confirmed.
type ProxyAcks struct {
	// Address is the proxy's address, which is that of its Pod.
	Address netip.Addr `json:"address"`
	// Behind are the objects that the proxy has not confirmed in their published form; it has confirmed all others. They are given by their place in
	// Acks.Objects, as ranges in ascending order, which is short for a proxy that has taken everything and for one that has taken nothing.
	Behind []Range `json:"behind,omitempty"`
}

// Range is the first and the last of consecutive places, counted from 0.
type Range [2]int

// Refusal says that a proxy answered the published form of an object with a NACK.
type Refusal struct {
	// Object is namespace/name.
	Object string `json:"object"`
	// Proxy is the address of a proxy that refused.
	Proxy netip.Addr `json:"proxy"`
	// Message is the proxy's reason, cut to 512 bytes.
	Message string `json:"message"`
}

// isBehind says whether the object at a place is among Behind.
func (p ProxyAcks) isBehind(place int) bool {
	_, found := slices.BinarySearchFunc(p.Behind, place, func(r Range, at int) int {
		switch {
		case r[1] < at:
			return -1
		case r[0] > at:
			return 1
		}
		return 0
	})
	return found
}

// ranges lists places in ascending order. It sorts them in place.
func ranges(places []int) []Range {
	slices.Sort(places)
	var out []Range
	for _, place := range places {
		if last := len(out) - 1; last >= 0 && out[last][1] == place-1 {
			out[last][1] = place
		} else {
			out = append(out, Range{place, place})
		}
	}
	return out
}

// places are the objects of wanted that a replica publishes as they are wanted, with their places.
func (a Acks) places(wanted map[ir.Key]Part) map[ir.Key]int {
	places := make(map[ir.Key]int, len(wanted))
	for key, part := range wanted {
		i, published := slices.BinarySearchFunc(a.Objects, key, func(object PublishedObject, key ir.Key) int {
			namespace, name, _ := strings.Cut(object.Name, "/")
			return ir.Key{Namespace: namespace, Name: name}.Compare(key)
		})
		if published && part.Digest != "" && a.Objects[i].Digest == part.Digest {
			places[key] = i
		}
	}
	return places
}
