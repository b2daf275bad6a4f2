package autowire

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// hostRules returns the table of the annotations of an Ingress that affect all Ingresses with the same host: the
// Ingress controller has one virtual server for a host. The sources are those of annotationRules.
func hostRules() []annotationRule {
	alias := slices.Concat(nginxFamily("server-alias"), haproxyIngress("server-alias"))
	return []annotationRule{
		{names: alias, values: `[\w.,*\s-]+`, when: "a list of hosts", effect: addsHosts},
		{names: alias, when: "any other value", effect: hidden},
		{names: haproxyIngress("server-alias-regex"), effect: hidden},
		{names: nginxFamily("use-regex"), values: isTrue, when: "`true`", effect: matchesExpressions},
		{names: nginxFamily("rewrite-target"), effect: matchesExpressions},
		{
			names: nginxFamily("server-snippet"), values: nginxDirective, effect: hidden,
			when: "with a directive such as `proxy_pass`, `rewrite`, `proxy_set_header Host`",
		},
		{
			names: slices.Concat(nginxFamily("ssl-passthrough"), haproxyIngress("ssl-passthrough")), values: isTrue,
			when: "`true`", effect: hidden,
		},
	}
}

// Mergeable Ingresses of the F5 NGINX Ingress Controller: a master has the host, and minions have its paths.
const (
	mergeableType = "nginx.org/mergeable-ingress-type"
	master        = "master"
	minion        = "minion"
)

// inheritedNames returns the annotations in the tables that a minion has from its master, unless it has its own
// (F5 NGINX Ingress Controller, internal/configs/annotations.go), and those of the virtual server, which only a master
// may have.
func inheritedNames() []string {
	return slices.Concat(f5("location-snippets"), f5("lb-method"), f5("server-snippets"))
}

// hostAnnotations is an Ingress with annotations that affect all Ingresses with the same host.
type hostAnnotations struct {
	object   *Object
	behavior behavior
}

// hostAnnotations returns the Ingresses of the namespace with such annotations.
func (n *Namespace) hostAnnotations() (all []hostAnnotations) {
	rules := hostRules()
	for i := range n.Objects {
		object := &n.Objects[i]
		if object.kind != trigger.AutowireIngress || object.meta.GetDeletionTimestamp() != nil {
			continue
		}
		found := object.effects(rules, &corev1.Service{}, "", networkingv1.ServiceBackendPort{})
		if len(found) > 0 {
			all = append(all, hostAnnotations{object, found})
		}
	}
	return all
}

// fromOthers returns what annotations of other Ingresses with the same host do to the requests for it.
func (p *objectPlan) fromOthers(host string) behavior {
	found := behavior{}
	for _, other := range p.hostAnnotated {
		isOtherClass := other.object.class != "" && p.object.class != "" && other.object.class != p.object.class
		if p.object.kind != trigger.AutowireIngress || other.object == p.object || isOtherClass ||
			!other.object.hasHost(host) {
			continue
		}
		for effect, matches := range other.behavior {
			for _, current := range matches {
				if current.text += " of " + other.object.String(); !p.object.accepts(current.name) {
					found[effect] = append(found[effect], current)
				}
			}
		}
	}
	return found
}

// hasHost reports whether an Ingress has a rule for a host.
func (o *Object) hasHost(host string) bool {
	return slices.ContainsFunc(o.hosts, func(own string) bool { return normalizeHost(own) == normalizeHost(host) })
}

// inheritFromMasters sets the annotations that minions inherit.
func (n *Namespace) inheritFromMasters() {
	for i := range n.Objects {
		object := &n.Objects[i]
		if object.meta.GetAnnotations()[mergeableType] != minion {
			continue
		}
		object.inherited = map[string]string{}
		for k := range n.Objects {
			from := &n.Objects[k]
			isMaster := from.meta.GetAnnotations()[mergeableType] == master && from.meta.GetDeletionTimestamp() == nil
			if !isMaster || !slices.ContainsFunc(object.hosts, from.hasHost) {
				continue
			}
			object.master = from.String()
			for _, name := range inheritedNames() {
				object.inherited[name] = from.meta.GetAnnotations()[name]
			}
		}
	}
}

// expressionBlocker returns why requests would get status 404: an annotation of another Ingress makes the backend's
// path a regular expression without an end, which also matches paths of which it is no prefix by segments.
func expressionBlocker(targets []*Target, original *backend) (reason, message string) {
	by := original.others.find(matchesExpressions)
	if by == nil {
		return "", ""
	}
	wide, isWider := requestSet{hosts: original.received.hosts}, false
	for _, current := range original.received.paths {
		text := literal(current.text)
		wide.paths = append(wide.paths, path{text: text[:strings.LastIndex(text, "/")+1]})
		isWider = isWider || wide.paths[len(wide.paths)-1].text != current.text
	}
	if !isWider || slices.ContainsFunc(targets, func(target *Target) bool { return target.matchesPaths(wide.paths) }) {
		return "", ""
	}
	return httpv1alpha1.ReasonRequestMismatch, fmt.Sprintf(
		"%s makes its path a regular expression, so the proxies receive requests for %s, which HTTPScaledObject %q does not "+
			"match; add %q to pathPrefixes of its trigger, or list the annotation in annotation %s of the Ingress if the "+
			"application receives no other path",
		by.text, wide, targets[0].Name, wide.paths[0].text, httpv1alpha1.AnnotationAutowireAccept)
}
