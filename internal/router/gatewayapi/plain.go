package gatewayapi

import "github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"

// plain is an Intent without an experiment and without managed routes, as a value that can be compared. Most calls ask for one, of a route that is as was asked for in the
// call before.
type plain struct {
	kind                                           route.Kind
	rollout, uid, namespace, stable, canary, rule  string
	isLabelled                                     bool
	label                                          route.Label
	weighs, clearsManaged, namedRules, mirrorsPart bool
	stableWeight, canaryWeight                     int32
}

// plainOf is the plain Intent that asked is, if it is one.
func plainOf(asked route.Intent) (of plain, is bool) {
	if asked.Managed != nil && len(*asked.Managed) > 0 || asked.Weights != nil && len(asked.Weights.Others) > 0 || len(asked.Gone) > 0 {
		return plain{}, false
	}
	of = plain{
		kind: asked.Kind, rollout: asked.Rollout, uid: asked.UID, namespace: asked.Namespace, stable: asked.Stable, canary: asked.Canary, rule: asked.RuleName,
		isLabelled: asked.Label != nil, weighs: asked.Weights != nil, clearsManaged: asked.Managed != nil,
		namedRules: asked.NamedRules, mirrorsPart: asked.MirrorPercent,
	}
	if asked.Label != nil {
		of.label = *asked.Label
	}
	if asked.Weights != nil {
		of.stableWeight, of.canaryWeight = asked.Weights.Stable, asked.Weights.Canary
	}
	return of, true
}

// isAs says whether the route was found to be as asked, without a warning. An object never changes, so it still is.
func (o *object) isAs(asked route.Intent) bool {
	of, is := plainOf(asked)
	if !is || o.found == nil {
		return false
	}
	_, found := o.found.Load(of)
	return found
}

// foundAs remembers that the route is as asked.
func (o *object) foundAs(asked route.Intent) {
	if of, is := plainOf(asked); is && o.found != nil {
		o.found.Store(of, true)
	}
}
