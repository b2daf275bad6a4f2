package ingest

import (
	"maps"
	"strings"
	"sync"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// index finds the Routes that are in force by fleet and host. One writes, and readers wait for no more
// than that hosts are replaced. Make it with newIndex.
type index struct {
	mu    sync.RWMutex
	sites map[site][]ir.Route // in the order of ir.CompareRoutes
}

// site is a host in one fleet.
type site struct {
	fleet ir.Fleet
	host  ir.Host
}

// newIndex returns an index without Routes.
func newIndex() *index { return &index{sites: map[site][]ir.Route{}} }

// put replaces the Routes of hosts of a fleet. isAll says that it has no other hosts.
func (x *index) put(fleet ir.Fleet, hosts map[ir.Host]ir.Config, isAll bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if isAll {
		maps.DeleteFunc(x.sites, func(at site, _ []ir.Route) bool { return at.fleet == fleet })
	}
	for host, config := range hosts {
		if x.sites[site{fleet, host}] = config.Routes; len(config.Routes) == 0 {
			delete(x.sites, site{fleet, host})
		}
	}
}

// of returns the Routes of a host.
func (x *index) of(fleet ir.Fleet, host ir.Host) []ir.Route {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.sites[site{fleet, host}]
}

// Find returns the Route in force that a fleet has for a request, and false when nobody serves it.
// host is the request's Host or :authority, and header looks a header up, by its name in lower case.
// It may be called at any time from anywhere, and never waits for a pass.
func (l *Loop) Find(
	fleet ir.Fleet, host, path string, header func(name string) (value string, present bool),
) (ir.Route, bool) {
	path, _, _ = strings.Cut(path, "?")
	for _, each := range ir.HostsFor(host) {
		routes := l.index.of(fleet, each)
		if len(routes) == 0 {
			continue
		}
		for _, route := range routes {
			if route.Match.Fits(path, header) {
				return route, true
			}
		}
		return ir.Route{}, false // A known host never falls through to a less specific one.
	}
	return ir.Route{}, false
}

// byHost divides Routes by host, in their order.
func byHost(routes []ir.Route) map[ir.Host]ir.Config {
	hosts := map[ir.Host]ir.Config{}
	for _, route := range routes {
		host := route.Match.Host
		hosts[host] = ir.Config{Routes: append(hosts[host].Routes, route)}
	}
	return hosts
}
