package autowire

import httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"

// unreadableBlocker returns why a backend that is not wired must wait: the objects that decide how the controller of the
// object uses Services cannot be read.
func (p *objectPlan) unreadableBlocker(ref *backend) (reason, message string) {
	problem := p.Unreadable[p.object.kind]
	if problem == "" || ref.isProxy() {
		return "", ""
	}
	return httpv1alpha1.ReasonPermissionMissing, problem
}

// isUndecided reports whether a backend references the proxies, and the objects that decide how the controller of the
// object uses Services cannot be read. It stays until they can.
func (p *objectPlan) isUndecided(ref *backend, targets []*Target) bool {
	return p.Unreadable[p.object.kind] != "" && ref.isProxy() && p.isInFleet(ref, targets[0])
}
