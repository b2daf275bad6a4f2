package autowire

import (
	"fmt"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// unmanaged returns why the agent must not rewrite a backend: something else splits its traffic. That is another
// router, or a rule with weights of which other backends belong to a target as well. The proxies select routes by
// the request's attributes, and would not keep the rule's weights.
func (p *objectPlan) unmanaged(original *backend, all []backend) (reason, message string) {
	if p.object.router != "" {
		return httpv1alpha1.ReasonManagedByTrafficRouter, p.object.router
	}
	for i := range all {
		other := &all[i]
		sharesRule := original.rule != "" && other.rule == original.rule && other.service != original.service
		switch {
		case sharesRule && other.isProxy():
			return httpv1alpha1.ReasonUnsupportedSetting,
				"its rule also has a backend that the agent did not write, Service " + ProxyService
		case sharesRule && len(p.targetsOf(other)) > 0:
			return httpv1alpha1.ReasonUnsupportedSetting, fmt.Sprintf("its rule also splits traffic to Service %s "+
				"of another trigger; the proxies would not keep its weights", other.service.Name)
		}
	}
	return "", ""
}
