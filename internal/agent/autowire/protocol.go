package autowire

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// backendProtocol is the protocol that an Ingress controller uses to all backends of an Ingress, as far as the
// Ingress defines it. The zero value is plain HTTP.
type backendProtocol struct {
	// annotation is the annotation that sets the protocol, with its value, for messages.
	annotation string
	// isTLS reports whether the protocol is HTTP over TLS. isUnsupported reports a protocol that the proxies do
	// not support.
	isTLS, isUnsupported bool
}

// protocolAnnotations returns the annotations of which the value is the backend protocol: those of ingress-nginx,
// HAProxy Ingress (two prefixes), the AWS Load Balancer Controller and Azure's Application Gateway.
func protocolAnnotations() []string {
	return []string{
		"nginx.ingress.kubernetes.io/backend-protocol",
		"haproxy-ingress.github.io/backend-protocol", "ingress.kubernetes.io/backend-protocol",
		"alb.ingress.kubernetes.io/backend-protocol",
		"appgw.ingress.kubernetes.io/backend-protocol",
	}
}

// tlsAnnotations returns the annotations that enable TLS to backends by "true": those of HAProxy Ingress (two
// prefixes) and of HAProxy Technologies' controller.
func tlsAnnotations() []string {
	return []string{
		"haproxy-ingress.github.io/secure-backends", "ingress.kubernetes.io/secure-backends", "haproxy.org/server-ssl",
	}
}

// sslServices is the annotation of F5's NGINX controller that lists the Services to connect to over TLS. It
// applies to the proxies only if it lists their Service.
const sslServices = "nginx.org/ssl-services"

// backendProtocolOf returns the backend protocol that an Ingress's annotations set.
func backendProtocolOf(annotations map[string]string) backendProtocol {
	for _, name := range protocolAnnotations() {
		value := annotations[name]
		protocol := backendProtocol{annotation: fmt.Sprintf("annotation %s: %.40q", name, value)}
		switch strings.ToLower(strings.TrimSpace(value)) {
		case "", "http", "h1", "h2", "grpc":
			continue
		case "https", "grpcs", "h1-ssl", "h2-ssl":
			protocol.isTLS = true
		default:
			protocol.isUnsupported = true
		}
		return protocol
	}
	for _, name := range tlsAnnotations() {
		if value := annotations[name]; strings.EqualFold(strings.TrimSpace(value), "true") {
			return backendProtocol{annotation: fmt.Sprintf("annotation %s: %q", name, value), isTLS: true}
		}
	}
	listed := strings.Split(annotations[sslServices], ",")
	if slices.ContainsFunc(listed, func(name string) bool { return strings.TrimSpace(name) == ProxyService }) {
		return backendProtocol{annotation: "annotation " + sslServices, isTLS: true}
	}
	return backendProtocol{}
}

// isTLSPort reports whether Ingress controllers use TLS to a Service's port because of the Service itself: by its
// appProtocol or, as Traefik does, by port number 443 or a name with prefix "https".
func isTLSPort(ref networkingv1.ServiceBackendPort, ports []corev1.ServicePort) bool {
	for _, port := range ports {
		isSamePort := port.Port == ref.Number || ref.Name != "" && port.Name == ref.Name
		if isSamePort && (port.AppProtocol != nil && strings.EqualFold(*port.AppProtocol, "https") ||
			port.Port == 443 || strings.HasPrefix(port.Name, "https")) {
			return true
		}
	}
	return false
}
