// Package envoyadmin reads what a running Envoy says about itself through its
// admin interface: the routes it runs and its counters. The parsing is pure;
// Client is the thin HTTP shell around it.
package envoyadmin

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The paths of the admin interface that are read.
const (
	// RoutesPath asks for the scopes with their routes
	// (https://www.envoyproxy.io/docs/envoy/latest/operations/admin#get--config_dump).
	RoutesPath = "/config_dump?resource=dynamic_scoped_route_configs"
	// DumpPath asks for the whole configuration.
	DumpPath = "/config_dump"
)

// ErrDisagree says that the routes of one HTTPScaledObject don't all split
// alike, so Envoy is between two states or was given a wrong one.
var ErrDisagree = errors.New("the routes split differently")

// Backend is one cluster of a route with its weight.
type Backend struct {
	Cluster string
	Weight  uint32
}

// Route is one route of one virtual host in a scope: the scope of an exact host
// has one virtual host, and the scope * those of all wildcards.
type Route struct {
	Scope, VirtualHost string
	Backends           []Backend
}

// dump is the part of config_dump that is looked at. The admin interface
// writes the field names of the protos (envoy.admin.v3.ConfigDump).
type dump struct {
	Configs []struct {
		Scopes []struct {
			Name   string `json:"name"`
			Routes struct {
				VirtualHosts []struct {
					Name   string `json:"name"`
					Routes []struct {
						Route action `json:"route"`
					} `json:"routes"`
				} `json:"virtual_hosts"`
			} `json:"route_configuration"`
		} `json:"scoped_route_configs"`
	} `json:"configs"`
}

// action is a route action: one cluster, or weighted ones.
type action struct {
	Cluster  string `json:"cluster"`
	Weighted struct {
		Clusters []struct {
			Name   string `json:"name"`
			Weight uint32 `json:"weight"`
		} `json:"clusters"`
	} `json:"weighted_clusters"`
}

// ParseRoutes reads the answer to RoutesPath and keeps the routes that lead to
// a cluster whose name begins with prefix. A route to a single cluster has it
// as its only backend, with weight 1.
func ParseRoutes(text []byte, prefix string) ([]Route, error) {
	var d dump
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("read Envoy's scopes: %w", err)
	}
	var routes []Route
	for _, config := range d.Configs {
		for _, scope := range config.Scopes {
			for _, host := range scope.Routes.VirtualHosts {
				for _, route := range host.Routes {
					backends := route.Route.backends()
					if slices.ContainsFunc(backends, func(b Backend) bool { return strings.HasPrefix(b.Cluster, prefix) }) {
						routes = append(routes, Route{Scope: scope.Name, VirtualHost: host.Name, Backends: backends})
					}
				}
			}
		}
	}
	return routes, nil
}

func (a action) backends() []Backend {
	if a.Cluster != "" {
		return []Backend{{Cluster: a.Cluster, Weight: 1}}
	}
	var backends []Backend
	for _, c := range a.Weighted.Clusters {
		backends = append(backends, Backend{Cluster: c.Name, Weight: c.Weight})
	}
	return backends
}

// Shares are the shares of the backends by cluster name, from 0 to 1. Backends
// that get nothing are left out.
type Shares map[string]float64

// Shares sums up a route. A route without any weight has no shares.
func (r Route) Shares() Shares {
	var total float64
	for _, b := range r.Backends {
		total += float64(b.Weight)
	}
	shares := Shares{}
	for _, b := range r.Backends {
		if b.Weight > 0 {
			shares[b.Cluster] += float64(b.Weight) / total
		}
	}
	return shares
}

// tolerance is by how much two equal shares may differ: less than the smallest
// weight step, more than any rounding.
const tolerance = 1e-6

// Equal says whether both stand for the same split.
func (s Shares) Equal(other Shares) bool {
	if len(s) != len(other) {
		return false
	}
	for cluster, share := range s {
		if o, ok := other[cluster]; !ok || share-o > tolerance || o-share > tolerance {
			return false
		}
	}
	return true
}

// String implements fmt.Stringer: the last part of each cluster's name with
// its share in percent, by name.
func (s Shares) String() string {
	if len(s) == 0 {
		return "no route"
	}
	var parts []string
	for cluster, share := range s {
		parts = append(parts, fmt.Sprintf("%s %.4g %%", cluster[strings.LastIndex(cluster, "/")+1:], share*100))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// Split is the split that all the routes agree on. No routes have no shares.
func Split(routes []Route) (Shares, error) {
	if len(routes) == 0 {
		return Shares{}, nil
	}
	first := routes[0].Shares()
	for _, route := range routes[1:] {
		if shares := route.Shares(); !first.Equal(shares) {
			return nil, fmt.Errorf("%w: %s in virtual host %s, %s in %s",
				ErrDisagree, first, routes[0].VirtualHost, shares, route.VirtualHost)
		}
	}
	return first, nil
}

// NameLines are the lines that the guide's
//
//	grep -E '"name": "[^"]*rollouts-demo'
//
// would print for the given text, with fragment in place of rollouts-demo.
func NameLines(text, fragment string) []string {
	pattern := regexp.MustCompile(`"name": "[^"]*` + regexp.QuoteMeta(fragment))
	var lines []string
	for line := range strings.Lines(text) {
		if pattern.MatchString(line) {
			lines = append(lines, strings.TrimRight(line, "\r\n"))
		}
	}
	return lines
}
