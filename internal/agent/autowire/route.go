package autowire

import (
	"fmt"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// What owners of Routes list in AnnotationAutowireAccept for settings that are no annotations.
const (
	acceptReencrypt   = apis.TerminationReencrypt
	acceptHTTPHeaders = "httpHeaders"
)

// disableCookies is the annotation that turns off the cookies of OpenShift's router.
const disableCookies = "haproxy.router.openshift.io/disable_cookies"

// FromRoute returns a Route of OpenShift with its backends, in order: the primary one and the alternate ones. The order
// of those is that of the list. routings are the Routes that Rollouts manage.
//
// A Route without a host has those of its status. Until a router has set one, it matches every host.
func FromRoute(route *apis.Route, routings ...Routing) Object {
	object := Object{kind: trigger.AutowireRoute, meta: route, route: route}
	for i := range routings {
		if routings[i].managesRoute(route) {
			object.router = fmt.Sprintf("plugin %s of Rollout %s manages its weights", openShiftPlugin, &routings[i])
		}
	}
	if owner := metav1.GetControllerOfNoCopy(route); owner != nil && owner.Kind == "Ingress" {
		object.router = fmt.Sprintf("OpenShift has created it for Ingress %s and would revert changes; it follows the "+
			"Ingress, which trafficAutowire: ingress wires", owner.Name)
	}
	object.addTarget(primaryTarget, &route.Spec.To)
	for i := range route.Spec.AlternateBackends {
		object.addTarget(fmt.Sprintf("/spec/alternateBackends/%d", i), &route.Spec.AlternateBackends[i])
	}
	return object
}

// primaryTarget is the pointer of the primary backend of a Route.
const primaryTarget = "/spec/to"

// isRoutePointer reports whether the pointer of a backend is one in a Route.
func isRoutePointer(pointer string) bool {
	return pointer == primaryTarget || strings.HasPrefix(pointer, "/spec/alternateBackends/")
}

// addTarget adds a backend of a Route, unless it is no Service. Its port is set by setRoutePorts.
func (o *Object) addTarget(pointer string, target *apis.RouteTarget) {
	if target.Kind != "" && target.Kind != serviceKind {
		return
	}
	matched := requestSet{hosts: routeHosts(o.route), paths: []path{{text: "/"}}}
	if o.route.Spec.Path != "" {
		matched.paths[0].text = o.route.Spec.Path
	}
	added := backend{
		pointer: pointer, label: matched.String(), rule: "/spec", isRouteTarget: true,
		matched: matched, requests: matched,
		service: networkingv1.IngressServiceBackend{Name: target.Name},
	}
	o.setHostHeader(&added)
	o.backends = append(o.backends, added)
}

// setHostHeader sets the host that a backend of a Route receives, if the Route changes header Host.
func (o *Object) setHostHeader(ref *backend) {
	if o.route.Spec.HTTPHeaders == nil {
		return
	}
	const text = "header Host in spec.httpHeaders"
	for _, header := range o.route.Spec.HTTPHeaders.Actions.Request {
		switch set := header.Action.Set; {
		case !isHostHeader(header.Name):
		case set == nil || strings.Contains(set.Value, "%"):
			ref.filters = append(ref.filters, filter{name: acceptHTTPHeaders, text: text})
		default:
			ref.requests = requestSet{hosts: []string{withoutPort(set.Value)}, paths: ref.matched.paths}
			ref.changedBy = text
		}
	}
}

// routeHosts returns the hosts of a Route. An empty host means every host.
func routeHosts(route *apis.Route) []string {
	var hosts []string
	if route.Spec.Host != "" {
		hosts = append(hosts, route.Spec.Host)
	}
	for _, ingress := range route.Status.Ingress {
		if route.Spec.Host == "" && ingress.Host != "" {
			hosts = append(hosts, ingress.Host)
		}
	}
	if hosts = unique(hosts); len(hosts) == 0 {
		return []string{""}
	}
	if route.Spec.WildcardPolicy != apis.WildcardSubdomain {
		return hosts
	}
	for i, host := range hosts {
		_, domain, _ := strings.Cut(host, ".")
		hosts[i] = "*." + domain
	}
	return hosts
}

// addRoute adds to the behavior of a Route what OpenShift's router does with connections to a Service
// (images/router/haproxy/conf/haproxy-config.template in openshift/router): TLS only with termination reencrypt, and
// session affinity by a cookie unless an annotation turns it off.
func (p *objectPlan) addRoute(found behavior, name string) {
	termination := p.object.termination()
	switch termination {
	case apis.TerminationReencrypt:
		found[usesTLS] = append(found[usesTLS], match{text: "spec.tls.termination: " + termination})
	case "":
		found[usesHTTP1] = append(found[usesHTTP1], match{text: "a Route without spec.tls"})
	default:
		found[usesHTTP1] = append(found[usesHTTP1], match{text: "spec.tls.termination: " + termination})
	}
	isOff, err := strconv.ParseBool(p.object.meta.GetAnnotations()[disableCookies])
	if isSticky := err != nil || !isOff; isSticky && name != ProxyService && termination != apis.TerminationPassthrough {
		found[sticksByCookie] = append(found[sticksByCookie], match{text: "the cookie of OpenShift's router"})
	}
}

// termination returns the TLS termination of a Route, or an empty text.
func (o *Object) termination() string {
	if o.route.Spec.TLS == nil {
		return ""
	}
	return o.route.Spec.TLS.Termination
}

// routeBlocker returns why the proxies cannot replace a backend of a Route.
func (p *objectPlan) routeBlocker(originals []backend, at int, to *backend) (reason, message string) {
	original := &originals[at]
	switch message = p.targetPortIssue(originals, at, to); {
	case p.object.termination() == apis.TerminationPassthrough:
		message = "spec.tls.termination: passthrough sends encrypted connections to the backend, in which the proxies " +
			"cannot read the requests of other certificates; use termination edge"
	case p.object.termination() == apis.TerminationReencrypt && !p.object.accepts(acceptReencrypt):
		message = fmt.Sprintf("with spec.tls.termination: reencrypt, the router verifies the certificate of Service %[1]s: "+
			"by destinationCACertificate, or by OpenShift's service CA and the name %[1]s.%[2]s.svc; use termination edge, or "+
			"give the proxies such a certificate and list %[3]s in annotation %[4]s of the Route",
			ProxyService, p.object.meta.GetNamespace(), acceptReencrypt, httpv1alpha1.AnnotationAutowireAccept)
	case isRepeated(originals, original.service.Name):
		message = fmt.Sprintf("it has backend %s twice, of which the router uses only the last weight; remove one",
			original.service.Name)
	}
	if message == "" {
		return "", ""
	}
	return httpv1alpha1.ReasonUnsupportedSetting, message
}

// isRepeated reports whether several backends reference a Service.
func isRepeated(backends []backend, name string) bool {
	count := 0
	for i := range backends {
		if backends[i].service.Name == name {
			count++
		}
	}
	return count > 1
}

// kindBlocker returns why the proxies cannot replace a backend because of settings that only objects of its kind have.
func (p *objectPlan) kindBlocker(originals []backend, at int, to *backend) (reason, message string) {
	switch p.object.kind {
	case trigger.AutowireRoute:
		return p.routeBlocker(originals, at, to)
	case trigger.AutowireVirtualService:
		if reason, message = originals[at].subsetBlocker(); reason == "" {
			reason, message = p.meshBlocker(to)
		}
		return reason, message
	default:
		return "", ""
	}
}

// leftover returns the index of the alternate backend that the agent pointed at the proxies, if someone has added the
// original one next to it, or -1. Server-side apply does so: it identifies alternate backends by their names.
func (p *objectPlan) leftover() int {
	for i, original := range p.originals {
		if p.object.route == nil || p.object.backends[i].pointer == primaryTarget {
			continue
		}
		for k := range p.object.backends {
			other := &p.object.backends[k]
			if k != i && other.pointer != primaryTarget && other.service.Name == original.service.Name {
				return i
			}
		}
	}
	return -1
}

// removeLeftover returns the write that removes a leftover. It counts as a restored backend. The next plan wires the
// Route again, unless others have restored it too often.
func (p *objectPlan) removeLeftover(at int, state coolDown) (Change, error) {
	state = state.afterRestore(lastSpecManager(p.object.meta), p.Now)
	text, err := state.encode()
	if err != nil {
		return Change{}, err
	}
	change := Change{restores: true, Patch: p.annotate(
		httpv1alpha1.AnnotationAutowireUndo, "", httpv1alpha1.AnnotationAutowireHold, text)}
	change.Patch = append(change.Patch, p.replacePort(nil)...)
	change.Patch = append(change.Patch, desired.Operation{Op: "remove", Path: p.object.backends[at].pointer})
	change.describe(nil, nil, state, true)
	original := p.originals[at]
	p.recordOutcome(p.targetsOf(&original), &p.object.backends[at], httpv1alpha1.ReasonBackendRevertedByOther,
		state.By+" has restored it; the agent retries later")
	return change, nil
}
