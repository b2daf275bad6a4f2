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

// Publication is what is published of one HTTPScaledObject. The zero value is nothing.
type Publication struct {
	// Fleet is the fleet that it is published to.
	Fleet model.Fleet
	// Routes are its routes. They say which resources it has.
	Routes []model.Route
	// Digest is a digest of the model of the object, "" when nothing is published. It says what the
	// object asks for and not how Envoy is told, so that it is equal on replicas that translate it
	// otherwise.
	Digest string
	// AsDesired says that the weights, and the header and mirror routes, in effect are the desired ones: no share is redirected.
	AsDesired bool
}

// Versions returns the version of a resource that is published to a fleet, by its type URL and name, ""
// when it is not. It is a hash of the content.
type Versions func(fleet model.Fleet, typeURL, name string) string

// PublicationOf is what is published of one object, given the part of the model that it has.
func PublicationOf(config model.Config) Publication {
	if len(config.Routes) == 0 {
		return Publication{}
	}
	return Publication{
		Fleet: config.Routes[0].Fleet, Routes: config.Routes, Digest: digestOf(config), AsDesired: isAsDesired(config),
	}
}

// isSame says whether nothing was published anew.
func (p Publication) isSame(other Publication) bool {
	return p.Digest == other.Digest && len(p.Routes) == len(other.Routes) && (len(p.Routes) == 0 || &p.Routes[0] == &other.Routes[0])
}

// digestOf is the digest of a part of the model. It is one of JSON, in which no field of the model can
// be forgotten.
func digestOf(config model.Config) string {
	text, err := json.Marshal(config)
	if err != nil { // No type in the model can fail; if one ever does, its value still counts.
		text = fmt.Append(nil, config)
	}
	sum := sha256.Sum256(text)
	return string(sum[:peers.DigestBytes])
}

// isAsDesired says whether the weights, and the header and mirror routes, in effect are the desired ones.
func isAsDesired(config model.Config) bool {
	for _, route := range config.Routes {
		if len(model.EffectiveManaged(route, config.Services)) != len(route.Managed) {
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

// scopes lists the scopes of its hosts. Other objects may have routes in them.
func (p Publication) scopes() []scope {
	var scopes []scope
	for _, route := range p.Routes {
		if at := (scope{p.Fleet, translate.ScopeOf(route.Match.Host)}); !slices.Contains(scopes, at) {
			scopes = append(scopes, at)
		}
	}
	return scopes
}

// clusters lists the names of its clusters, which are those of their load assignments too.
func (p Publication) clusters() []string {
	var names []string
	for i, route := range p.Routes {
		if i > 0 && route.SharesDestinations(p.Routes[0]) {
			continue // The usual case: an object's routes differ in nothing but their Match.
		}
		for _, backend := range route.Backends {
			names = append(names, translate.ClusterName(route.Owner, backend.Service))
		}
		if route.Mirrors() {
			names = append(names, translate.MirrorName(route.Owner, route.Canary().Service))
		}
		if route.Failover != nil {
			names = append(names, translate.FailoverName(route.Owner, route.Failover.Service))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
