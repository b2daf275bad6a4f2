package autowire

import (
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// OfIngress is an Ingress with the places in it that name a Service, in order. One that names another resource is
// none.
func OfIngress(ingress *networkingv1.Ingress) Object {
	found := Object{kind: trigger.AutowireIngress, meta: ingress, speech: speechOf(ingress.Annotations)}
	if named := ingress.Spec.DefaultBackend; named != nil && named.Service != nil {
		found.places = append(found.places, backend{
			pointer: "/spec/defaultBackend/service", title: "the default backend",
			sees: request{hosts: []string{""}, paths: []path{{}}}, service: *named.Service,
		})
	}
	for i, rule := range ingress.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for j := range rule.HTTP.Paths {
			if one := &rule.HTTP.Paths[j]; one.Backend.Service != nil {
				at := fmt.Sprintf("/spec/rules/%d", i)
				found.places = append(found.places, ofPath(at, fmt.Sprintf("%s/http/paths/%d", at, j), rule.Host, one))
			}
		}
	}
	return found
}

// ofPath is the backend of a path. at points to its rule, and below to the path.
func ofPath(at, below, host string, one *networkingv1.HTTPIngressPath) backend {
	var kind networkingv1.PathType
	if one.PathType != nil {
		kind = *one.PathType
	}
	sees := path{text: one.Path, isExact: kind == networkingv1.PathTypeExact}
	if kind == networkingv1.PathTypeImplementationSpecific {
		sees.text = literal(one.Path)
	}
	return backend{
		pointer: below + "/backend/service",
		title:   host + "/" + strings.TrimPrefix(one.Path, "/"),
		marks: []mark{
			{pointer: at + "/host", value: encoded(orNull(host))},
			{pointer: below + "/path", value: encoded(orNull(one.Path))},
			{pointer: below + "/pathType", value: encoded(orNull(string(kind)))},
		},
		rule:    strings.Join([]string{host, one.Path, string(kind)}, " "),
		sees:    request{hosts: []string{host}, paths: []path{sees}},
		service: *one.Backend.Service,
	}
}

// literal is what all paths begin with that a regular expression matches, perhaps: the whole segments before its
// first special character.
func literal(expression string) string {
	at := strings.IndexAny(expression, `^$*+?()[]{}|\`)
	if at < 0 {
		return expression
	}
	return expression[:strings.LastIndex(expression[:at], "/")+1]
}
