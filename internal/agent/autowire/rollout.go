package autowire

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/objects"
)

// gatewayRouter is the traffic router that shares requests in HTTPRoutes, by its name in Rollouts.
const gatewayRouter = "argoproj-labs/gatewayAPI"

// routing is what a Rollout configures of that router about HTTPRoutes. Upper and lower case of keys are the same to
// the router, as they are to encoding/json.
type routing struct {
	// Namespace is that of routes that name none of their own; empty for the Rollout's.
	Namespace string `json:"namespace"`
	// HTTPRoute is one route, and HTTPRoutes are some.
	HTTPRoute  string `json:"httpRoute"`
	HTTPRoutes []struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"httpRoutes"`
	// HTTPRouteSelector chooses routes of Namespace by their labels.
	HTTPRouteSelector *metav1.LabelSelector `json:"httpRouteSelector"`
}

// Routing is what a Rollout configures of the router that shares requests in HTTPRoutes, as JSON; empty if it has nothing
// to do with it.
func Routing(rollout *objects.Rollout) string {
	canary := rollout.Spec.Strategy.Canary
	if canary == nil || canary.TrafficRouting == nil {
		return ""
	}
	return string(canary.TrafficRouting.Plugins[gatewayRouter])
}

// routingOf reads it. What cannot be read counts for nothing: the router refuses it.
func routingOf(rollout *objects.Rollout) (found routing, is bool) {
	text := Routing(rollout)
	if text == "" || json.Unmarshal([]byte(text), &found) != nil {
		return routing{}, false
	}
	if found.Namespace == "" {
		found.Namespace = rollout.Namespace
	}
	return found, true
}

// RoutedNamespaces are the namespaces of the HTTPRoutes that a Rollout's router decides about.
func RoutedNamespaces(rollout *objects.Rollout) []string {
	found, is := routingOf(rollout)
	if !is {
		return nil
	}
	namespaces := []string{found.Namespace}
	for _, route := range found.HTTPRoutes {
		if route.Namespace != "" && !slices.Contains(namespaces, route.Namespace) {
			namespaces = append(namespaces, route.Namespace)
		}
	}
	return namespaces
}

// names says whether a Rollout's router decides about a route.
func names(rollout *objects.Rollout, route *objects.HTTPRoute) bool {
	found, is := routingOf(rollout)
	if !is {
		return false
	}
	for _, named := range found.HTTPRoutes {
		if named.Name == route.Name && (named.Namespace == route.Namespace ||
			named.Namespace == "" && found.Namespace == route.Namespace) {
			return true
		}
	}
	if found.Namespace != route.Namespace {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(found.HTTPRouteSelector) // of nil it selects nothing
	return found.HTTPRoute == route.Name || err == nil && selector.Matches(labels.Set(route.Labels))
}
