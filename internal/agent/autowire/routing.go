package autowire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// gatewayPlugin is the name in Rollouts of the traffic router plugin that sets the weights of HTTPRoutes.
const gatewayPlugin = "argoproj-labs/gatewayAPI"

// openShiftPlugin is the name in Rollouts of the traffic router plugin that sets the weights of Routes of OpenShift
// (argoproj-labs/rollouts-plugin-trafficrouter-openshift, pkg/plugin/plugin.go).
const openShiftPlugin = "argoproj-labs/openshift"

// Routing is the set of HTTPRoutes that gatewayPlugin manages for one Rollout, of Routes that openShiftPlugin manages, and
// of Ingresses and VirtualServices that the controller itself manages for it.
type Routing struct {
	rollout, namespace string // the Rollout's name and namespace
	config             routingConfig
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
	// hasRoutes reports whether the Rollout uses the plugin. nginx and alb are the Ingresses of the controller's own
	// routers, istio the VirtualServices, and openShift the Routes of openShiftPlugin.
	hasRoutes                    bool
	nginx, alb, istio, openShift []string
}

// RoutingConfig returns a text that differs for two versions of a Rollout if they manage other HTTPRoutes, Ingresses,
// VirtualServices or Routes.
func RoutingConfig(rollout *apis.Rollout) string {
	canary := rollout.Spec.Strategy.Canary
	if canary == nil || canary.TrafficRouting == nil {
		return ""
	}
	return fmt.Sprint(string(canary.TrafficRouting.Plugins[gatewayPlugin]), canary.TrafficRouting.Ingresses(),
		canary.TrafficRouting.Istio.Names(), string(canary.TrafficRouting.Plugins[openShiftPlugin]))
}

// Routings returns the routings of all Rollouts that use one of the plugins, Ingresses or VirtualServices. An unreadable
// configuration is ignored: the plugin rejects it.
func Routings(rollouts ...apis.Rollout) []Routing {
	var routings []Routing
	for i := range rollouts {
		canary := rollouts[i].Spec.Strategy.Canary
		if canary == nil || canary.TrafficRouting == nil {
			continue
		}
		routing := Routing{rollout: rollouts[i].Name, namespace: rollouts[i].Namespace}
		text := canary.TrafficRouting.Plugins[gatewayPlugin]
		routing.config.hasRoutes = len(text) > 0 && json.Unmarshal(text, &routing.config) == nil
		if routing.config.Namespace == "" {
			routing.config.Namespace = rollouts[i].Namespace
		}
		routing.config.nginx, routing.config.alb = canary.TrafficRouting.Nginx.Names(), canary.TrafficRouting.ALB.Names()
		routing.config.istio = canary.TrafficRouting.Istio.Names()
		routing.config.openShift = routesOf(canary.TrafficRouting.Plugins[openShiftPlugin])
		if routing.config.hasRoutes || routing.hasOwnRouters() {
			routings = append(routings, routing)
		}
	}
	return routings
}

// String returns namespace and name of the Rollout, for messages.
func (r *Routing) String() string { return r.namespace + "/" + r.rollout }

// hasOwnRouters reports whether the Rollout uses routers for objects of its own namespace.
func (r *Routing) hasOwnRouters() bool {
	return len(r.config.nginx)+len(r.config.alb)+len(r.config.istio)+len(r.config.openShift) > 0
}

// routesOf returns the names of the Routes in a configuration of openShiftPlugin.
func routesOf(config json.RawMessage) []string {
	var parsed struct {
		Routes []string `json:"routes"`
	}
	if len(config) == 0 || json.Unmarshal(config, &parsed) != nil {
		return nil
	}
	return parsed.Routes
}

// managesRoute reports whether openShiftPlugin manages a Route. Its Routes are in the namespace of the Rollout.
func (r *Routing) managesRoute(route metav1.Object) bool {
	return route.GetNamespace() == r.namespace && slices.Contains(r.config.openShift, route.GetName())
}

// managesVirtualService reports whether the controller manages a VirtualService.
func (r *Routing) managesVirtualService(service metav1.Object) bool {
	return slices.ContainsFunc(r.config.istio, func(text string) bool {
		if !strings.Contains(text, ".") {
			return text == service.GetName() && r.namespace == service.GetNamespace()
		}
		return slices.ContainsFunc(splitVirtualService(text), func(key types.NamespacedName) bool {
			return key.Name == service.GetName() && key.Namespace == service.GetNamespace()
		})
	})
}

// splitVirtualService returns the possible names of a VirtualService that a Rollout names with its namespace. Argo
// Rollouts takes what follows the last dot as the namespace since 1.10, and what follows the first one before
// (utils/istio/istio.go).
func splitVirtualService(text string) []types.NamespacedName {
	text = strings.TrimSuffix(text, "."+clusterDomain)
	parts, last := strings.Split(text, "."), strings.LastIndex(text, ".")
	if last < 0 {
		return nil
	}
	return []types.NamespacedName{
		{Name: text[:last], Namespace: text[last+1:]}, {Name: parts[0], Namespace: parts[1]},
	}
}

// ingressRouter returns the controller's router that manages an Ingress, or an empty text.
func (r *Routing) ingressRouter(ingress metav1.Object) string {
	switch isHere := ingress.GetNamespace() == r.namespace; {
	case isHere && slices.Contains(r.config.nginx, ingress.GetName()):
		return "nginx"
	case isHere && slices.Contains(r.config.alb, ingress.GetName()):
		return "alb"
	}
	return ""
}

// Namespaces returns the namespaces of the HTTPRoutes, Ingresses, VirtualServices and Routes.
func (r *Routing) Namespaces() []string {
	namespaces := []string{r.config.Namespace}
	if r.namespace != r.config.Namespace && r.hasOwnRouters() {
		namespaces = append(namespaces, r.namespace)
	}
	for _, text := range r.config.istio {
		for _, key := range splitVirtualService(text) {
			if !slices.Contains(namespaces, key.Namespace) {
				namespaces = append(namespaces, key.Namespace)
			}
		}
	}
	for _, route := range r.config.HTTPRoutes {
		if route.Namespace != "" && !slices.Contains(namespaces, route.Namespace) {
			namespaces = append(namespaces, route.Namespace)
		}
	}
	return namespaces
}

// manages reports whether the plugin manages an HTTPRoute.
func (r *Routing) manages(route *apis.HTTPRoute) bool {
	if !r.config.hasRoutes {
		return false
	}
	isHere := r.config.Namespace == route.Namespace
	for _, named := range r.config.HTTPRoutes {
		if named.Name == route.Name && (named.Namespace == route.Namespace || named.Namespace == "" && isHere) {
			return true
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(r.config.HTTPRouteSelector) // a nil selector matches nothing
	return isHere && (r.config.HTTPRoute == route.Name || err == nil && selector.Matches(labels.Set(route.Labels)))
}
