package desired

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// fallbackSuffix follows the name of a Service in that of its fallback Service, unless the trigger has another one.
const fallbackSuffix = "-fallback"

// forwarding is where the proxies forward the requests of a Service that autowiring takes over. The zero value means that
// no Service is taken over.
type forwarding struct {
	// from is the Service that clients call, and to the one that selects the application's Pods.
	from, to string
}

// forwarding returns the Services of a trigger with kind service. The proxies forward to the Rollout's stable Service, or
// to the trigger's fallbackService. With an invalid one, from is empty and no Service is taken over.
func (w *Want) forwarding(
	scaled *apis.ScaledObject, rollout *apis.Rollout, parsed trigger.Trigger, where string,
) forwarding {
	from, stable := parsed.Service, stableService(scaled, rollout)
	problem := func(key, format string, values ...any) forwarding {
		w.addProblem(httpv1alpha1.ReasonInvalidTrigger, false, "%s.metadata.%s: %s", where, key, fmt.Sprintf(format, values...))
		return forwarding{to: from}
	}
	if from == "" {
		return problem(trigger.KeyService, "required with %s: %s; name the Service that clients call",
			trigger.KeyTrafficAutowire, trigger.AutowireService)
	}
	if scaled.TargetsRollout() && rollout != nil && slices.Contains(rollout.ManagedServices(), from) {
		return problem(trigger.KeyService, "%q is a Service of Rollout %q, whose controller writes its selector; name "+
			"another one, which clients call and which selects the Pods of all versions", from, rollout.Name)
	}
	to := parsed.FallbackService
	switch {
	case stable != "" && to != "" && to != stable:
		w.addProblem(httpv1alpha1.ReasonKeyIgnored, true, "%s.metadata.%s: %q is ignored, because the proxies forward to the "+
			"stable Service %q of Rollout %q; remove it", where, trigger.KeyFallbackService, to, stable, rollout.Name)
		to = stable
	case stable != "":
		to = stable
	case to == "":
		to = from + fallbackSuffix
	}
	if to == from {
		return problem(trigger.KeyFallbackService, "%q is the Service that clients call, so the proxies would send "+
			"requests to themselves; name another one, which the agent creates if it does not exist", to)
	}
	if wrong := validation.IsDNS1123Label(to); len(wrong) > 0 {
		return problem(trigger.KeyFallbackService, "%q is no name of a Service (%s); set a shorter one", to, wrong[0])
	}
	return forwarding{from, to}
}

// annotate adds the Services to the annotations of an HTTPScaledObject.
func (f forwarding) annotate(annotations map[string]string) map[string]string {
	if f.from != "" {
		annotations[httpv1alpha1.AnnotationAutowireService] = f.from
		annotations[httpv1alpha1.AnnotationFallbackService] = f.to
	}
	return annotations
}

// Service is the state of a Service to which an HTTPScaledObject may forward.
type Service struct {
	// IsTakenOver reports whether it selects the proxies, or still has their endpoints.
	IsTakenOver bool
	// HasEndpoints reports whether it exists and has EndpointSlices, possibly empty ones.
	HasEndpoints bool
}

// Forwards returns the names of the Services on whose states KeepForwarding depends, without duplicates.
func (c *Changes) Forwards(existing []*httpv1alpha1.HTTPScaledObject) []string {
	var names []string
	for _, want := range slices.Concat(c.Create, c.Update, existing) {
		for _, name := range []string{
			want.Spec.ScaleTargetRef.Service, want.Annotations[httpv1alpha1.AnnotationAutowireService],
		} {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// KeepForwarding delays changes of the Service to which the proxies forward, so that they never send requests to
// themselves or to a Service without endpoints. A Service that is taken over is no destination: an existing object keeps
// its own until the Service is restored, and a new one is not created before. A fallback Service is none until it has
// EndpointSlices. isPending reports whether a change is delayed.
func (c *Changes) KeepForwarding(
	existing []*httpv1alpha1.HTTPScaledObject, services map[string]Service,
) (isPending bool) {
	current := func(name string) *httpv1alpha1.HTTPScaledObject {
		at := slices.IndexFunc(existing, func(object *httpv1alpha1.HTTPScaledObject) bool { return object.Name == name })
		if at < 0 {
			return nil
		}
		return existing[at]
	}
	keep := func(objects []*httpv1alpha1.HTTPScaledObject) (kept []*httpv1alpha1.HTTPScaledObject) {
		for _, want := range objects {
			before, wanted := current(want.Name), want.Spec.ScaleTargetRef.Service
			service, isKnown := destination(want, before, services)
			if isPending = isPending || service != wanted || !isKnown; !isKnown {
				delete(c.Conditions, want.Name)
				continue
			}
			want.Spec.ScaleTargetRef.Service = service
			if before == nil || differs(before, want) {
				kept = append(kept, want)
			}
		}
		return kept
	}
	c.Create, c.Update = keep(c.Create), keep(c.Update)
	return isPending
}

// destination returns the Service to which the proxies forward for an object now. current is the existing one, or nil.
// isKnown is false if there is none.
func destination(
	want, current *httpv1alpha1.HTTPScaledObject, services map[string]Service,
) (service string, isKnown bool) {
	wanted, from := want.Spec.ScaleTargetRef.Service, want.Annotations[httpv1alpha1.AnnotationAutowireService]
	isReady := !services[wanted].IsTakenOver && (from == "" || services[wanted].HasEndpoints)
	switch {
	case isReady:
		return wanted, true
	case current != nil && !services[current.Spec.ScaleTargetRef.Service].IsTakenOver:
		return current.Spec.ScaleTargetRef.Service, true
	case from != "" && !services[from].IsTakenOver:
		return from, true
	case from != "": // the application has no other Service
		return wanted, true
	}
	return "", false
}
