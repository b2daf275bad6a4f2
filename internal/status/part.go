package status

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
	"github.com/kedify/argo-rollouts-plugin/internal/translate"
)

// digestBytes is the length of a digest before it is written in hexadecimal: half of SHA-256, which
// nobody finds a second text for.
const digestBytes = sha256.Size / 2

// Part is what one publication has of one HTTPScaledObject.
type Part struct {
	// Resources are what its requests depend on: the scopes of its hosts, its clusters and their load
	// assignments, sorted. Other objects may have routes in the same scopes.
	Resources []PublishedResource
	// Digest is a digest of Resources. It is equal on every replica that publishes the same.
	Digest string
	// AsDesired says that the weights in effect are the desired ones: no share is redirected.
	AsDesired bool
}

// PublishedResource is a resource in its published version.
type PublishedResource struct {
	// TypeURL and Name name it.
	TypeURL, Name string
	// Version is a hash of its content.
	Version string
}

// PartOf is what a publication has of one object. config is what is published of it, and version
// returns the published version of a resource, as [Source] does. It is the zero Part when nothing
// is published.
func PartOf(config ir.Config, version func(typeURL, name string) string) Part {
	if len(config.Routes) == 0 {
		return Part{}
	}
	part := Part{AsDesired: isAsDesired(config)}
	add := func(typeURL string, names []string) {
		for _, name := range names {
			part.Resources = append(part.Resources, PublishedResource{typeURL, name, version(typeURL, name)})
		}
	}
	clusters := clusterNames(config.Routes)
	add(resourcev3.ClusterType, clusters)
	add(resourcev3.EndpointType, clusters)
	add(resourcev3.ScopedRouteType, scopeNames(config.Routes))
	var text []byte
	for _, resource := range part.Resources {
		for _, each := range []string{resource.TypeURL, resource.Name, resource.Version} {
			text = strconv.AppendQuote(text, each)
		}
	}
	sum := sha256.Sum256(text)
	part.Digest = hex.EncodeToString(sum[:digestBytes])
	return part
}

// isAsDesired says whether the weights in effect are the desired ones.
func isAsDesired(config ir.Config) bool {
	for _, route := range config.Routes {
		for i, weight := range ir.EffectiveWeights(route.Backends, config.Services) {
			if weight != route.Backends[i].Weight {
				return false
			}
		}
	}
	return true
}

// scopeNames lists the scopes of routes, sorted.
func scopeNames(routes []ir.Route) []string {
	names := make([]string, 0, len(routes))
	for _, route := range routes {
		names = append(names, translate.ScopeOf(route.Match.Host))
	}
	slices.Sort(names)
	return slices.Clip(slices.Compact(names))
}

// clusterNames lists the clusters that the routes of an object name, sorted.
func clusterNames(routes []ir.Route) []string {
	var names []string
	for i, route := range routes {
		if i > 0 && slices.Equal(route.Backends, routes[0].Backends) {
			continue // The usual case: an object's routes differ in nothing but their Match.
		}
		for _, backend := range route.Backends {
			names = append(names, translate.ClusterName(route.Owner, backend.Service))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
