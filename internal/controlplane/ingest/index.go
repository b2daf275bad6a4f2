package ingest

import (
	"maps"
	"strings"
	"sync"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// index finds the Routes that are in force by fleet and host. One writes, and readers wait for no more
// than that hosts are replaced. Make it with newIndex.
type index struct {
	mu    sync.RWMutex
	sites map[site][]model.Route // in the order of ir.CompareRoutes
}

// site is a host in one fleet.
type site struct {
	fleet model.Fleet
	host  model.Host
}

// newIndex returns an index without Routes.
func newIndex() *index { return &index{sites: map[site][]model.Route{}} }

// put replaces the Routes of hosts of a fleet. isAll says that it has no other hosts.
func (x *index) put(fleet model.Fleet, hosts map[model.Host]model.Config, isAll bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if isAll {
		maps.DeleteFunc(x.sites, func(at site, _ []model.Route) bool { return at.fleet == fleet })
	}
	for host, config := range hosts {
		if x.sites[site{fleet, host}] = config.Routes; len(config.Routes) == 0 {
			delete(x.sites, site{fleet, host})
		}
	}
}

// of returns the Routes of a host.
func (x *index) of(fleet model.Fleet, host model.Host) []model.Route {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.sites[site{fleet, host}]
}

// Find returns the Route in force that a fleet has for a request, and false when nobody serves it.
// host is the request's Host or :authority, and header looks a header up, by its name in lower case.
// It may be called at any time from anywhere, and never waits for a pass.
func (l *Loop) Find(
	fleet model.Fleet, host, path string, header func(name string) (value string, present bool),
) (model.Route, bool) {
	path, _, _ = strings.Cut(path, "?")
	for _, each := range model.HostsFor(host) {
		routes := l.index.of(fleet, each)
		if len(routes) == 0 {
			continue
		}
		for _, route := range routes {
			if route.Match.Matches(path, header) {
				return route, true
			}
		}
		return model.Route{}, false // A known host never falls through to a less specific one.
	}
	return model.Route{}, false
}

// byHost divides Routes by host, in their order.
func byHost(routes []model.Route) map[model.Host]model.Config {
	hosts := map[model.Host]model.Config{}
	for _, route := range routes {
		host := route.Match.Host
		hosts[host] = model.Config{Routes: append(hosts[host].Routes, route)}
	}
	return hosts
}
