package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

const (
	// trafficField is the field of a Rollout with its routers, pluginsOf the field with the plugins among them.
	trafficField = "spec.strategy.canary.trafficRouting"
	pluginsOf    = trafficField + ".plugins"
)

// rollouts checks the configuration of Rollouts and the Services that they reference.
func rollouts(cluster *facts.Facts) []Finding {
	var findings []Finding
	for i := range cluster.Rollouts {
		r := &cluster.Rollouts[i]
		if r.Spec.Strategy.Canary == nil || r.Spec.Strategy.Canary.TrafficRouting == nil {
			continue
		}
		findings = append(findings, routerNames(r)...)
		if !r.Uses(facts.HTTPRouter) && !r.Uses(facts.GatewayRouter) {
			continue
		}
		ofSpec := routerConfig(r)
		if r.ServicesError == nil {
			ofSpec = append(ofSpec, servicesOf(cluster, r)...)
		}
		if !HasError(ofSpec) {
			ofSpec = append(ofSpec, invalidSpec(r)...)
		}
		findings = append(findings, ofSpec...)
	}
	return findings
}

// routerNames reports names that are similar to our routers, and trafficRouting without any router.
func routerNames(r *facts.Rollout) []Finding {
	object := objectName("Rollout", r.Namespace, r.Name)
	var findings []Finding
	for _, name := range r.RouterNames() {
		if meant := intendedRouter(name); meant != "" && meant != name {
			findings = append(findings, Finding{
				Code: RouterNameWrong, Severity: Error, Object: object, Field: fmt.Sprintf("%s[%q]", pluginsOf, name),
				Message: fmt.Sprintf("unknown plugin %q: the name must be exactly %q", name, meant),
				Fix:     "rename it to " + meant,
			})
		}
	}
	if hasRouter(r.Spec.Strategy.Canary.TrafficRouting) {
		return findings
	}
	finding := Finding{
		Code: RouterMissing, Severity: Error, Object: object, Field: trafficField,
		Message: "no router is configured, so the steps change no weight: the canary gets no request until it is promoted",
		Fix: "add a router: " + pluginsOf + "." + facts.HTTPRouter + ": {httpScaledObjectName: ...} or ." +
			facts.GatewayRouter + ": {httpRoute: ...}",
	}
	if field := droppedField(r); field != "" {
		finding.Field = trafficField + "." + field
		finding.Message = "Rollouts have no such field, so the API server dropped it: " + finding.Message
		finding.Fix = fmt.Sprintf("move it one level down: %s[%q]", pluginsOf, intendedRouter(field))
	}
	return append(findings, finding)
}

// intendedRouter returns the router that a name probably means; empty if it is none of ours.
func intendedRouter(name string) string {
	plain := strings.ToLower(strings.NewReplacer("-", "", "_", "", "/", "", ".", "", " ", "").Replace(name))
	switch {
	case strings.HasPrefix(plain, "kedify"):
		return facts.HTTPRouter
	case strings.Contains(plain, "gatewayapi"):
		return facts.GatewayRouter
	}
	return ""
}

// hasRouter reports whether any router is configured.
func hasRouter(routing *v1alpha1.RolloutTrafficRouting) bool {
	return len(routing.Plugins) > 0 || routing.ALB != nil || routing.Ambassador != nil || routing.AppMesh != nil ||
		routing.Apisix != nil ||
		routing.Istio != nil || routing.Nginx != nil || routing.SMI != nil || routing.Traefik != nil
}

// droppedField returns a field next to plugins in the last applied configuration that means one of our routers. The
// schema of Rollouts has no such field.
func droppedField(r *facts.Rollout) string {
	var given struct {
		Spec struct {
			Strategy struct {
				Canary struct {
					TrafficRouting map[string]json.RawMessage `json:"trafficRouting"`
				} `json:"canary"`
			} `json:"strategy"`
		} `json:"spec"`
	}
	if json.Unmarshal([]byte(r.Annotations[corev1.LastAppliedConfigAnnotation]), &given) != nil {
		return ""
	}
	for field := range given.Spec.Strategy.Canary.TrafficRouting {
		if intendedRouter(field) != "" {
			return field
		}
	}
	return ""
}

// routerConfig reports the errors of the routers about their configuration in the Rollout.
func routerConfig(r *facts.Rollout) []Finding {
	object := objectName("Rollout", r.Namespace, r.Name)
	var findings []Finding
	for router, err := range map[string]error{facts.HTTPRouter: r.ObjectError, facts.GatewayRouter: r.RoutesError} {
		if err != nil {
			field := fmt.Sprintf("%s[%q]", pluginsOf, router)
			findings = append(findings, routerError(RouterConfig, object, field, err))
		}
	}
	if r.ServicesError != nil {
		findings = append(findings, routerError(RolloutServices, object, "spec.strategy.canary", r.ServicesError))
	} else if r.Stable == r.Canary {
		findings = append(findings, Finding{
			Code: RolloutServices, Severity: Error, Object: object, Field: "spec.strategy.canary.canaryService",
			Message: fmt.Sprintf("the stable and the canary Service are both %q, so requests cannot be split",
				r.Stable),
			Fix: "create a second Service with the same ports and reference it",
		})
	}
	return findings
}

// routerError returns a finding for an error of a router. The text after the last ": <verb> " is the fix.
func routerError(code Code, object, field string, err error) Finding {
	message, fix := err.Error(), "see docs/reference/errors.md for each message"
	for _, verb := range []string{"add", "correct", "give", "keep", "name", "remove", "rename", "write"} {
		if at := strings.LastIndex(message, ": "+verb+" "); at > 0 {
			message, fix = message[:at], message[at+2:]
		}
	}
	return Finding{Code: code, Severity: Error, Object: object, Field: field, Message: message, Fix: fix}
}

// servicesOf checks the Services of a Rollout and their endpoints.
func servicesOf(cluster *facts.Facts, r *facts.Rollout) []Finding {
	if !cluster.HasRead(facts.Services) || r.Stable == r.Canary {
		return nil
	}
	object := objectName("Rollout", r.Namespace, r.Name)
	var findings []Finding
	for field, name := range map[string]string{"stableService": r.Stable, "canaryService": r.Canary} {
		if cluster.Service(r.Namespace, name) == nil {
			findings = append(findings, Finding{
				Code: ServiceNotFound, Severity: Error, Object: object, Field: "spec.strategy.canary." + field,
				Message: fmt.Sprintf("Service %q does not exist in namespace %q", name, r.Namespace),
				Fix:     "create it, or correct the name",
			})
		}
	}
	if len(findings) > 0 || !cluster.HasRead(facts.EndpointSlices) {
		return findings
	}
	return endpoints(cluster, r)
}

// endpoints reports Services with traffic but without a ready endpoint. It ignores a Rollout that is scaled to zero,
// whose first Pods are starting, or whose spec has just changed.
func endpoints(cluster *facts.Facts, r *facts.Rollout) []Finding {
	if !isObserved(r) {
		return nil
	}
	var findings []Finding
	expected := r.Status.AvailableReplicas > 0 ||
		r.Status.Phase != v1alpha1.RolloutPhaseProgressing && r.Status.Phase != "" &&
			(r.Spec.Replicas == nil || *r.Spec.Replicas > 0)
	stable, canary := int32(100), int32(0)
	if weights := r.Status.Canary.Weights; weights != nil {
		stable, canary = weights.Stable.Weight, weights.Canary.Weight
	}
	if expected && stable > 0 && cluster.ReadyOf(r.Namespace, r.Stable) == 0 {
		findings = append(findings, Finding{
			Code: NoStableEndpoint, Severity: Error, Object: objectName("Service", r.Namespace, r.Stable),
			Message: fmt.Sprintf("the stable Service of Rollout %s has no ready endpoint, but gets %d %% of the "+
				"requests", r.Name, stable),
			Fix: fmt.Sprintf("compare its selector with the labels of the Pods, and check their readiness: "+
				"kubectl -n %s get endpointslices -l kubernetes.io/service-name=%s", r.Namespace, r.Stable),
		})
	}
	if canary > 0 && cluster.ReadyOf(r.Namespace, r.Canary) == 0 {
		findings = append(findings, Finding{
			Code: NoCanaryEndpoint, Severity: Error, Object: objectName("Service", r.Namespace, r.Canary),
			Message: fmt.Sprintf("the canary Service of Rollout %s has no ready endpoint, but should get %d %% of "+
				"the requests", r.Name, canary),
			Fix: fmt.Sprintf("check the Pods of the canary, and why they are not ready: kubectl -n %s get pods",
				r.Namespace),
		})
	}
	return findings
}

// rolloutsUsing returns the Rollouts that use a router.
func rolloutsUsing(cluster *facts.Facts, router string) []*facts.Rollout {
	var all []*facts.Rollout
	for i := range cluster.Rollouts {
		if r := &cluster.Rollouts[i]; slices.Contains(r.RouterNames(), router) {
			all = append(all, r)
		}
	}
	return all
}
