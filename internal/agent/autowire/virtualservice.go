package autowire

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

const (
	// clusterDomain is the domain of Services unless the cluster has another one.
	clusterDomain = "cluster.local"
	// setDomain is the domain of the Services of all clusters of a ClusterSet (KEP-1645). Those are no Services of the
	// namespace: a request may reach another cluster.
	setDomain = "clusterset.local"
)

// FromVirtualService returns a VirtualService with its backends, in order: the destinations of its HTTP routes that are
// Services of its namespace. Other destinations are dropped. routings are the VirtualServices that Rollouts manage.
//
// A VirtualService without hosts is a delegate of others, and receives requests for their hosts. It matches every host:
// the others may belong to other users in other namespaces, and are not read.
func FromVirtualService(service *apis.VirtualService, routings ...Routing) Object {
	object := Object{kind: trigger.AutowireVirtualService, meta: service}
	for i := range routings {
		if routings[i].managesVirtualService(service) {
			object.router = fmt.Sprintf("traffic router istio of Rollout %s manages its weights", &routings[i])
		}
	}
	for i := range service.Spec.HTTP {
		for j := range service.Spec.HTTP[i].Route {
			if ref, isService := backendFromDestination(service, i, j); isService {
				object.backends = append(object.backends, ref)
			}
		}
	}
	return object
}

// backendFromDestination returns the backend of a destination, and false if it references no Service of the
// VirtualService's namespace.
func backendFromDestination(service *apis.VirtualService, i, j int) (result backend, isService bool) {
	rule := &service.Spec.HTTP[i]
	destination := &rule.Route[j].Destination
	name, domain, isHere := splitHost(destination.Host, service.Namespace)
	number := int64(0)
	if destination.Port != nil {
		number = destination.Port.Number
	}
	if !isHere || number < 0 || number > math.MaxUint16 || number == 0 && destination.Port != nil {
		return backend{}, false
	}
	at := fmt.Sprintf("/spec/http/%d", i)
	result = backend{
		pointer: fmt.Sprintf("%s/route/%d/destination", at, j),
		preconditions: []precondition{
			{pointer: "/spec/hosts", value: toJSON(service.Spec.Hosts), isShared: true},
			{pointer: at + "/match", value: canonicalJSON(rule.Match)},
		},
		rule:          at,
		isDestination: true, domain: domain, subset: destination.Subset, omitsPort: destination.Port == nil,
		service: networkingv1.IngressServiceBackend{
			Name: name, Port: networkingv1.ServiceBackendPort{Number: int32(number)},
		},
	}
	result.matched, result.requests, result.changedBy = matchedRequests(service, rule, rule.Route[j].Headers)
	result.label = result.matched.String()
	if rewrite := rule.Rewrite; rewrite != nil && canonicalJSON(rewrite.URIRegexRewrite) != "null" {
		result.filters = []filter{{name: "uriRegexRewrite", text: "rewrite.uriRegexRewrite of its route"}}
	}
	return result, true
}

// splitHost splits the host of a destination into the name of a Service and the rest, which is empty for a short name.
// isHere reports whether it is a Service of a namespace. Istio resolves a short name in the namespace of the object,
// and takes any other host as a full name (ResolveShortnameToFQDN in pilot/pkg/model/config.go).
func splitHost(host, namespace string) (name, domain string, isHere bool) {
	name, rest, isFull := strings.Cut(host, ".")
	if !isFull {
		return name, "", name != "" && name != "*"
	}
	zone, isService := strings.CutPrefix(rest, namespace+".svc.")
	return name, "." + rest, isService && name != "" && name != "*" && zone != "" && zone != setDomain
}

// hostText returns the text of field host of a destination.
func (b *backend) hostText() string { return b.service.Name + b.domain }

// replaceDestination is replaceWith for a destination.
func (b *backend) replaceDestination(other *backend) []desired.Operation {
	patch := []desired.Operation{{Op: "replace", Path: b.pointer + "/host", Value: other.hostText()}}
	port := other.service.Port
	switch {
	case !b.omitsPort && !other.omitsPort:
		return append(patch, desired.Operation{Op: "replace", Path: b.pointer + "/port/number", Value: port.Number})
	case other.omitsPort:
		return append(patch, desired.Operation{Op: "remove", Path: b.pointer + "/port"})
	}
	return append(patch, desired.Operation{Op: "add", Path: b.pointer + "/port", Value: port})
}

// matchedRequests returns the requests that a rule matches, and those that a destination with headers of its own
// receives. changedBy describes what makes the difference.
func matchedRequests(
	service *apis.VirtualService, rule *apis.VirtualServiceHTTP, own *apis.VirtualServiceHeaders,
) (matched, received requestSet, changedBy string) {
	hosts := matchedHosts(service)
	var matches []apis.VirtualServiceMatch
	if json.Unmarshal(rule.Match, &matches) != nil || len(matches) == 0 {
		matches = []apis.VirtualServiceMatch{{}}
	}
	for i := range matches {
		if authority := matches[i].Authority; authority != nil && authority.Exact != "" {
			matched.hosts = append(matched.hosts, withoutPort(authority.Exact))
		} else {
			matched.hosts = append(matched.hosts, hosts...)
		}
		before, after := uriPath(matches[i].URI, rule.Rewrite)
		matched.paths, received.paths = append(matched.paths, before), append(received.paths, after)
	}
	matched.hosts = unique(matched.hosts)
	received.hosts = matched.hosts
	if !slices.Equal(matched.paths, received.paths) {
		changedBy = "rewrite.uri"
	}
	if host, by := rewrittenHost(rule, own); host != "" {
		received.hosts, changedBy = []string{withoutPort(host)}, by
	}
	return matched, received, changedBy
}

// unique returns the texts without duplicates, in their order.
func unique(texts []string) []string {
	var kept []string
	for _, text := range texts {
		if !slices.Contains(kept, text) {
			kept = append(kept, text)
		}
	}
	return kept
}

// uriPath returns the paths that a condition matches, before and after a rewrite. A prefix ends anywhere in a segment.
// The rewrite replaces a prefix, and otherwise the whole path.
func uriPath(uri *apis.StringMatch, rewrite *apis.VirtualServiceRewrite) (before, after path) {
	before, isPrefix := path{text: "/"}, true
	switch {
	case uri == nil:
	case uri.Exact != "":
		before, isPrefix = path{text: uri.Exact, isExact: true}, false
	case uri.Prefix != "":
		before = path{text: uri.Prefix, isOpen: true}
	case uri.Regex != "":
		before, isPrefix = path{text: literal(uri.Regex)}, false
	}
	if rewrite == nil || rewrite.URI == "" {
		return before, before
	}
	return before, path{text: rewrite.URI, isExact: !isPrefix, isOpen: isPrefix}
}

// rewrittenHost returns the host that a route sends, and what sets it; empty for that of the request. A route's headers
// precede those of its only destination, and those of several destinations precede the route's
// (pilot/pkg/networking/core/route/route.go).
func rewrittenHost(rule *apis.VirtualServiceHTTP, own *apis.VirtualServiceHeaders) (host, by string) {
	ofRoute, ofDestination := setAuthority(rule.Headers), setAuthority(own)
	by = "header Host in headers.request"
	switch rewrite := rule.Rewrite; {
	case len(rule.Route) > 1 && ofDestination != "":
		return ofDestination, by
	case rewrite != nil && rewrite.Authority != "":
		return rewrite.Authority, "rewrite.authority"
	case ofRoute != "":
		return ofRoute, by
	}
	return ofDestination, by
}

// setAuthority returns the value of header Host among headers that are set or added, or an empty text.
func setAuthority(headers *apis.VirtualServiceHeaders) string {
	if headers == nil {
		return ""
	}
	for _, values := range []map[string]string{headers.Request.Set, headers.Request.Add} {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if isHostHeader(name) {
				return values[name]
			}
		}
	}
	return ""
}

// matchedHosts returns the hosts of a VirtualService. The name of a Service, short or full, stands for all names by
// which sidecars know it (pilot/pkg/networking/core/httproute.go). An empty host means every host.
func matchedHosts(service *apis.VirtualService) []string {
	var hosts []string
	for _, host := range service.Spec.Hosts {
		name, rest, isFull := strings.Cut(host, ".")
		namespace, domain, isService := strings.Cut(rest, ".svc.")
		switch {
		case !isFull && host != "*" && host != "":
			namespace, domain = service.Namespace, clusterDomain
		case !isFull || name == "*" || !isService || strings.Contains(namespace, "."):
			hosts = append(hosts, host)
			continue
		}
		all := []string{
			name, name + "." + namespace, name + "." + namespace + ".svc", name + "." + namespace + ".svc." + domain,
		}
		at := max(slices.Index(all, host), 0) // as written comes first, for messages
		all[0], all[at] = all[at], all[0]
		if namespace != service.Namespace {
			all = slices.DeleteFunc(all, func(alias string) bool { return alias == name })
		}
		hosts = append(hosts, all...)
	}
	if len(hosts) == 0 {
		return []string{""}
	}
	return hosts
}

// withoutPort returns the host of an authority.
func withoutPort(authority string) string {
	if host, _, err := net.SplitHostPort(authority); err == nil {
		return host
	}
	return authority
}

// setDefaultPort sets the port of a destination without one: the only port of its Service. It stays zero if the Service
// has several.
func (p *objectPlan) setDefaultPort(ref *backend) {
	if !ref.omitsPort {
		return
	}
	ref.service.Port = networkingv1.ServiceBackendPort{}
	if ports := p.service(ref.service.Name).Spec.Ports; len(ports) == 1 {
		ref.service.Port.Number = ports[0].Port
	}
}

// subsetBlocker returns why the proxies cannot replace a destination with a subset: they send requests to all Pods of
// its Service.
func (b *backend) subsetBlocker() (reason, message string) {
	if b.subset == "" {
		return "", ""
	}
	return httpv1alpha1.ReasonUnsupportedSetting, fmt.Sprintf(
		"its destination selects subset %s of a DestinationRule, and the proxies would send requests to all Pods of "+
			"Service %s; remove the subset, and let the Rollout split the traffic", b.subset, b.service.Name)
}
