package httpso

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
)

// desiredState is the requested state of one object.
type desiredState struct {
	rollout       string // namespace/name, for messages
	kind          kind
	object        types.NamespacedName
	owner         owner // the Rollout, for the owner mark
	split         router.Split
	setsWeights   bool                 // false leaves the weights as they are
	managedRoutes []managedroute.Route // all header and mirror routes
	endsCanary    bool                 // in an abort or a rollback
	stickiness    affinity.Key
	stickinessErr error // the configured stickiness is invalid
}

// backends returns the split in the order of the annotation: stable, canary, others.
func (d desiredState) backends() []split.Backend {
	backends := []split.Backend{split.Backend(d.split.Stable), split.Backend(d.split.Canary)}
	for _, other := range d.split.Others {
		backends = append(backends, split.Backend(other))
	}
	return backends
}

// routingTexts are the texts of the annotations weighted-backends, managed-routes and stickiness. Empty means no
// annotation.
type routingTexts struct {
	weightedBackends, managedRoutes, stickiness string
}

// annotations returns the texts for live.
//
// Without weights, all requests go to the Service in the object's spec, which is normally the stable one. If it is not
// (the Services of a ping-pong Rollout swap after each promotion, or the object names the canary Service), a single
// entry keeps the requests on the stable Service. Managed routes refer to the second entry of the weights as the
// canary, so they need weights, also at 0. Stickiness decides between entries, so it exists together with two of them.
// If the configured one is invalid, that of live stays.
func (d desiredState) annotations(live *object) routingTexts {
	texts := routingTexts{managedRoutes: managedroute.Format(d.managedRoutes), stickiness: affinity.Format(d.stickiness)}
	if d.stickinessErr != nil {
		texts.stickiness = live.stickiness
	}
	stable, canary := d.split.Stable.Service, d.split.Canary.Service
	switch {
	case !d.setsWeights && (texts.managedRoutes == "" || isCanary(live.weightedBackends, canary)):
		texts.weightedBackends = live.weightedBackends
		if !isCanary(live.weightedBackends, canary) {
			texts.stickiness = ""
		}
	case texts.managedRoutes != "" || !d.split.IsStableOnly():
		texts.weightedBackends = split.Format(d.backends())
	case live.service == canary, d.split.PingPong && live.service != stable:
		return routingTexts{weightedBackends: split.Format([]split.Backend{split.Backend(d.split.Stable)})}
	default:
		return routingTexts{}
	}
	return texts
}

// stickinessProblem returns why the weights do not have the configured stickiness; nil for none. In an abort or a
// rollback that does not matter.
func (d desiredState) stickinessProblem() error {
	if d.endsCanary || !d.setsWeights || d.split.IsStableOnly() {
		return nil
	}
	return d.stickinessErr
}

// isCanary reports whether service is the second entry of an annotation weighted-backends, where managed routes expect
// the canary.
func isCanary(weightedBackends, service string) bool {
	backends, err := split.Parse(weightedBackends)
	return err == nil && len(backends) > 1 && backends[1].Service == service
}

// ownerMark returns the annotation weighted-backends-owner for live: this Rollout if there are weights, otherwise none.
// A leftover mark of another Rollout is kept.
func (d desiredState) ownerMark(live *object) string {
	if d.annotations(live).weightedBackends != "" {
		return d.owner.String()
	}
	other, ok := parseOwner(live.owner, live.name.Namespace)
	if ok && other.rollout != d.owner.rollout && !live.hasWeightedBackends {
		return live.owner
	}
	return ""
}

// matches reports whether live has exactly these annotations, byte for byte: the same split in another notation is not
// written by this router.
func (d desiredState) matches(live *object) bool {
	texts := d.annotations(live)
	return live.weightedBackends == texts.weightedBackends && live.hasWeightedBackends == (texts.weightedBackends != "") &&
		live.managedRoutes == texts.managedRoutes && live.hasManagedRoutes == (texts.managedRoutes != "") &&
		live.stickiness == texts.stickiness && live.hasStickiness == (texts.stickiness != "")
}
