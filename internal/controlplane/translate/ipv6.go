package translate

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
)

// Each listener for clients has a counterpart with the same port for IPv6, instead of a second address.
//
//   - Envoy rejects an address of a family that the machine does not have. The discovery server therefore sends
//     IPv6Listeners only to proxies with an IPv6 address. A rejected counterpart leaves the other listener as it is.
//   - Envoy replaces a listener whose addresses change, and drains all its connections. A proxy that becomes
//     dual-stack receives a further listener, and no connection ends.
//   - An IPv6 socket without ipv4_compat accepts IPv6 only (IPV6_V6ONLY), so both can listen on one port.
//   - The listener for IPv4 exists on every proxy: every machine has IPv4, at least on its loopback interface.
const (
	// IPv6ListenerAddress is the address of the counterparts.
	IPv6ListenerAddress = "::"
	// ipv6Suffix is appended to the name of a listener.
	ipv6Suffix = "-ipv6"
)

// ClientListeners returns the names of all listeners for clients, whatever the Options are.
func ClientListeners() []string {
	return append([]string{ListenerName, TLSListenerName}, IPv6Listeners()...)
}

// IPv6Listeners returns the names of the listeners with an IPv6 address, which exist with Options.IPv6.
func IPv6Listeners() []string {
	return []string{ListenerName + ipv6Suffix, TLSListenerName + ipv6Suffix}
}

// addClientListener adds a listener for clients, and its counterpart for IPv6 if that is enabled.
func (o Options) addClientListener(listener *listenerv3.Listener, out Update) error {
	out.Changed[resourcev3.ListenerType][listener.GetName()] = listener
	if !o.IPv6 {
		return nil
	}
	counterpart := proto.CloneOf(listener)
	counterpart.Name += ipv6Suffix
	counterpart.GetAddress().GetSocketAddress().Address = IPv6ListenerAddress
	out.Changed[resourcev3.ListenerType][counterpart.GetName()] = counterpart
	return validate(counterpart)
}

// listenerAddress returns the IPv4 address of the listeners for clients with a port.
func listenerAddress(port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       ListenerAddress,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
