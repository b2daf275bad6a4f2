package autowire

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// maxMessage is the longest message of a condition, in bytes; the schema of metav1.Condition allows 32768.
const maxMessage = 4096

// outcome is the result for one backend.
type outcome struct{ reason, message string }

// isBlocking reports whether the result keeps the target from being wired. A backend that another router manages
// does not affect the target's other backends.
func (o outcome) isBlocking() bool {
	return o.reason != httpv1alpha1.ReasonWired && o.reason != httpv1alpha1.ReasonManagedByTrafficRouter
}

// outcomes are the results for the backends of each target, by target name.
type outcomes map[string][]outcome

// recordOutcome records the result for a backend for each of its targets.
func (p *objectPlan) recordOutcome(targets []*Target, ref *backend, reason, message string) {
	where := p.object.String() + ", " + ref.label
	switch {
	case message != "":
		where += ": " + message
	case p.object.kind == trigger.AutowireService:
		where += p.object.hostHint(targets)
	case !slices.ContainsFunc(targets, func(t *Target) bool { return t.matchesAll(ref.received) }):
		where += " (requests that match no trigger get status 404)"
	}
	for _, target := range targets {
		p.results[target.Name] = append(p.results[target.Name], outcome{reason, where})
	}
}

// recordForAll records the same result for every backend of a target in the object.
func (p *objectPlan) recordForAll(reason, message string) {
	for i := range p.object.backends {
		ref := &p.object.backends[i]
		p.recordOutcome(p.targetsOf(ref), ref, reason, message)
	}
}

// condition returns condition Autowired of a target. It is True if all backends of the target are wired. Otherwise
// it has the reason of the first result that blocks one. unlisted is Namespace.Unlisted.
func (o outcomes) condition(target Target, unlisted map[trigger.AutowireKind]string) metav1.Condition {
	condition := metav1.Condition{Type: httpv1alpha1.ConditionAutowired, Status: metav1.ConditionFalse}
	results := o[target.Name]
	switch {
	case target.Unsupported != "":
		condition.Reason, condition.Message = httpv1alpha1.ReasonUnsupportedSetting, target.Unsupported+
			"; point the backends at Service "+ProxyService+` manually, or set trafficAutowire: "false"`
		return condition
	case len(results) == 0 && len(target.Hosts) == 0:
		condition.Reason = httpv1alpha1.ReasonNoMatchingBackend
		condition.Message = "the HTTPScaledObject has no valid host, so the proxies route no request to it; see its " +
			"condition " + httpv1alpha1.ConditionAccepted
		return condition
	case len(results) == 0 && target.problemOf(unlisted) != "":
		condition.Reason = httpv1alpha1.ReasonPermissionMissing
		condition.Message = truncate.Text(target.problemOf(unlisted), maxMessage)
		return condition
	case len(results) == 0 && slices.Equal(target.Kinds, []trigger.AutowireKind{trigger.AutowireService}):
		condition.Reason = httpv1alpha1.ReasonNoMatchingBackend
		condition.Message = "Service " + target.AutowireService + ", which clients call, does not exist"
		return condition
	case len(results) == 0:
		condition.Reason = httpv1alpha1.ReasonNoMatchingBackend
		condition.Message = "no " + target.describeKinds() + " has a backend with Service " + target.Service +
			", the trigger's port, and a host and path of the trigger"
		return condition
	}
	condition.Reason, condition.Status = httpv1alpha1.ReasonWired, metav1.ConditionTrue
	if at := slices.IndexFunc(results, outcome.isBlocking); at >= 0 {
		condition.Reason, condition.Status = results[at].reason, metav1.ConditionFalse
		results = slices.DeleteFunc(slices.Clone(results), func(o outcome) bool { return o.reason != condition.Reason })
	} else if !slices.ContainsFunc(results, func(o outcome) bool { return o.reason == condition.Reason }) {
		condition.Reason, condition.Status = httpv1alpha1.ReasonManagedByTrafficRouter, metav1.ConditionFalse
	}
	var parts []string
	for _, result := range results {
		parts = append(parts, result.message)
	}
	condition.Message = truncate.Text(strings.Join(parts, "; "), maxMessage)
	return condition
}
