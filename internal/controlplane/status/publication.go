package status

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Publication is the published configuration of one HTTPScaledObject. The zero value means that nothing is published.
type Publication struct {
	// Fleet is the fleet that the object is published to.
	Fleet model.Fleet
	// Routes are the routes of the object. Its xDS resources follow from them.
	Routes []model.Route
	// Digest is a digest of the model of the object, "" if nothing is published. It covers the model and not the Envoy
	// resources, so it is equal on replicas of two releases that translate the model differently.
	Digest string
	// AsDesired means that the effective weights, header routes and mirror routes are the desired ones: no weight is
	// redirected.
	AsDesired bool
}

// Versions returns the version, a hash of the content, of a resource that is published to a fleet, by type URL and
// name. It is "" for a resource that isn't published.
type Versions func(fleet model.Fleet, typeURL, name string) string

// PublicationOf returns the publication of one object, given its part of the model.
func PublicationOf(config model.Config) Publication {
	if len(config.Routes) == 0 {
		return Publication{}
	}
	return Publication{
		Fleet: config.Routes[0].Fleet, Routes: config.Routes, Digest: digestOf(config), AsDesired: isAsDesired(config),
	}
}

// isSame reports whether other has an equal digest and the same slice of routes: the object was not published again.
func (p Publication) isSame(other Publication) bool {
	return p.Digest == other.Digest && len(p.Routes) == len(other.Routes) &&
		(len(p.Routes) == 0 || &p.Routes[0] == &other.Routes[0])
}

// digestOf returns the digest of a part of the model. It is a digest of its JSON, which includes every field.
func digestOf(config model.Config) string {
	text, err := json.Marshal(config)
	if err != nil { // No type in the model fails to marshal. If one ever does, its value is still part of the digest.
		text = fmt.Append(nil, config)
	}
	sum := sha256.Sum256(text)
	return string(sum[:peers.DigestBytes])
}

// isAsDesired reports whether the effective weights, header routes and mirror routes are the desired ones.
func isAsDesired(config model.Config) bool {
	for _, route := range config.Routes {
		if len(model.EffectiveManagedRoutes(route, config.Services)) != len(route.Managed) {
			return false
		}
		for i, weight := range model.EffectiveWeights(route.Backends, config.Services) {
			if weight != route.Backends[i].Weight {
				return false
			}
		}
	}
	return true
}

// scopes returns the scopes of the object's hosts. Other objects may have routes in the same scopes.
func (p Publication) scopes() []scope {
	var scopes []scope
	for _, route := range p.Routes {
		if s := (scope{p.Fleet, translate.ScopeOf(route.Match.Host)}); !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	return scopes
}

// clusters returns the names of the object's clusters, which are also the names of their ClusterLoadAssignments.
func (p Publication) clusters() []string {
	var names []string
	for i, route := range p.Routes {
		if i > 0 && route.SameDestinations(p.Routes[0]) {
			continue // The usual case: an object's routes differ only in their Match.
		}
		for _, backend := range route.Backends {
			names = append(names, translate.ClusterName(route.Owner, backend.Service))
			if route.HasUncountedRequests() {
				names = append(names, translate.UncountedName(route.Owner, backend.Service))
			}
		}
		if route.HasMirrorRoute() {
			names = append(names, translate.MirrorName(route.Owner, route.Canary().Service))
		}
		if route.Failover != nil {
			names = append(names, translate.FailoverName(route.Owner, route.Failover.Service))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
