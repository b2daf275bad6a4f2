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

// The types of a match of paths, beside that of prefixes (Gateway API, PathMatchType).
const (
	pathExact      = "Exact"
	pathExpression = "RegularExpression"
)

// OfHTTPRoute is an HTTPRoute with the places in it that name a Service of its namespace, or proxies of another one, in order.
// One that names another resource, or another Service elsewhere, is none. others are what Rollouts say of routes.
//
// A route without hostnames is for every host, as a rule of an Ingress without one is. Its Gateways' listeners may
// narrow that; they are others' objects in other namespaces, and are not looked at.
func OfHTTPRoute(route *apis.HTTPRoute, others []Routing) Object {
	found := Object{kind: trigger.AutowireHTTPRoute, meta: route}
	if at := slices.IndexFunc(others, func(other Routing) bool { return other.has(route) }); at >= 0 {
		found.router = fmt.Sprintf("router %s, for Rollout %s", gatewayRouter, others[at].rollout)
	}
	for i := range route.Spec.Rules {
		rule := &route.Spec.Rules[i]
		for j := range rule.BackendRefs {
			if place, isService := ofBackendRef(route, i, j); isService {
				found.places = append(found.places, place)
			}
		}
	}
	return found
}

// ofBackendRef is a backend of a rule, if it names a Service of the route's namespace, or proxies elsewhere.
func ofBackendRef(route *apis.HTTPRoute, i, j int) (found backend, isService bool) {
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
	all := request{hosts: hostnames, paths: pathsOf(rule.Matches)}
	at := fmt.Sprintf("/spec/rules/%d", i)
	found = backend{
		pointer: fmt.Sprintf("%s/backendRefs/%d", at, j),
		title:   all.String(),
		marks: []mark{
			{pointer: "/spec/hostnames", value: encoded(route.Spec.Hostnames), isShared: true},
			{pointer: at + "/matches", value: canonical(rule.Matches)},
		},
		rule: at, sees: all.rewritten(rule.Filters).rewritten(ref.Filters), isNumber: true,
		service: networkingv1.IngressServiceBackend{
			Name: ref.Name, Port: networkingv1.ServiceBackendPort{Number: int32(ref.Port)},
		},
	}
	if ref.Namespace != nil {
		found.namespace = *ref.Namespace
	}
	found.isElsewhere = found.namespace != "" && found.namespace != route.Namespace
	return found, !found.isElsewhere || found.isProxy()
}

// ProxyNamespaces are the namespaces of the proxies that an HTTPRoute names, each once, and in order.
func ProxyNamespaces(route *apis.HTTPRoute) []string {
	var found []string
	for i := range route.Spec.Rules {
		for j := range route.Spec.Rules[i].BackendRefs {
			place, isService := ofBackendRef(route, i, j)
			if !isService || !place.isProxy() {
				continue
			}
			namespace := route.Namespace
			if place.isElsewhere {
				namespace = place.namespace
			}
			found = append(found, namespace)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// pathsOf are the paths of a rule's matches. One that asks nothing of the path, and no match at all, mean every path.
func pathsOf(matches []byte) []path {
	var parsed []apis.HTTPRouteMatch
	if json.Unmarshal(matches, &parsed) != nil || len(parsed) == 0 {
		return []path{{text: "/"}}
	}
	var found []path
	for _, match := range parsed {
		asked := path{text: "/"}
		if match.Path != nil && match.Path.Value != "" {
			asked = path{text: match.Path.Value, isExact: match.Path.Type == pathExact}
			if match.Path.Type == pathExpression {
				asked.text = literal(match.Path.Value)
			}
		}
		found = append(found, asked)
	}
	return found
}

// rewritten are the requests behind filters.
func (r request) rewritten(filters []apis.HTTPRouteFilter) request {
	for _, filter := range filters {
		if filter.URLRewrite == nil {
			continue
		}
		if filter.URLRewrite.Hostname != "" {
			r.hosts = []string{filter.URLRewrite.Hostname}
		}
		switch to := filter.URLRewrite.Path; {
		case to == nil:
		case to.ReplaceFullPath != nil:
			r.paths = []path{{text: *to.ReplaceFullPath, isExact: true}}
		case to.ReplacePrefixMatch != nil:
			r.paths = []path{{text: *to.ReplacePrefixMatch}}
		}
	}
	return r
}

// String names the requests in messages: the first of their hosts and paths.
func (r request) String() string {
	text := r.hosts[0] + r.paths[0].text
	if len(r.hosts) > 1 || len(r.paths) > 1 {
		text += " and others"
	}
	return text
}
