package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// routes checks the routes of Rollouts that use GatewayRouter.
func routes(cluster *facts.Facts) []Finding {
	if !cluster.HasRead(facts.Routes) {
		return nil
	}
	var findings []Finding
	for _, r := range rolloutsUsing(cluster, facts.GatewayRouter) {
		if r.RoutesError != nil || r.ServicesError != nil {
			continue
		}
		existing := cluster.RoutesOf(r)
		for _, name := range r.RouteNames {
			if _, ok := existing[name]; !ok {
				findings = append(findings, Finding{
					Code: RouteNotFound, Severity: Error, Object: objectName("Rollout", r.Namespace, r.Name),
					Field:   name.Field,
					Message: fmt.Sprintf("%s %q does not exist", name.Kind, name.Name),
					Fix: "create it, or correct its name or namespace in the Rollout; a route in another " +
						"namespace requires the key namespace",
				})
			}
		}
		for name, live := range existing {
			findings = append(findings, checkRoute(cluster, r, name, live)...)
		}
	}
	return findings
}

// checkRoute checks one route of a Rollout.
func checkRoute(cluster *facts.Facts, r *facts.Rollout, name facts.RouteName, live facts.Route) []Finding {
	object := objectName(string(live.Kind), live.Name.Namespace, live.Name.Name)
	_, _, err := route.Apply(live.Content, route.Intent{
		Kind: live.Kind, Rollout: r.Key().String(), UID: string(r.UID), Namespace: r.Namespace, Stable: r.Stable,
		Canary:   r.Canary,
		RuleName: name.RuleName, HasRuleNames: true, HasMirrorPercent: true, Weights: &route.Weights{Stable: 100},
	})
	if err != nil {
		return []Finding{routerError(RouteWithoutRule, object, "spec.rules", err)}
	}
	metadata, _ := live.Content["metadata"].(map[string]any)
	status, _ := live.Content["status"].(map[string]any)
	parents, _ := status["parents"].([]any)
	if len(parents) == 0 {
		return unreported(cluster, object, metadata)
	}
	var findings []Finding
	for i, parent := range parents {
		findings = append(findings, parentConditions(object, fmt.Sprintf("status.parents[%d]", i), parent,
			metadata["generation"])...)
	}
	return findings
}

// unreported reports a route without any Gateway status.
func unreported(cluster *facts.Facts, object string, metadata map[string]any) []Finding {
	text, _ := metadata["creationTimestamp"].(string)
	if created, err := time.Parse(time.RFC3339, text); err != nil || cluster.Now.Sub(created) < gracePeriod {
		return nil
	}
	return []Finding{{
		Code: RouteNotAccepted, Severity: Warning, Object: object, Field: "status.parents",
		Message: "no Gateway has reported a status: weights are verified by the spec only, and may not be applied",
		Fix: "check spec.parentRefs: the Gateway has to exist, have a controller, and allow routes from this " +
			"namespace",
	}}
}

// parentConditions reports the False conditions of a Gateway's controller for the current generation of a route.
// Conditions of an earlier generation are ignored, because they are about to change.
func parentConditions(object, path string, parent, generation any) []Finding {
	report, _ := parent.(map[string]any)
	list, _ := report["conditions"].([]any)
	var findings []Finding
	for _, item := range list {
		condition, _ := item.(map[string]any)
		kind, _ := condition["type"].(string)
		if !slices.Contains([]string{"Accepted", "ResolvedRefs"}, kind) || condition["status"] != "False" ||
			condition["observedGeneration"] != generation {
			continue
		}
		fix := "check spec.parentRefs and the Gateway's listeners: they must allow the namespace, the hostname and " +
			"the kind of the route"
		if kind == "ResolvedRefs" {
			fix = "check spec.rules[].backendRefs: each Service must exist with that port, and a Service in another " +
				"namespace requires a ReferenceGrant"
		}
		findings = append(findings, Finding{
			Code: RouteNotAccepted, Severity: Error, Object: object, Field: path + ".conditions[" + kind + "]",
			Message: strings.TrimSuffix(fmt.Sprintf("%v (%v): %v", report["controllerName"], condition["reason"],
				condition["message"]), ": "),
			Fix: fix,
		})
	}
	return findings
}
