package model

import (
	"net/netip"
	"slices"
)

// Fleet is the name of a fleet: the proxies that serve the same objects. They are in one namespace, which is the
// fleet's name.
type Fleet string

// Proxy is one proxy of a fleet.
type Proxy struct {
	// Name is unique in the fleet.
	Name string
	// Addresses are the source addresses of its connections, one per IP family, sorted.
	Addresses []netip.Addr
	// Zone and Node are the zone and the node on which it runs, "" if they are unknown.
	Zone, Node string
	// IsReady means that it accepts requests and is not terminating.
	IsReady bool
	// IsServing means that it accepts requests, even if it is terminating.
	IsServing bool
	// NeedsToken means that its fleet is strict: without a valid token it is not served.
	NeedsToken bool
}

// Equal reports whether all fields are equal.
func (p Proxy) Equal(other Proxy) bool {
	return p.Name == other.Name && p.Zone == other.Zone && p.Node == other.Node &&
		p.IsReady == other.IsReady && p.IsServing == other.IsServing && p.NeedsToken == other.NeedsToken &&
		slices.Equal(p.Addresses, other.Addresses)
}

// ByFleet splits the Config of several fleets.
func ByFleet(config Config) map[Fleet]Config {
	byFleet := map[Fleet]Config{}
	for _, route := range config.Routes {
		fleetConfig, ok := byFleet[route.Fleet]
		if !ok {
			fleetConfig.Services = map[ServicePort]Endpoints{}
		}
		fleetConfig.Routes = append(fleetConfig.Routes, route)
		for _, port := range route.Destinations() {
			fleetConfig.Services[port] = config.Services[port]
		}
		byFleet[route.Fleet] = fleetConfig
	}
	return byFleet
}
