package autowire

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// service returns a Service of the namespace, an empty one if it does not exist.
func (n *Namespace) service(name string) *corev1.Service {
	if service := n.Services[name]; service != nil {
		return service
	}
	return &corev1.Service{}
}

// prepare determines what the annotations of the object do to the requests that proxies receive from it, and the
// originals of its backends.
func (p *objectPlan) prepare() {
	if p.object.kind == trigger.AutowireService {
		p.prepareService()
		return
	}
	p.toProxies = p.behaviorOf(ProxyService, proxyBackend(ProxyPort).Port)
	for i := range p.object.backends {
		ref := &p.object.backends[i]
		if ref.omitsPort || ref.isRouteTarget { // of an earlier plan
			ref.service.Port = networkingv1.ServiceBackendPort{}
		}
		if p.toProxies.find(matchesExpressions) != nil {
			ref.requests = ref.requests.asExpressions()
			ref.matched = ref.requests
		}
		ref.others = p.fromOthers(ref.matched.hosts[0])
		received, byOther := ref.others.received(ref.requests)
		received, by := p.toProxies.received(received)
		switch ref.received = received; {
		case by != nil && byOther != nil:
			ref.changedBy = by.text + ", with " + byOther.text + ","
		case cmp.Or(by, byOther) != nil:
			ref.changedBy = cmp.Or(by, byOther).text
		}
	}
	record, err := parseRestorePatch(p.object.meta.GetAnnotations()[httpv1alpha1.AnnotationAutowireUndo])
	if err != nil {
		p.recordIssue = err.Error()
	}
	p.originals, p.isRestored = matchOriginals(p.object.backends, record)
	if p.object.route != nil {
		p.setRoutePorts(record)
	}
	for i := range p.object.backends {
		p.setDefaultPort(&p.object.backends[i])
	}
	for i, original := range p.originals {
		p.setDefaultPort(&original)
		p.originals[i] = original
	}
}

// asExpressions returns the requests if the paths are regular expressions.
func (r requestSet) asExpressions() requestSet {
	expressions := requestSet{hosts: r.hosts}
	for _, expression := range r.paths {
		expressions.paths = append(expressions.paths, path{text: literal(expression.text)})
	}
	return expressions
}

// behaviorOf returns the behavior for requests to a port of a Service.
func (p *objectPlan) behaviorOf(service string, port networkingv1.ServiceBackendPort) behavior {
	found := p.object.behaviorOf(p.rules, p.service(service), service, port)
	switch p.object.kind {
	case trigger.AutowireHTTPRoute:
		p.addGatewayTLS(found, service, port)
	case trigger.AutowireVirtualService:
		p.addDestinationRule(found, service, port)
	case trigger.AutowireRoute:
		p.addRoute(found, service)
	case trigger.AutowireService:
		p.addSessionAffinity(found, service)
	default:
	}
	return found
}

// annotationBlocker returns why the proxies cannot replace a backend because of annotations or session affinity.
// toService is the behavior for the backend's Service.
func (p *objectPlan) annotationBlocker(
	targets []*Target, original *backend, toService behavior,
) (reason, message string) {
	for _, current := range []behavior{toService, p.toProxies, original.others} {
		if unknown := current.find(hidden); unknown != nil {
			return httpv1alpha1.ReasonUnsupportedAnnotation, fmt.Sprintf(
				"%s may change its requests or connections in a way that the agent cannot determine; remove it, or list it "+
					"in annotation %s of the %s if the application does not depend on it",
				unknown.text, httpv1alpha1.AnnotationAutowireAccept, kindNames()[p.object.kind])
		}
	}
	if other, by := p.splitter(toService, original); by != nil {
		return httpv1alpha1.ReasonUnsupportedAnnotation, fmt.Sprintf(
			"%s of %s splits its traffic; remove it, and let one component split the traffic", by.text, other)
	}
	for _, kept := range toService[belongsToService] {
		isKept := func(other match) bool { return other.name == kept.name && other.value == kept.value }
		if !slices.ContainsFunc(p.toProxies[belongsToService], isKept) {
			reason, message = lostOnProxies(&kept, "applies to this Service only")
			return reason, message + affinityHint(&kept, targets)
		}
	}
	if webSocket := toService.find(upgrades); webSocket != nil && p.toProxies.find(upgrades) == nil {
		return lostOnProxies(webSocket, "allows WebSocket")
	}
	if reason, message = requestBlocker(targets, original); reason != "" {
		return reason, message
	}
	if p.toProxies.find(replacesPath, matchesExpressions) == nil {
		if reason, message = expressionBlocker(targets, original); reason != "" {
			return reason, message
		}
	}
	return p.affinityBlocker(targets, original, toService)
}

// lostOnProxies returns that an annotation would no longer apply, because it belongs to the application's Service.
func lostOnProxies(annotation *match, does string) (reason, message string) {
	fix := "add Service " + ProxyService + " to the annotation"
	if annotation.isOnService {
		fix = "add annotation " + annotation.name + ", for its ports, to Service " + ProxyService
	}
	return httpv1alpha1.ReasonUnsupportedAnnotation, fmt.Sprintf(
		"%s %s, and would not apply to the proxies; %s", annotation.text, does, fix)
}

// splitter returns the object with an annotation that splits the traffic of a backend, and the annotation, or nil. In
// ingress-nginx, the annotations are on another Ingress with the same host and path.
func (p *objectPlan) splitter(toService behavior, original *backend) (object string, by *match) {
	if by = toService.find(splits); by != nil {
		return p.object.String(), by
	}
	for _, other := range p.splitters {
		overlaps := func(ref backend) bool { return ref.requests.overlaps(original.requests) }
		isOther := other.object != p.object && other.object.kind == p.object.kind
		if isOther && slices.ContainsFunc(other.object.backends, overlaps) {
			return other.object.String(), other.by
		}
	}
	return "", nil
}

// splitter is an Ingress with an annotation that splits the traffic of other Ingresses.
type splitter struct {
	object *Object
	by     *match
}

// splitters returns the splitters of a namespace.
func (n *Namespace) splitters(rules []annotationRule) (all []splitter) {
	for i := range n.Objects {
		object := &n.Objects[i]
		by := object.behaviorOf(rules, &corev1.Service{}, "", networkingv1.ServiceBackendPort{}).find(splits)
		if by != nil && object.meta.GetDeletionTimestamp() == nil {
			all = append(all, splitter{object, by})
		}
	}
	return all
}

// overlaps reports whether two sets have requests in common.
func (r requestSet) overlaps(other requestSet) bool {
	contains := func(wide, narrow path) bool {
		return hasPathPrefix(wide.text, narrow.text) && (!wide.isExact || wide == narrow)
	}
	return anyPair(r.hosts, other.hosts, hostsOverlap) && anyPair(r.paths, other.paths, func(a, b path) bool {
		return contains(a, b) || contains(b, a)
	})
}

// requestBlocker returns why requests that were rewritten on the way to the proxies would get status 404.
func requestBlocker(targets []*Target, original *backend) (reason, message string) {
	isHostSame := slices.Equal(original.matched.hosts, original.received.hosts)
	isPathSame := slices.Equal(original.matched.paths, original.received.paths)
	matches := func(target *Target) bool {
		return (isHostSame || target.matchesHosts(original.received.hosts)) &&
			(isPathSame || target.matchesPaths(original.received.paths))
	}
	if slices.ContainsFunc(targets, matches) {
		return "", ""
	}
	missing, fix := original.received.paths[0].text, "pathPrefixes"
	isUnmatched := func(host string) bool { return !targets[0].matchesHosts([]string{host}) }
	if at := slices.IndexFunc(original.received.hosts, isUnmatched); at >= 0 && !isHostSame {
		missing, fix = original.received.hosts[at], "hosts"
	}
	return httpv1alpha1.ReasonRequestMismatch, fmt.Sprintf(
		"%s makes the proxies receive requests for %s, which HTTPScaledObject %q does not match; "+
			"add %q to %s of its trigger",
		original.changedBy, original.received, targets[0].Name, missing, fix)
}
