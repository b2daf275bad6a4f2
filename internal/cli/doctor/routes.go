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
	if !cluster.Knows(facts.Routes) {
		return nil
	}
	var found []Finding
	for _, r := range using(cluster, facts.GatewayRouter) {
		if r.RoutesError != nil || r.ServicesError != nil {
			continue
		}
		there := cluster.RoutesOf(r)
		for _, name := range r.RouteNames {
			if _, is := there[name]; !is {
				found = append(found, Finding{
					Code: RouteNotFound, Severity: Error, Object: named("Rollout", r.Namespace, r.Name), Field: name.Field,
					Message: fmt.Sprintf("%s %q does not exist", name.Kind, name.Name),
					Remedy:  "create it, or correct its name or namespace in the Rollout; a route in another namespace requires the key namespace",
				})
			}
		}
		for name, live := range there {
			found = append(found, examineRoute(cluster, r, name, live)...)
		}
	}
	return found
}

// checkRoute checks one route of a Rollout.
func examineRoute(cluster *facts.Facts, r *facts.Rollout, name facts.RouteName, live facts.Route) []Finding {
	object := named(string(live.Kind), live.Name.Namespace, live.Name.Name)
	_, _, err := route.Apply(live.Content, route.Intent{
		Kind: live.Kind, Rollout: r.Key().String(), UID: string(r.UID), Namespace: r.Namespace, Stable: r.Stable, Canary: r.Canary,
		RuleName: name.RuleName, HasRuleNames: true, HasMirrorPercent: true, Weights: &route.Weights{Stable: 100},
	})
	if err != nil {
		return []Finding{refusal(RouteWithoutRule, object, "spec.rules", err)}
	}
	metadata, _ := live.Content["metadata"].(map[string]any)
	status, _ := live.Content["status"].(map[string]any)
	parents, _ := status["parents"].([]any)
	if len(parents) == 0 {
		return unreported(cluster, object, metadata)
	}
	var found []Finding
	for i, parent := range parents {
		found = append(found, conditions(object, fmt.Sprintf("status.parents[%d]", i), parent, metadata["generation"])...)
	}
	return found
}

// unreported reports a route without any Gateway status.
func unreported(cluster *facts.Facts, object string, metadata map[string]any) []Finding {
	text, _ := metadata["creationTimestamp"].(string)
	if created, err := time.Parse(time.RFC3339, text); err != nil || cluster.Now.Sub(created) < patience {
		return nil
	}
	return []Finding{{
		Code: RouteNotAccepted, Severity: Warning, Object: object, Field: "status.parents",
		Message: "no Gateway has reported a status: weights are verified by the spec only, and may not be applied",
		Remedy:  "check spec.parentRefs: the Gateway has to exist, have a controller, and allow routes from this namespace",
	}}
}

// parentConditions reports the False conditions of a Gateway's controller for the current generation of a route.
// Conditions of an earlier generation are ignored, because they are about to change.
func conditions(object, path string, parent, generation any) []Finding {
	report, _ := parent.(map[string]any)
	list, _ := report["conditions"].([]any)
	var found []Finding
	for _, one := range list {
		condition, _ := one.(map[string]any)
		kind, _ := condition["type"].(string)
		if !slices.Contains([]string{"Accepted", "ResolvedRefs"}, kind) || condition["status"] != "False" || condition["observedGeneration"] != generation {
			continue
		}
		remedy := "check spec.parentRefs and the Gateway's listeners: they must allow the namespace, the hostname and the kind of the route"
		if kind == "ResolvedRefs" {
			remedy = "check spec.rules[].backendRefs: each Service must exist with that port, and a Service in another namespace requires a ReferenceGrant"
		}
		found = append(found, Finding{
			Code: RouteNotAccepted, Severity: Error, Object: object, Field: path + ".conditions[" + kind + "]",
			Message: strings.TrimSuffix(fmt.Sprintf("%v (%v): %v", report["controllerName"], condition["reason"], condition["message"]), ": "),
			Remedy:  remedy,
		})
	}
	return found
}
