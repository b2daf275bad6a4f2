package autowire

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// gatewayPlugin is the name in Rollouts of the traffic router plugin that sets the weights of HTTPRoutes.
const gatewayPlugin = "argoproj-labs/gatewayAPI"

// Routing is the set of HTTPRoutes that gatewayPlugin manages for one Rollout.
type Routing struct {
	rollout string // namespace and name
	config  routingConfig
}

// routingConfig is a Rollout's configuration of gatewayPlugin for HTTPRoutes. The plugin ignores the letter case
// of keys, as encoding/json does.
type routingConfig struct {
	// Namespace is the namespace of routes without their own; empty for the Rollout's.
	Namespace string `json:"namespace"`
	// HTTPRoute is the name of one route. HTTPRoutes lists more.
	HTTPRoute  string `json:"httpRoute"`
	HTTPRoutes []struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"httpRoutes"`
	// HTTPRouteSelector selects routes of Namespace by their labels.
	HTTPRouteSelector *metav1.LabelSelector `json:"httpRouteSelector"`
}

// RoutingConfig returns a Rollout's configuration of gatewayPlugin as JSON, empty if it does not use the plugin.
func RoutingConfig(rollout *apis.Rollout) string {
	canary := rollout.Spec.Strategy.Canary
	if canary == nil || canary.TrafficRouting == nil {
		return ""
	}
	return string(canary.TrafficRouting.Plugins[gatewayPlugin])
}

// Routings returns the routings of all Rollouts that use gatewayPlugin. An unreadable configuration is ignored:
// the plugin rejects it.
func Routings(rollouts ...apis.Rollout) []Routing {
	var routings []Routing
	for i := range rollouts {
		routing := Routing{rollout: fmt.Sprintf("%s/%s", rollouts[i].Namespace, rollouts[i].Name)}
		text := RoutingConfig(&rollouts[i])
		if text == "" || json.Unmarshal([]byte(text), &routing.config) != nil {
			continue
		}
		if routing.config.Namespace == "" {
			routing.config.Namespace = rollouts[i].Namespace
		}
		routings = append(routings, routing)
	}
	return routings
}

// Namespaces returns the namespaces of the HTTPRoutes.
func (r *Routing) Namespaces() []string {
	namespaces := []string{r.config.Namespace}
	for _, route := range r.config.HTTPRoutes {
		if route.Namespace != "" && !slices.Contains(namespaces, route.Namespace) {
			namespaces = append(namespaces, route.Namespace)
		}
	}
	return namespaces
}

// manages reports whether the plugin manages an HTTPRoute.
func (r *Routing) manages(route *apis.HTTPRoute) bool {
	isHere := r.config.Namespace == route.Namespace
	for _, named := range r.config.HTTPRoutes {
		if named.Name == route.Name && (named.Namespace == route.Namespace || named.Namespace == "" && isHere) {
			return true
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(r.config.HTTPRouteSelector) // a nil selector matches nothing
	return isHere && (r.config.HTTPRoute == route.Name || err == nil && selector.Matches(labels.Set(route.Labels)))
}
