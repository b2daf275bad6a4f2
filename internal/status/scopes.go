package status

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// scopes are what is published of each object, and the objects by the scopes that have their
// routes. Objects that share a host, and all that have wildcards, share a scope: when it changes
// for one of them, its version is another one for all.
type scopes struct {
	inForce map[ir.Key]ir.Config
	sharers map[string][]ir.Key
}

// newScopes returns scopes of no objects.
func newScopes() scopes {
	return scopes{inForce: map[ir.Key]ir.Config{}, sharers: map[string][]ir.Key{}}
}

// follow takes note of what is new, and returns what is published of the objects that are
// concerned: those, and those that share a scope with one of them.
func (s scopes) follow(objects map[ir.Key]Object) map[ir.Key]ir.Config {
	touched := map[string]struct{}{}
	for key, object := range objects {
		for _, name := range scopeNames(s.inForce[key].Routes) {
			touched[name] = struct{}{}
			s.sharers[name] = slices.DeleteFunc(s.sharers[name], func(other ir.Key) bool { return other == key })
		}
		delete(s.inForce, key)
		if len(object.InForce.Routes) == 0 {
			continue
		}
		s.inForce[key] = object.InForce
		for _, name := range scopeNames(object.InForce.Routes) {
			touched[name] = struct{}{}
			s.sharers[name] = append(s.sharers[name], key)
		}
	}
	concerned := make(map[ir.Key]ir.Config, len(objects))
	for key := range objects {
		concerned[key] = s.inForce[key]
	}
	for name := range touched {
		for _, key := range s.sharers[name] {
			concerned[key] = s.inForce[key]
		}
		if len(s.sharers[name]) == 0 {
			delete(s.sharers, name)
		}
	}
	return concerned
}
