package autowire

import (
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// classAnnotation is the annotation with an Ingress's class, if its field is empty.
const classAnnotation = "kubernetes.io/ingress.class"

// FromIngress returns an Ingress with its backends, in order. Backends of other resources than Services are
// dropped. routings are the Ingresses that Rollouts manage.
func FromIngress(ingress *networkingv1.Ingress, routings ...Routing) Object {
	object := Object{kind: trigger.AutowireIngress, meta: ingress, class: ingress.Annotations[classAnnotation]}
	if class := ingress.Spec.IngressClassName; class != nil {
		object.class = *class
	}
	for i := range routings {
		if router := routings[i].ingressRouter(ingress); router != "" {
			object.router = fmt.Sprintf("traffic router %s of Rollout %s manages its weights", router, &routings[i])
		}
	}
	everything := requestSet{hosts: []string{""}, paths: []path{{}}}
	if named := ingress.Spec.DefaultBackend; named != nil && named.Service != nil {
		object.hosts = append(object.hosts, "")
		object.backends = append(object.backends, backend{
			pointer: "/spec/defaultBackend/service", label: "the default backend",
			matched: everything, requests: everything, service: *named.Service,
		})
	}
	for i, rule := range ingress.Spec.Rules {
		object.hosts = append(object.hosts, rule.Host)
		if rule.HTTP == nil {
			continue
		}
		for j := range rule.HTTP.Paths {
			if path := &rule.HTTP.Paths[j]; path.Backend.Service != nil {
				ruleAt := fmt.Sprintf("/spec/rules/%d", i)
				pathAt := fmt.Sprintf("%s/http/paths/%d", ruleAt, j)
				object.backends = append(object.backends, backendFromPath(ruleAt, pathAt, rule.Host, path))
			}
		}
	}
	return object
}

// backendFromPath returns the backend of a path of an Ingress rule. ruleAt and pathAt are the JSON pointers of the
// rule and the path.
func backendFromPath(ruleAt, pathAt, host string, rule *networkingv1.HTTPIngressPath) backend {
	var kind networkingv1.PathType
	if rule.PathType != nil {
		kind = *rule.PathType
	}
	matched := path{text: rule.Path, isExact: kind == networkingv1.PathTypeExact}
	if kind == networkingv1.PathTypeImplementationSpecific {
		matched.text = literal(rule.Path)
	}
	requests := requestSet{hosts: []string{host}, paths: []path{matched}}
	return backend{
		pointer: pathAt + "/backend/service",
		label:   host + "/" + strings.TrimPrefix(rule.Path, "/"),
		preconditions: []precondition{
			{pointer: ruleAt + "/host", value: toJSON(nullable(host))},
			{pointer: pathAt + "/path", value: toJSON(nullable(rule.Path))},
			{pointer: pathAt + "/pathType", value: toJSON(nullable(string(kind)))},
		},
		rule:     strings.Join([]string{host, rule.Path, string(kind)}, " "),
		matched:  requests,
		requests: requests,
		service:  *rule.Backend.Service,
	}
}

// literal returns a prefix of all paths that a regular expression may match: the whole segments before its first
// special character.
func literal(expression string) string {
	at := strings.IndexAny(expression, `^$*+?()[]{}|\`)
	if at < 0 {
		return expression
	}
	if strings.HasPrefix(expression[at:], "(/|$)") { // the end of a segment
		return expression[:at]
	}
	return expression[:strings.LastIndex(expression[:at], "/")+1]
}
