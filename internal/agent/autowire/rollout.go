package autowire

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// gatewayRouter is the traffic router that shares requests in HTTPRoutes, by its name in Rollouts.
const gatewayRouter = "argoproj-labs/gatewayAPI"

// Routing says which HTTPRoutes are that router's, by the word of one Rollout.
type Routing struct {
	rollout string // namespace and name
	config  routingConfig
}

// routingConfig is what a Rollout configures of that router about HTTPRoutes. Upper and lower case of keys are the same
// to the router, as they are to encoding/json.
type routingConfig struct {
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

// RoutingText is what a Rollout configures of the router that shares requests in HTTPRoutes, as JSON; empty if it has
// nothing to do with it.
func RoutingText(rollout *apis.Rollout) string {
	canary := rollout.Spec.Strategy.Canary
	if canary == nil || canary.TrafficRouting == nil {
		return ""
	}
	return string(canary.TrafficRouting.Plugins[gatewayRouter])
}

// RoutingsOf are those of all Rollouts that have to do with that router. What cannot be read counts for nothing: the
// router refuses it.
func RoutingsOf(rollouts ...apis.Rollout) []Routing {
	var found []Routing
	for i := range rollouts {
		one := Routing{rollout: fmt.Sprintf("%s/%s", rollouts[i].Namespace, rollouts[i].Name)}
		text := RoutingText(&rollouts[i])
		if text == "" || json.Unmarshal([]byte(text), &one.config) != nil {
			continue
		}
		if one.config.Namespace == "" {
			one.config.Namespace = rollouts[i].Namespace
		}
		found = append(found, one)
	}
	return found
}

// Namespaces are those of the HTTPRoutes.
func (r *Routing) Namespaces() []string {
	found := []string{r.config.Namespace}
	for _, route := range r.config.HTTPRoutes {
		if route.Namespace != "" && !slices.Contains(found, route.Namespace) {
			found = append(found, route.Namespace)
		}
	}
	return found
}

// has says whether an HTTPRoute is the router's.
func (r *Routing) has(route *apis.HTTPRoute) bool {
	isHere := r.config.Namespace == route.Namespace
	for _, named := range r.config.HTTPRoutes {
		if named.Name == route.Name && (named.Namespace == route.Namespace || named.Namespace == "" && isHere) {
			return true
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(r.config.HTTPRouteSelector) // of nil it selects nothing
	return isHere && (r.config.HTTPRoute == route.Name || err == nil && selector.Matches(labels.Set(route.Labels)))
}
