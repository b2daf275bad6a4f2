package autowire

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Path match types of the Gateway API (PathMatchType). The default is PathPrefix.
const (
	pathExact      = "Exact"
	pathExpression = "RegularExpression"
)

// FromHTTPRoute returns an HTTPRoute with its backends, in order. Backends are references to Services of its
// namespace, and to proxies of another one. References to other resources, or to other Services in other
// namespaces, are dropped. routings are the HTTPRoutes that Rollouts manage.
//
// A route without hostnames matches every host, like an Ingress rule without a host. The listeners of its Gateways
// may narrow that. They belong to other users in other namespaces, and are not read.
func FromHTTPRoute(route *apis.HTTPRoute, routings []Routing) Object {
	object := Object{kind: trigger.AutowireHTTPRoute, meta: route}
	if at := slices.IndexFunc(routings, func(routing Routing) bool { return routing.manages(route) }); at >= 0 {
		object.router = fmt.Sprintf("plugin %s of Rollout %s manages its weights", gatewayPlugin, &routings[at])
	}
	for _, parent := range route.Status.Parents {
		object.controllers = append(object.controllers, parent.ControllerName)
	}
	for i := range route.Spec.Rules {
		rule := &route.Spec.Rules[i]
		for j := range rule.BackendRefs {
			if ref, isService := backendFromRef(route, i, j); isService {
				object.backends = append(object.backends, ref)
			}
		}
	}
	return object
}

// backendFromRef returns the backend of a backendRef, and false if it references neither a Service of the route's
// namespace nor proxies.
func backendFromRef(route *apis.HTTPRoute, i, j int) (result backend, isService bool) {
	rule := &route.Spec.Rules[i]
	ref := &rule.BackendRefs[j]
	isCore := ref.Group == nil || *ref.Group == ""
	isKind := ref.Kind == nil || *ref.Kind == "Service"
	if !isCore || !isKind || ref.Port < 0 || ref.Port > math.MaxUint16 {
		return backend{}, false
	}
	hostnames := route.Spec.Hostnames
	if len(hostnames) == 0 {
		hostnames = []string{""}
	}
	all := requestSet{hosts: hostnames, paths: matchedPaths(rule.Matches)}
	at := fmt.Sprintf("/spec/rules/%d", i)
	result = backend{
		pointer: fmt.Sprintf("%s/backendRefs/%d", at, j),
		label:   all.String(),
		preconditions: []precondition{
			{pointer: "/spec/hostnames", value: toJSON(route.Spec.Hostnames), isShared: true},
			{pointer: at + "/matches", value: canonicalJSON(rule.Matches)},
		},
		rule: at, matched: all, requests: all.rewritten(rule.Filters).rewritten(ref.Filters), changedBy: "a filter URLRewrite",
		filters:     unsupportedFilters(rule.Filters, ref.Filters),
		affinity:    persistenceOf(rule.SessionPersistence),
		isPlainPort: true,
		service: networkingv1.IngressServiceBackend{
			Name: ref.Name, Port: networkingv1.ServiceBackendPort{Number: int32(ref.Port)},
		},
	}
	if ref.Namespace != nil {
		result.namespace = *ref.Namespace
	}
	result.isCrossNamespace = result.namespace != "" && result.namespace != route.Namespace
	return result, !result.isCrossNamespace || result.isProxy()
}

// ProxyNamespaces returns the namespaces of the proxies that an HTTPRoute references, sorted and without
// duplicates.
func ProxyNamespaces(route *apis.HTTPRoute) []string {
	var namespaces []string
	for i := range route.Spec.Rules {
		for j := range route.Spec.Rules[i].BackendRefs {
			ref, isService := backendFromRef(route, i, j)
			if !isService || !ref.isProxy() {
				continue
			}
			namespace := route.Namespace
			if ref.isCrossNamespace {
				namespace = ref.namespace
			}
			namespaces = append(namespaces, namespace)
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// matchedPaths returns the paths of a rule's matches. A match without a path, and a rule without matches, match
// every path.
func matchedPaths(matches []byte) []path {
	var parsed []apis.HTTPRouteMatch
	if json.Unmarshal(matches, &parsed) != nil || len(parsed) == 0 {
		return []path{{text: "/"}}
	}
	var paths []path
	for _, match := range parsed {
		matched := path{text: "/"}
		if match.Path != nil && match.Path.Value != "" {
			matched = path{text: match.Path.Value, isExact: match.Path.Type == pathExact}
			if match.Path.Type == pathExpression {
				matched.text = literal(match.Path.Value)
			}
		}
		paths = append(paths, matched)
	}
	return paths
}

// rewritten returns the requests after URL rewrite filters.
func (r requestSet) rewritten(filters []apis.HTTPRouteFilter) requestSet {
	for _, filter := range filters {
		if filter.URLRewrite == nil {
			continue
		}
		if filter.URLRewrite.Hostname != "" {
			r.hosts = []string{filter.URLRewrite.Hostname}
		}
		switch modifier := filter.URLRewrite.Path; {
		case modifier == nil:
		case modifier.ReplaceFullPath != nil:
			r.paths = []path{{text: *modifier.ReplaceFullPath, isExact: true}}
		case modifier.ReplacePrefixMatch != nil:
			r.paths = []path{{text: *modifier.ReplacePrefixMatch}}
		}
	}
	return r
}

// String returns the first host and path, for messages.
func (r requestSet) String() string {
	text := r.hosts[0] + r.paths[0].text
	if len(r.hosts) > 1 || len(r.paths) > 1 {
		text += " and others"
	}
	return text
}
