package desired

import (
	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// unusedPort is the port of an unrouted object. The schema requires one.
const unusedPort = 1

// buildExternal sets the object of a trigger whose requests are those that external proxies report. The object is
// unrouted: the Service, which has the name of the workload, and its port are there because the schema requires them.
func (w *Want) buildExternal(scaled *apis.ScaledObject, managed managedTrigger, where string) {
	parsed, problems := trigger.ParseExternal(managed.trigger.Metadata)
	w.addTriggerProblems(problems, "", where)
	parsed.Port = unusedPort
	w.guess = target(scaled, scaled.Spec.ScaleTargetRef.Name, parsed)
	w.incomplete = &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: w.metadata(scaled, trigger.Accepted(managed.trigger.Metadata, problems)),
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts: []string{httpv1alpha1.UnroutedHost}, ScaleTargetRef: w.guess, Replicas: w.replicas(scaled),
			ScalingMetric: metric(parsed),
		},
	}
	w.incomplete.Annotations[httpv1alpha1.AnnotationRouting] = httpv1alpha1.RoutingNone
	if !w.hasErrors() {
		w.Object = w.incomplete.DeepCopy()
	}
}
