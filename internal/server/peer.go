package server

import "net/netip"

// PeerAddress returns the IP address of the peer of a connection, given as address:port. An IPv4 address in IPv6 form
// is returned as IPv4, and a zone is removed, so that the result equals the address of the peer's Pod. The address of
// an error is the zero Addr, which isn't valid.
func PeerAddress(peer string) (netip.Addr, error) {
	parsed, err := netip.ParseAddrPort(peer)
	if err != nil {
		return netip.Addr{}, err
	}
	return parsed.Addr().Unmap().WithZone(""), nil
}
