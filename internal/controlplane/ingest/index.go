package ingest

import (
	"maps"
	"strings"
	"sync"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// index finds the published Routes by fleet and host. It has one writer. Readers wait at most until the Routes of a
// set of hosts are replaced. Make it with newIndex.
type index struct {
	mu     sync.RWMutex
	routes map[fleetHost][]model.Route // in the order of model.CompareRoutes
}

// fleetHost is a host of one fleet.
type fleetHost struct {
	fleet model.Fleet
	host  model.Host
}

// newIndex returns an empty index.
func newIndex() *index { return &index{routes: map[fleetHost][]model.Route{}} }

// set replaces the Routes of some hosts of a fleet. If isAll is true, all other hosts of the fleet are removed.
func (x *index) set(fleet model.Fleet, hosts map[model.Host]model.Config, isAll bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if isAll {
		maps.DeleteFunc(x.routes, func(at fleetHost, _ []model.Route) bool { return at.fleet == fleet })
	}
	for host, config := range hosts {
		if x.routes[fleetHost{fleet, host}] = config.Routes; len(config.Routes) == 0 {
			delete(x.routes, fleetHost{fleet, host})
		}
	}
}

// get returns the Routes of a host.
func (x *index) get(fleet model.Fleet, host model.Host) []model.Route {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.routes[fleetHost{fleet, host}]
}

// Find returns the published Route that a fleet has for a request, and false if there is none. host is the request's
// Host or :authority. header returns the value of a header by its lower-case name. Find is safe for concurrent use
// and never waits for a pass.
func (l *Loop) Find(
	fleet model.Fleet, host, path string, header func(name string) (value string, present bool),
) (model.Route, bool) {
	path, _, _ = strings.Cut(path, "?")
	for _, candidate := range model.HostsFor(host) {
		routes := l.index.get(fleet, candidate)
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

// configByHost groups Routes by host and keeps their order.
func configByHost(routes []model.Route) map[model.Host]model.Config {
	hosts := map[model.Host]model.Config{}
	for _, route := range routes {
		host := route.Match.Host
		hosts[host] = model.Config{Routes: append(hosts[host].Routes, route)}
	}
	return hosts
}
