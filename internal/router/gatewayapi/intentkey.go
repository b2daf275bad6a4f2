package gatewayapi

import "github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"

// intentKey is a route.Intent without an experiment, managed routes and an error, as a comparable value. Most calls
// have such an Intent, for a route that matched the same Intent in the previous call.
type intentKey struct {
	kind                                       route.Kind
	rollout, uid, namespace                    string
	stable, canary, rule                       string
	hasLabel                                   bool
	label                                      route.Label
	setsWeights, removesManaged                bool
	stableWeight, canaryWeight                 int32
	schemaHasRuleNames, schemaHasMirrorPercent bool
	sessions                                   route.Sessions
	keepsSessions, schemaHasSessions           bool
}

// intentKeyOf returns the intentKey of intent; ok is false if it has none.
func intentKeyOf(intent route.Intent) (key intentKey, ok bool) {
	hasManaged := intent.ManagedRoutes != nil && len(*intent.ManagedRoutes) > 0
	hasExperiment := intent.Weights != nil && len(intent.Weights.Others) > 0
	if hasManaged || hasExperiment || len(intent.GoneOwners) > 0 || intent.SessionsError != nil {
		return intentKey{}, false
	}
	key = intentKey{
		kind: intent.Kind, rollout: intent.Rollout, uid: intent.UID, namespace: intent.Namespace,
		stable: intent.Stable, canary: intent.Canary, rule: intent.RuleName,
		hasLabel: intent.Label != nil, setsWeights: intent.Weights != nil, removesManaged: intent.ManagedRoutes != nil,
		schemaHasRuleNames: intent.HasRuleNames, schemaHasMirrorPercent: intent.HasMirrorPercent,
		sessions: intent.Sessions, keepsSessions: intent.KeepsSessions, schemaHasSessions: intent.HasSessions,
	}
	if intent.Label != nil {
		key.label = *intent.Label
	}
	if intent.Weights != nil {
		key.stableWeight, key.canaryWeight = intent.Weights.Stable, intent.Weights.Canary
	}
	return key, true
}

// isKnownMatch reports whether the route was found to match intent, without a warning. An object is immutable, so it
// still does.
func (o *object) isKnownMatch(intent route.Intent) bool {
	key, ok := intentKeyOf(intent)
	if !ok || o.matched == nil {
		return false
	}
	_, isMatch := o.matched.Load(key)
	return isMatch
}

// rememberMatch records that the route matches intent.
func (o *object) rememberMatch(intent route.Intent) {
	if key, ok := intentKeyOf(intent); ok && o.matched != nil {
		o.matched.Store(key, true)
	}
}
