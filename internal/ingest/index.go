package ingest

import (
	"strings"
	"sync"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// index finds the Routes that are in force by fleet and host. One writes, and readers never wait:
// each host is replaced as a whole.
type index struct {
	sites sync.Map // the Routes, in the order of ir.CompareRoutes, by site
}

// site is a host in one fleet.
type site struct {
	fleet ir.Fleet
	host  ir.Host
}

// put replaces the Routes of hosts of a fleet. isAll says that it has no other hosts.
func (x *index) put(fleet ir.Fleet, hosts map[ir.Host][]ir.Route, isAll bool) {
	for host, routes := range hosts {
		if at := (site{fleet, host}); len(routes) > 0 {
			x.sites.Store(at, routes)
		} else {
			x.sites.Delete(at)
		}
	}
	if !isAll {
		return
	}
	x.sites.Range(func(key, _ any) bool {
		if at, is := key.(site); is && at.fleet == fleet && len(hosts[at.host]) == 0 {
			x.sites.Delete(at)
		}
		return true
	})
}

// find returns the Route of a request, and false for one that nobody serves. header looks a header
// up, by its name in lower case.
func (x *index) find(
	fleet ir.Fleet, host, path string, header func(name string) (value string, present bool),
) (ir.Route, bool) {
	path, _, _ = strings.Cut(path, "?")
	for _, each := range ir.HostsFor(host) {
		found, known := x.sites.Load(site{fleet, each})
		if !known {
			continue
		}
		routes, _ := found.([]ir.Route)
		for _, route := range routes {
			if route.Match.Fits(path, header) {
				return route, true
			}
		}
		return ir.Route{}, false // A known host never falls through to a less specific one.
	}
	return ir.Route{}, false
}

// Find returns the Route in force that a fleet has for a request, and false when nobody serves it.
// host is the request's Host or :authority, and header looks a header up, by its name in lower case.
// It may be called at any time from anywhere, and never waits for a pass.
func (l *Loop) Find(
	fleet ir.Fleet, host, path string, header func(name string) (value string, present bool),
) (ir.Route, bool) {
	return l.index.find(fleet, host, path, header)
}

// routesByHost are the Routes of each host in an Update.
func routesByHost(hosts map[ir.Host]ir.Config) map[ir.Host][]ir.Route {
	routes := make(map[ir.Host][]ir.Route, len(hosts))
	for host, config := range hosts {
		routes[host] = config.Routes
	}
	return routes
}

// groupByHost divides Routes by host, in their order.
func groupByHost(routes []ir.Route) map[ir.Host][]ir.Route {
	grouped := map[ir.Host][]ir.Route{}
	for _, route := range routes {
		grouped[route.Match.Host] = append(grouped[route.Match.Host], route)
	}
	return grouped
}
