package node

import (
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
)

// prepareNetwork sets up the network namespace's only device, the loopback, with the node's address and a default
// route: a ClusterIP must be routable before the rule that translates it can apply.
func prepareNetwork(s cluster.Settings) error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback device: %w", err)
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("bring the loopback device up: %w", err)
	}
	node := net.ParseIP(s.Addresses.Node)
	if node == nil {
		return fmt.Errorf("the node address %q is not an IP address", s.Addresses.Node)
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: node, Mask: net.CIDRMask(32, 32)}}
	if err := netlink.AddrReplace(loopback, address); err != nil {
		return fmt.Errorf("set the node's address %s: %w", node, err)
	}
	route := &netlink.Route{LinkIndex: loopback.Attrs().Index, Src: node, Scope: netlink.SCOPE_LINK}
	_, route.Dst, _ = net.ParseCIDR("0.0.0.0/0")
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("set the default route: %w", err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600); err != nil {
		return fmt.Errorf("enable packet forwarding on the node: %w", err)
	}
	return nil
}
