package autowire

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// endpointsRetry is how long the agent waits until it reads the EndpointSlices of a Service again. It does not watch them.
const endpointsRetry = 15 * time.Second

// ServicesWithoutSelector returns the names of the Services that an HTTPScaledObject lets the agent take over, and that
// have no selector, sorted. See Namespace.OtherEndpoints.
func (n *Namespace) ServicesWithoutSelector() []string {
	var found []string
	for i := range n.Targets {
		name := n.Targets[i].AutowireService
		service := n.Services[name]
		if service != nil && len(service.Spec.Selector) == 0 && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return slices.Sorted(slices.Values(found))
}

// addSelector returns the change that gives a Service without a selector that of the application, from the Service to
// which the proxies forward. Afterwards it is a Service like others: it works without the agent, and can be restored.
// isComplete is false if nothing else can be planned for the Service in its present state.
func (p *objectPlan) addSelector() (change Change, isComplete bool) {
	if p.object.kind != trigger.AutowireService || len(p.originals) > 0 || coolDownOf(p.object.meta).isPermanent() {
		return Change{}, true
	}
	ref := &p.object.backends[0]
	if len(ref.selection.selector) > 0 {
		return Change{}, true
	}
	targets := p.targetsOf(ref)
	if len(targets) == 0 {
		return Change{}, true
	}
	from := targets[0].forwardService()
	added := p.selectionOf(from, ref.selection)
	if added == nil {
		return Change{}, true // serviceIssue has the message
	}
	completed := *ref
	completed.selection = added
	reason, message := p.serviceBlocker(targets, &completed, false)
	if other := p.OtherEndpoints[ref.service.Name]; reason == "" && other != "" {
		p.requeueIn(endpointsRetry)
		reason, message = httpv1alpha1.ReasonUnsupportedSetting, fmt.Sprintf(
			"it has no selector, and %s, so requests would reach both those endpoints and Service %s; delete it, and the agent "+
				"gives the Service the selector of that one", other, from)
	}
	if reason != "" {
		p.recordOutcome(targets, ref, reason, message)
		return Change{}, false
	}
	p.recordOutcome(targets, ref, httpv1alpha1.ReasonNotProgrammed, "it first gets the selector of Service "+from)
	return Change{
		Patch: ref.replaceWith(&completed), Reason: httpv1alpha1.ReasonSelectorAdded,
		Message: fmt.Sprintf("it has the selector of Service %s, because it had none", from),
	}, false
}

// selectionOf returns the selection that a Service without a selector gets: the selector of another Service and, for ports
// that both have, its targets. It is nil if there is no such selector, or the agent has made it. Argo Rollouts adds a
// label to the selectors of its Services, without which they select the Pods of all versions.
func (p *objectPlan) selectionOf(name string, current *selection) *selection {
	from := p.service(name)
	selector := maps.Clone(from.Spec.Selector)
	delete(selector, rolloutHash)
	if len(selector) == 0 || isManaged(from) {
		return nil
	}
	added := &selection{selector: selector, ports: slices.Clone(current.ports)}
	for i := range added.ports {
		port := &added.ports[i]
		isSame := func(other corev1.ServicePort) bool {
			return other.Port == port.Port || port.Name != "" && other.Name == port.Name
		}
		if at := slices.IndexFunc(from.Spec.Ports, isSame); at >= 0 {
			port.TargetPort = targetOf(from.Spec.Ports[at])
		}
	}
	return added
}

// selectorOperation returns the operation that gives a Service another selector.
func (b *backend) selectorOperation(selector map[string]string) desired.Operation {
	if len(b.selection.selector) == 0 {
		return desired.Operation{Op: "add", Path: selectorField, Value: selector}
	}
	return desired.Operation{Op: "replace", Path: selectorField, Value: selector}
}
