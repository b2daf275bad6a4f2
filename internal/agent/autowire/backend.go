package autowire

import (
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// ProxyService and ProxyPort are where backends send requests to the proxies of their namespace.
const (
	ProxyService       = "kedify-proxy"
	ProxyPort    int32 = 8080
)

// backend is a place of an Ingress that names a Service.
type backend struct {
	pointer    string // JSON pointer (RFC 6901) to the object with the Service's name and port
	host, path string // of its rule
	isDefault  bool   // spec.defaultBackend, which has neither
	kind       networkingv1.PathType

	service networkingv1.IngressServiceBackend
}

// backends are the places of an Ingress that name a Service, in order. One that names another resource is none.
func backends(ingress *networkingv1.Ingress) []backend {
	var found []backend
	if named := ingress.Spec.DefaultBackend; named != nil && named.Service != nil {
		place := backend{pointer: "/spec/defaultBackend/service", isDefault: true, service: *named.Service}
		found = append(found, place)
	}
	for i, rule := range ingress.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for j, path := range rule.HTTP.Paths {
			if path.Backend.Service == nil {
				continue
			}
			place := backend{
				pointer: fmt.Sprintf("/spec/rules/%d/http/paths/%d/backend/service", i, j),
				host:    rule.Host, path: path.Path, service: *path.Backend.Service,
			}
			if path.PathType != nil {
				place.kind = *path.PathType
			}
			found = append(found, place)
		}
	}
	return found
}

// isProxy says whether requests go to the proxies.
func (b backend) isProxy() bool { return b.service == proxy() }

// proxy is how a backend names the proxies.
func proxy() networkingv1.IngressServiceBackend {
	return networkingv1.IngressServiceBackend{
		Name: ProxyService, Port: networkingv1.ServiceBackendPort{Number: ProxyPort},
	}
}

// String names the place in messages.
func (b backend) String() string {
	if b.isDefault {
		return "the default backend"
	}
	return b.host + "/" + strings.TrimPrefix(b.path, "/")
}

// prefix is the path that all of the backend's requests begin with: of what may be a regular expression, the
// whole segments before its first special character.
func (b backend) prefix() string {
	at := strings.IndexAny(b.path, `^$*+?()[]{}|\`)
	if at < 0 || b.kind != networkingv1.PathTypeImplementationSpecific {
		return b.path
	}
	return b.path[:strings.LastIndex(b.path[:at], "/")+1]
}
