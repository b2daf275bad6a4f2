package model

import (
	"net/netip"
	"slices"
)

// Fleet names a fleet: the proxies that serve the same objects. They are in one namespace, and that
// is the fleet's name.
type Fleet string

// Proxy is one proxy of a fleet.
type Proxy struct {
	// Name tells it from the others of its fleet.
	Name string
	// Addresses are those that it connects from, one per IP family, sorted.
	Addresses []netip.Addr
	// IsReady says that it takes requests and is not about to go away.
	IsReady bool
	// IsServing says that it takes requests, be it about to go away.
	IsServing bool
}

// Equal says whether two Proxies are the same in every part.
func (p Proxy) Equal(other Proxy) bool {
	return p.Name == other.Name && p.IsReady == other.IsReady && p.IsServing == other.IsServing &&
		slices.Equal(p.Addresses, other.Addresses)
}

// ByFleet divides the Config of several fleets into that of each.
func ByFleet(config Config) map[Fleet]Config {
	divided := map[Fleet]Config{}
	for _, route := range config.Routes {
		part, known := divided[route.Fleet]
		if !known {
			part.Services = map[ServicePort]Endpoints{}
		}
		part.Routes = append(part.Routes, route)
		for _, port := range route.Destinations() {
			part.Services[port] = config.Services[port]
		}
		divided[route.Fleet] = part
	}
	return divided
}
