package autowire

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// proxyPort returns the proxies' port that a backend references. It is TLSPort if the Ingress requires TLS to the
// proxies, or if its Service's port requires it, no annotation for that Service does, and the targets have
// certificates. It is HTTP2Port if the application's port uses HTTP/2, and nothing else makes the Ingress controller or
// Gateway use HTTP/2 to ProxyPort.
func (p *objectPlan) proxyPort(
	original *backend, targets []*Target, toService behavior, isCrossNamespace bool,
) int32 {
	isMissing := func(t *Target) bool { return t.Certificate == CertificateNotConfigured }
	port := servicePort(original.service.Port, p.service(original.service.Name).Spec.Ports)
	wantsTLS := p.object.kind == trigger.AutowireIngress && toService.find(usesTLS, usesHTTP2TLS) == nil &&
		!slices.ContainsFunc(targets, isMissing) && isTLSPort(original.service.Port, p.service(original.service.Name).Spec.Ports)
	switch {
	case p.toProxies.find(usesTLS, usesHTTP2TLS) != nil || wantsTLS:
		return TLSPort
	case protocolOf(port) == model.HTTP2 && p.toProxies.find(usesHTTP2) == nil &&
		p.proxyProtocol(ProxyPort, isCrossNamespace) != model.HTTP2:
		return HTTP2Port
	}
	return ProxyPort
}

// proxyService returns Service kedify-proxy of the namespace, or of the shared fleet. It is empty if it does not exist.
func (p *objectPlan) proxyService(isCrossNamespace bool) *corev1.Service {
	switch {
	case !isCrossNamespace:
		return p.service(ProxyService)
	case p.Shared.Service != nil:
		return p.Shared.Service
	}
	return &corev1.Service{}
}

// isManaged reports whether the agent manages an object.
func isManaged(object metav1.Object) bool {
	return object.GetLabels()[httpv1alpha1.LabelManagedBy] == httpv1alpha1.ManagedByAgent
}

// proxyProtocol returns the protocol that a port of Service kedify-proxy requests.
func (p *objectPlan) proxyProtocol(number int32, isCrossNamespace bool) model.Protocol {
	ports := p.proxyService(isCrossNamespace).Spec.Ports
	return protocolOf(servicePort(networkingv1.ServiceBackendPort{Number: number}, ports))
}

// providesHTTP2 reports whether Service kedify-proxy has HTTP2Port, or the agent adds it to its own Service.
func (p *objectPlan) providesHTTP2(isCrossNamespace bool) bool {
	return isManaged(p.proxyService(isCrossNamespace)) || p.proxyProtocol(HTTP2Port, isCrossNamespace) == model.HTTP2
}

// isPortPending reports whether a wired backend stays at ProxyPort until Service kedify-proxy and its EndpointSlices
// have HTTP2Port: the agent adds it to its own Service after an upgrade. Two changes of the object would take longer.
func (p *objectPlan) isPortPending(ref, to *backend) bool {
	return to.service.Port.Number == HTTP2Port && ref.service == proxyBackend(ProxyPort) &&
		ref.namespace == to.namespace && p.providesHTTP2(to.isCrossNamespace) && p.hasProxy(ref) && !p.hasProxy(to)
}

// protocolBlocker returns why the proxies cannot replace a backend because of protocols. The Ingress controller must
// use one to the proxies that they support, with a certificate for TLS, and the application must support the one that
// the proxies use to it. toService is the behavior for the backend's Service. A backend that already references the
// proxies stays there while an earlier certificate may still be active.
func (p *objectPlan) protocolBlocker(
	targets []*Target, original *backend, toService behavior, to *backend, isWired bool,
) (reason, message string) {
	if other := p.toProxies.find(usesOther); other != nil {
		return httpv1alpha1.ReasonUnsupportedSetting, other.text +
			" sets a protocol that the proxies do not support; use HTTP or HTTPS"
	}
	if reason, message = p.upstreamBlocker(original, toService, to); reason != "" {
		return reason, message
	}
	switch to.service.Port.Number {
	case HTTP2Port:
		return p.portBlocker(original, to)
	case ProxyPort:
		return "", ""
	}
	for _, target := range targets {
		switch {
		case target.Certificate == CertificateNotConfigured:
			return httpv1alpha1.ReasonUnsupportedSetting, fmt.Sprintf(
				"%s requires TLS to the backends, and HTTPScaledObject %q has no certificate; "+
					"set tlsSecretName in its trigger", p.toProxies.find(usesTLS, usesHTTP2TLS).text, target.Name)
		case target.Certificate == CertificateMissing, target.Certificate == CertificateMaybeActive && !isWired:
			return httpv1alpha1.ReasonNoCertificate, fmt.Sprintf(
				"the proxies lack a certificate for a host of HTTPScaledObject %q; "+
					"see its condition %s", target.Name, httpv1alpha1.ConditionTLSReady)
		}
	}
	return "", ""
}

// upstreamBlocker returns why the proxies would use another protocol to the application than the Ingress controller
// does, or the Ingress controller another one to the proxies. The proxies use the one of the Service's port.
func (p *objectPlan) upstreamBlocker(
	original *backend, toService behavior, to *backend,
) (reason, message string) {
	toProxies := p.toProxies
	if to.service.Port.Number == HTTP2Port {
		toProxies = p.behaviorOf(ProxyService, to.service.Port)
	}
	protocol := protocolOf(servicePort(original.service.Port, p.service(original.service.Name).Spec.Ports))
	http2, tls := toService.find(usesHTTP2, usesHTTP2TLS), toService.find(usesTLS)
	switch {
	case http2 != nil && protocol != model.HTTP2:
		return httpv1alpha1.ReasonProtocolMismatch, fmt.Sprintf(
			"%s uses HTTP/2 to the application, and the proxies would use HTTP/1.1; set appProtocol: kubernetes.io/h2c "+
				"on port %s of Service %s", http2.text, portText(original.service.Port), original.service.Name)
	case http2 != nil && toProxies.find(usesHTTP2, usesHTTP2TLS) == nil:
		return lostOnProxies(http2, "uses HTTP/2")
	case http2 == nil && tls != nil && protocol == model.HTTP1:
		return httpv1alpha1.ReasonProtocolMismatch, fmt.Sprintf(
			"%s uses TLS to the application, and the proxies would use clear text; set appProtocol: https "+
				"on port %s of Service %s", tls.text, portText(original.service.Port), original.service.Name)
	}
	return "", ""
}

// portBlocker returns why the proxies would receive HTTP/1.1 for an application that uses HTTP/2: Service kedify-proxy
// of another owner has no port for HTTP/2. Without the Service, or before the agent has added the port to its own, no
// proxy is available.
func (p *objectPlan) portBlocker(original, to *backend) (reason, message string) {
	if len(p.proxyService(to.isCrossNamespace).Spec.Ports) == 0 || p.providesHTTP2(to.isCrossNamespace) {
		return "", ""
	}
	return httpv1alpha1.ReasonProtocolMismatch, fmt.Sprintf(
		"port %s of Service %s uses HTTP/2, and the proxies would receive HTTP/1.1; add port %d to Service %s%s, with "+
			"appProtocol: kubernetes.io/h2c and the targetPort of its port %d",
		portText(original.service.Port), original.service.Name, HTTP2Port, ProxyService, to.namespaceSuffix(), ProxyPort)
}

// servicePort returns the port of a Service that a backend references. A port that does not exist has no name.
func servicePort(ref networkingv1.ServiceBackendPort, ports []corev1.ServicePort) corev1.ServicePort {
	for _, port := range ports {
		if port.Port == ref.Number || ref.Name != "" && port.Name == ref.Name {
			return port
		}
	}
	return corev1.ServicePort{Port: ref.Number}
}

// protocolOf returns the protocol that the proxies use to a port.
func protocolOf(port corev1.ServicePort) model.Protocol {
	appProtocol := ""
	if port.AppProtocol != nil {
		appProtocol = *port.AppProtocol
	}
	return cmp.Or(model.ProtocolOf(appProtocol, port.Name), model.HTTP1)
}

// portText returns the number or name of a port, for messages.
func portText(port networkingv1.ServiceBackendPort) string {
	if port.Name != "" {
		return port.Name
	}
	return strconv.Itoa(int(port.Number))
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
