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

// digestBytes is the length of a digest before it is written in hexadecimal: half of SHA-256, which nobody finds a second text for.
const digestBytes = sha256.Size / 2

// Part is what one publication has of one HTTPScaledObject. All objects share one route configuration, the table, so its version says nothing about one of
// them; the Part does.
type Part struct {
	// Routes is a digest of what the table has of the object: its matches, the weights in effect, its clusters and timeouts.
	Routes string
	// Hosts are the names of the virtual hosts that have its routes, sorted. Other objects may have routes there too.
	Hosts []string
	// Clusters are its clusters and load assignments, sorted by name.
	Clusters []PublishedCluster
	// Digest is a digest of Routes and Clusters. It is equal on every replica that publishes the same of the object.
	Digest string
	// AsDesired says that the weights in effect are the desired ones: no share is redirected.
	AsDesired bool
}

// PublishedCluster is the published form of one cluster.
type PublishedCluster struct {
	// Name is the name of the cluster, and of its load assignment.
	Name string
	// Cluster and Assignment are the versions of the two.
	Cluster, Assignment string
}

// PartOf is what a publication has of one object. config is what is published of it, and version returns the published version of a resource, as [Source]
// does. It is the zero Part when nothing is published.
func PartOf(config ir.Config, version func(typeURL, name string) string) Part {
	if len(config.Routes) == 0 {
		return Part{}
	}
	var part Part
	text, asDesired := appendRoutes(nil, config.Routes, config.Services)
	part.Routes, part.Hosts, part.AsDesired = digest(text), hostNames(config.Routes), asDesired
	text = append(text[:0], part.Routes...)
	for _, name := range clusterNames(config.Routes) {
		cluster := PublishedCluster{name, version(resourcev3.ClusterType, name), version(resourcev3.EndpointType, name)}
		part.Clusters = append(part.Clusters, cluster)
		text = appendTexts(text, cluster.Name, cluster.Cluster, cluster.Assignment)
	}
	part.Digest = digest(text)
	return part
}

// appendRoutes appends to text what the table has of an object's routes, which must not depend on where or when it is done, and says whether the weights in
// effect are the desired ones.
func appendRoutes(text []byte, routes []ir.Route, services map[ir.ServicePort]ir.Endpoints) (longer []byte, asDesired bool) {
	asDesired = true
	for _, route := range routes {
		text = appendTexts(text, string(route.Match.Host), route.Match.PathPrefix)
		for _, header := range route.Match.Headers {
			text = strconv.AppendBool(appendTexts(text, header.Name, header.Value), header.Any)
		}
		text = strconv.AppendInt(append(text, ' '), int64(route.Timeouts.ResponseHeader), 10)
		for i, weight := range ir.EffectiveWeights(route.Backends, services) {
			backend := route.Backends[i]
			asDesired = asDesired && weight == backend.Weight
			text = appendTexts(text, backend.Service.Name)
			if len(route.Backends) > 1 { // The table names a single cluster without a weight.
				text = strconv.AppendUint(text, uint64(weight), 10)
			}
		}
		text = append(text, '\n')
	}
	return text, asDesired
}

// appendTexts appends texts so that no other texts look the same.
func appendTexts(text []byte, parts ...string) []byte {
	for _, part := range parts {
		text = strconv.AppendQuote(append(text, ' '), part)
	}
	return text
}

// hostNames lists the virtual hosts of routes, sorted. A virtual host has the name of its host.
func hostNames(routes []ir.Route) []string {
	var names []string
	for _, route := range routes {
		names = append(names, string(route.Match.Host))
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

// digest returns the digest of text.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:digestBytes])
}
