package autowire

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// effect is what an annotation does to the requests of a backend.
type effect int

const (
	// harmless annotations do not prevent autowiring.
	harmless effect = iota
	// replacesHost sends the value as host. replacesPath sends it as path of every request. replacesPrefix sends it
	// instead of the path that the rule matched, and stripsPrefix removes that path.
	replacesHost
	replacesPath
	replacesPrefix
	stripsPrefix
	// addsHosts adds the hosts in the value to every rule with a host.
	addsHosts
	// matchesExpressions makes every path a regular expression.
	matchesExpressions
	// usesHTTP1, usesTLS, usesHTTP2 and usesHTTP2TLS set the protocol to the backend; usesOther is one that the proxies
	// lack.
	usesHTTP1
	usesTLS
	usesHTTP2
	usesHTTP2TLS
	usesOther
	// upgrades allows WebSocket.
	upgrades
	// sticksByCookie, sticksByHeader and sticksByAddress send the requests of a client to the same Pod: by a cookie that
	// the Ingress controller sets, a header, or the client's address. sticks does so in a way that the proxies lack.
	sticksByCookie
	sticksByHeader
	sticksByAddress
	sticks
	// splits sends some of the requests to another Service or to selected Pods.
	splits
	// belongsToService means settings of a Service that are lost unless Service kedify-proxy has them too.
	belongsToService
	// reachesPods means that a load balancer needs no NodePort.
	reachesPods
	// expectsStatus means that health checks fail with another status than one of those in the value. checksByTLS and
	// checksInClear set the protocol of health checks, and checksElsewhere sends them to a path or port at which the
	// proxies do not answer them.
	expectsStatus
	checksByTLS
	checksInClear
	checksElsewhere
	// hidden is an effect on the requests or the connection that the agent cannot determine.
	hidden
)

// place is a set of kinds of objects that can have an annotation. onRoute means HTTPRoutes, onOpenShift Routes.
type place int

const (
	onIngress place = 1 << iota
	onRoute
	onService
	onOpenShift
)

// annotationRule is one row of the table of annotations.
type annotationRule struct {
	// names are the annotations. "*" at the end matches any characters, and {service} is the backend's Service.
	names []string
	// on are the objects on which the annotations have the effect. Zero means onIngress.
	on place
	// values is a regular expression for the whole value, which ignores case. Empty matches every value. {service}
	// is the backend's Service, and {port} is the number or name of its port. Group header is the name of a header, and
	// group variable that of its variable in nginx.
	values string
	// when describes values for the reference; empty for any value.
	when string
	// effect is what the annotations do.
	effect effect
}

// match is an annotation that has an effect.
type match struct {
	// text is the annotation with its value, and its object if that is another one, for messages.
	text string
	// name and value are the annotation. header is the header that the value names, or empty.
	name, value, header string
	// isOnService reports whether a Service has the annotation.
	isOnService bool
}

// changeTo returns the part of a fix that changes an annotation to the protocol of a port. It is empty for other
// sources.
func (m *match) changeTo() string {
	if m.name == "" {
		return ""
	}
	return ", and use the same protocol in the annotation"
}

// behavior is what the annotations of an Ingress or HTTPRoute, and of one Service in it, do to the requests to that
// Service.
type behavior map[effect][]match

// find returns the first annotation with one of the effects, or nil.
func (b behavior) find(effects ...effect) *match {
	for _, wanted := range effects {
		if len(b[wanted]) > 0 {
			return &b[wanted][0]
		}
	}
	return nil
}

// behaviorOf returns the behavior for requests to a port of a Service, which may not exist, except for annotations that
// the object's owner accepts.
func (o *Object) behaviorOf(
	rules []annotationRule, service *corev1.Service, name string, port networkingv1.ServiceBackendPort,
) behavior {
	found := o.effects(rules, service, name, port)
	for current, matches := range found {
		kept := slices.DeleteFunc(matches, func(candidate match) bool { return o.accepts(candidate.name) })
		if found[current] = kept; len(kept) == 0 {
			delete(found, current)
		}
	}
	return found
}

// effects returns the behavior for requests to a port of a Service, which may not exist.
func (o *Object) effects(
	rules []annotationRule, service *corev1.Service, name string, port networkingv1.ServiceBackendPort,
) behavior {
	placeholders := strings.NewReplacer(
		"{service}", regexp.QuoteMeta(name), "{port}", portPattern(port, service.Spec.Ports))
	found, handled := behavior{}, map[string]bool{}
	for i := range rules {
		rule := &rules[i]
		for _, pattern := range rule.names {
			for _, candidate := range o.matches(rule, strings.ReplaceAll(pattern, "{service}", name), service, name) {
				if handled[candidate.name] {
					continue
				}
				if header, isMatch := rule.matches(candidate.value, placeholders); isMatch {
					candidate.header = header
					handled[candidate.name] = true
					found[rule.effect] = append(found[rule.effect], candidate)
				}
			}
		}
	}
	return found
}

// matches returns the annotations of the object, or of a Service in it, with the name in a rule. The value of a Service
// takes precedence, and one that the object inherits comes last.
func (o *Object) matches(rule *annotationRule, pattern string, service *corev1.Service, name string) []match {
	own, on := onIngress, max(rule.on, onIngress)
	switch o.kind {
	case trigger.AutowireHTTPRoute:
		own = onRoute
	case trigger.AutowireRoute:
		own = onOpenShift
	case trigger.AutowireVirtualService, trigger.AutowireService: // Istio's gateways and kube-proxy read none of them
		return nil
	default:
	}
	var found []match
	if on&onService != 0 && own != onOpenShift && (own == onIngress || on&onRoute != 0) {
		found = matchNames(service.Annotations, pattern, " of Service "+name)
		for i := range found {
			found[i].isOnService = true
		}
	}
	if len(found) == 0 && on&own != 0 {
		found = matchNames(o.meta.GetAnnotations(), pattern, "")
	}
	if len(found) == 0 && on&own != 0 {
		found = matchNames(o.inherited, pattern, " of "+o.master)
	}
	return found
}

// matchNames returns the annotations whose names match a pattern, sorted by name. suffix is added to their texts, and
// names the object that has them.
func matchNames(annotations map[string]string, pattern, suffix string) (found []match) {
	names := []string{pattern}
	if prefix, isPrefix := strings.CutSuffix(pattern, "*"); isPrefix {
		names = slices.Sorted(maps.Keys(annotations))
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
	}
	for _, name := range names {
		if value := strings.TrimSpace(annotations[name]); value != "" {
			text := fmt.Sprintf("annotation %s: %.40q%s", name, value, suffix)
			found = append(found, match{text: text, name: name, value: value})
		}
	}
	return found
}

// matches reports whether the rule applies to a value. header is the header that the value names, or empty.
func (r *annotationRule) matches(value string, placeholders *strings.Replacer) (header string, isMatch bool) {
	if r.values == "" {
		return "", true
	}
	expression, err := regexp.Compile(`(?is)^(` + placeholders.Replace(r.values) + `)$`)
	if err != nil {
		return "", false
	}
	groups := expression.FindStringSubmatch(value)
	if groups == nil {
		return "", false
	}
	if at := expression.SubexpIndex("header"); at >= 0 {
		header = groups[at]
	}
	if at := expression.SubexpIndex("variable"); at >= 0 {
		header = strings.ReplaceAll(groups[at], "_", "-")
	}
	return strings.ToLower(header), true
}

// accepts reports whether the object's owner allows autowiring in spite of an annotation.
func (o *Object) accepts(name string) bool {
	for accepted := range strings.SplitSeq(o.meta.GetAnnotations()[httpv1alpha1.AnnotationAutowireAccept], ",") {
		if strings.TrimSpace(accepted) == name {
			return true
		}
	}
	return false
}

// portPattern returns a regular expression for the number and the name of a port.
func portPattern(port networkingv1.ServiceBackendPort, ports []corev1.ServicePort) string {
	names := []string{}
	for _, candidate := range ports {
		if candidate.Port == port.Number || candidate.Name == port.Name && port.Name != "" {
			names = append(names, strconv.Itoa(int(candidate.Port)))
			if candidate.Name != "" {
				names = append(names, regexp.QuoteMeta(candidate.Name))
			}
		}
	}
	if len(names) == 0 {
		names = append(names, strconv.Itoa(int(port.Number)))
	}
	return "(" + strings.Join(names, "|") + ")"
}

// received returns the requests that a backend receives of those that its rule matches, and the annotation that
// changes them, or nil.
func (b behavior) received(matched requestSet) (requestSet, *match) {
	received := requestSet{hosts: slices.Clone(matched.hosts), paths: slices.Clone(matched.paths)}
	for _, alias := range b[addsHosts] {
		if len(received.hosts) > 0 && received.hosts[0] != "" {
			received.hosts = append(received.hosts, splitHosts(alias.value)...)
		}
	}
	for i := range received.paths {
		changed := &received.paths[i]
		switch {
		case b.find(replacesPath) != nil:
			*changed = path{text: b.find(replacesPath).value, isExact: true}
		case b.find(replacesPrefix) != nil:
			changed.text = b.find(replacesPrefix).value
		case b.find(stripsPrefix) != nil:
			changed.text = "/"
		}
	}
	if host := b.find(replacesHost); host != nil {
		received.hosts = []string{host.value}
	}
	return received, b.find(replacesPath, replacesPrefix, stripsPrefix, replacesHost, addsHosts)
}

// splitHosts returns the hosts of a list that commas or spaces separate.
func splitHosts(list string) []string {
	return strings.FieldsFunc(list, func(separator rune) bool { return separator == ',' || separator <= ' ' })
}
