// Package envoyadmin reads the routes and counters of a running Envoy through its admin interface. The parsers have no
// side effects; Client is a thin HTTP layer above them.
package envoyadmin

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The paths of the admin interface.
const (
	// RoutesPath returns the scopes with their routes
	// (https://www.envoyproxy.io/docs/envoy/latest/operations/admin#get--config_dump).
	RoutesPath = "/config_dump?resource=dynamic_scoped_route_configs"
	// DumpPath returns the complete configuration.
	DumpPath = "/config_dump"
)

// ErrDisagree means that the routes of one HTTPScaledObject have different splits: Envoy is between two states, or its
// configuration is wrong.
var ErrDisagree = errors.New("the routes split differently")

// Backend is a cluster of a route with its weight.
type Backend struct {
	Cluster string
	Weight  uint32
}

// Route is a route of a virtual host in a scope. The scope of an exact host has one virtual host; the scope * has those
// of all wildcards.
type Route struct {
	Scope, VirtualHost string
	Backends           []Backend
}

// dump is the relevant part of config_dump. The admin interface uses the field names of the protos
// (envoy.admin.v3.ConfigDump).
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

// action is a route action: one cluster or weighted clusters.
type action struct {
	Cluster  string `json:"cluster"`
	Weighted struct {
		Clusters []struct {
			Name   string `json:"name"`
			Weight uint32 `json:"weight"`
		} `json:"clusters"`
	} `json:"weighted_clusters"`
}

// ParseRoutes parses the response of RoutesPath. It returns the routes to clusters with a name prefix. The only backend
// of a route to a single cluster has weight 1.
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

// Shares are the shares of the backends from 0 to 1, by cluster name. Backends without requests are missing.
type Shares map[string]float64

// Shares returns the shares of a route. A route without weights has none.
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

// tolerance is the maximum difference between two equal shares: less than the smallest weight step, more than any
// rounding.
const tolerance = 1e-6

// Equal reports whether both are the same split.
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

// String implements fmt.Stringer: the last segment of each cluster name with its share in percent, sorted by name.
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

// Split returns the split of the routes, which must be the same for all of them. Without routes it has no shares.
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

// NameLines returns the lines that the guide's
//
//	grep -E '"name": "[^"]*rollouts-demo'
//
// prints for the text, with fragment instead of rollouts-demo.
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
