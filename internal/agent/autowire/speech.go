package autowire

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// speech is how an Ingress controller speaks to all backends of an Ingress, as far as the Ingress itself says. The
// zero value is clear text.
type speech struct {
	// by is the annotation that says so, with its value.
	by string
	// isTLS says that it speaks TLS, and isForeign that it speaks what the proxies don't answer.
	isTLS, isForeign bool
}

// protocols are the annotations of Ingress controllers whose value is the protocol to backends: of ingress-nginx,
// HAProxy Ingress with its two prefixes, the AWS Load Balancer Controller, and Azure's Application Gateway.
func protocols() []string {
	return []string{
		"nginx.ingress.kubernetes.io/backend-protocol",
		"haproxy-ingress.github.io/backend-protocol", "ingress.kubernetes.io/backend-protocol",
		"alb.ingress.kubernetes.io/backend-protocol",
		"appgw.ingress.kubernetes.io/backend-protocol",
	}
}

// switches are the annotations that ask for TLS to backends by "true": of HAProxy Ingress, with its two prefixes, and
// of HAProxy Technologies' controller.
func switches() []string {
	return []string{
		"haproxy-ingress.github.io/secure-backends", "ingress.kubernetes.io/secure-backends", "haproxy.org/server-ssl",
	}
}

// sslServices is the annotation of NGINX's own controller that lists Services to speak TLS to. It asks for
// TLS to the proxies only if they are in it.
const sslServices = "nginx.org/ssl-services"

// speechOf is what the annotations of an Ingress say.
func speechOf(annotations map[string]string) speech {
	for _, name := range protocols() {
		value := annotations[name]
		said := speech{by: fmt.Sprintf("annotation %s: %.40q", name, value)}
		switch strings.ToLower(strings.TrimSpace(value)) {
		case "", "http", "h1", "h2", "grpc":
			continue
		case "https", "grpcs", "h1-ssl", "h2-ssl":
			said.isTLS = true
		default:
			said.isForeign = true
		}
		return said
	}
	for _, name := range switches() {
		if value := annotations[name]; strings.EqualFold(strings.TrimSpace(value), "true") {
			return speech{by: fmt.Sprintf("annotation %s: %q", name, value), isTLS: true}
		}
	}
	listed := strings.Split(annotations[sslServices], ",")
	if slices.ContainsFunc(listed, func(name string) bool { return strings.TrimSpace(name) == ProxyService }) {
		return speech{by: "annotation " + sslServices, isTLS: true}
	}
	return speech{}
}

// isTLSPort says whether a port of a Service is one that Ingress controllers speak TLS to because of the
// Service: by its application protocol, or as Traefik does, by its number or name.
func isTLSPort(asked networkingv1.ServiceBackendPort, ports []corev1.ServicePort) bool {
	for _, port := range ports {
		isIt := port.Port == asked.Number || asked.Name != "" && port.Name == asked.Name
		if isIt && (port.AppProtocol != nil && strings.EqualFold(*port.AppProtocol, "https") ||
			port.Port == 443 || strings.HasPrefix(port.Name, "https")) {
			return true
		}
	}
	return false
}
