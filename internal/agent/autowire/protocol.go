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
// certificates. It is HTTP2Port if the proxies use HTTP/2 to the application, and nothing else makes the Ingress
// controller or Gateway use HTTP/2 to ProxyPort.
func (p *objectPlan) proxyPort(
	original *backend, targets []*Target, toService behavior, isCrossNamespace bool,
) int32 {
	if p.object.kind == trigger.AutowireService { // its clients use HTTP/1.1 and HTTP/2 at the same port
		return p.servicePortOfProxies(original)
	}
	isMissing := func(t *Target) bool { return t.Certificate == CertificateNotConfigured }
	wantsTLS := p.object.kind == trigger.AutowireIngress && toService.find(usesTLS, usesHTTP2TLS) == nil &&
		!slices.ContainsFunc(targets, isMissing) &&
		isTLSPort(original.service.Port, p.service(original.service.Name).Spec.Ports)
	switch {
	case !isCrossNamespace && p.toProxies.find(usesTLS, usesHTTP2TLS) != nil || wantsTLS:
		return TLSPort
	case p.upstreamProtocol(targets, original, toService) == model.HTTP2 && p.toProxies.find(usesHTTP2) == nil &&
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
	protocol, _ := protocolOf(servicePort(networkingv1.ServiceBackendPort{Number: number}, ports))
	return protocol
}

// providesHTTP2 reports whether Service kedify-proxy has HTTP2Port, or the agent adds it to its own Service.
func (p *objectPlan) providesHTTP2(isCrossNamespace bool) bool {
	return isManaged(p.proxyService(isCrossNamespace)) || p.proxyProtocol(HTTP2Port, isCrossNamespace) == model.HTTP2
}

// isPortPending reports whether a wired backend stays at ProxyPort until Service kedify-proxy and its EndpointSlices
// have HTTP2Port, which the agent adds to its own Service after an upgrade. Otherwise the backend would be restored
// first, and wired again later.
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
	if reason, message = p.upstreamBlocker(targets, original, toService, to); reason != "" {
		return reason, message
	}
	if reason, message = p.gatewayPortBlocker(to); reason != "" {
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
// does, or the Ingress controller another one to the proxies.
func (p *objectPlan) upstreamBlocker(
	targets []*Target, original *backend, toService behavior, to *backend,
) (reason, message string) {
	toProxies := p.toProxies
	if to.service.Port.Number == HTTP2Port {
		toProxies = p.behaviorOf(ProxyService, to.service.Port)
	}
	protocol := p.upstreamProtocol(targets, original, toService)
	if reason, message = securityBlocker(original, toService, protocol); reason != "" {
		return reason, message
	}
	if reason, message = p.traefikBlocker(original, toService, protocol); reason != "" {
		return reason, message
	}
	http2 := toService.find(usesHTTP2)
	switch {
	case http2 != nil && protocol != model.HTTP2:
		problem := "the proxies would use HTTP/1.1"
		if other := p.otherProtocol(targets); other != "" {
			problem = other + " uses HTTP/1.1"
		}
		return httpv1alpha1.ReasonProtocolMismatch, fmt.Sprintf(
			"%s uses HTTP/2 to the application, and %s; set appProtocol: kubernetes.io/h2c on port %s of Service %s",
			http2.text, problem, portText(original.service.Port), original.service.Name)
	case http2 != nil && toProxies.find(usesHTTP2, usesHTTP2TLS) == nil:
		return lostOnProxies(http2, "uses HTTP/2")
	case http2 == nil && toService.find(usesTLS) == nil:
		return p.retainedBlocker(targets, original, toService)
	}
	return "", ""
}

// securityBlocker returns why the proxies would use clear text to an application to which the Ingress controller uses
// TLS, or the other way round. protocol is the one that the proxies use. They do not support HTTP/2 over TLS. An
// application that is reached over TLS has no port for clear text, whatever the name of its port says.
func securityBlocker(original *backend, toService behavior, protocol model.Protocol) (reason, message string) {
	port, name := portText(original.service.Port), original.service.Name
	tls, http2, http1 := toService.find(usesTLS), toService.find(usesHTTP2), toService.find(usesHTTP1)
	both := toService.find(usesHTTP2TLS)
	if both == nil && tls != nil && http2 != nil {
		both = &match{name: tls.name, text: tls.text + ", with " + http2.text + ","}
	}
	switch {
	case both != nil:
		return httpv1alpha1.ReasonProtocolMismatch, fmt.Sprintf(
			"%s uses HTTP/2 over TLS to the application, which the proxies do not support; let port %s of Service %s serve "+
				"HTTP/1.1 over TLS and set its appProtocol: https, or HTTP/2 in clear text and set its appProtocol: "+
				"kubernetes.io/h2c%s", both.text, port, name, both.changeTo())
	case tls != nil && protocol != model.HTTPS:
		return httpv1alpha1.ReasonProtocolMismatch, fmt.Sprintf(
			"%s uses TLS to the application, and the proxies would use clear text; set appProtocol: https "+
				"on port %s of Service %s", tls.text, port, name)
	case tls == nil && http2 == nil && http1 != nil && protocol == model.HTTPS:
		return httpv1alpha1.ReasonProtocolMismatch, fmt.Sprintf(
			"%s uses clear text to the application, and the proxies would use TLS; set appProtocol: http "+
				"on port %s of Service %s", http1.text, port, name)
	}
	return "", ""
}

// traefikBlocker returns why the proxies would use clear text to an application to which Traefik uses TLS because of
// the number or name of its port, without an annotation (pkg/provider/kubernetes/ingress/kubernetes.go).
func (p *objectPlan) traefikBlocker(
	original *backend, toService behavior, protocol model.Protocol,
) (reason, message string) {
	service := p.service(original.service.Name)
	hasScheme := len(matchNames(service.Annotations, traefik("service.serversscheme")[0], "")) > 0
	if !p.isOfTraefik() || hasScheme || protocol == model.HTTPS ||
		toService.find(usesTLS, usesHTTP1, usesHTTP2, usesHTTP2TLS) != nil ||
		!isTLSPort(original.service.Port, service.Spec.Ports) {
		return "", ""
	}
	return httpv1alpha1.ReasonProtocolMismatch, fmt.Sprintf(
		"Traefik uses TLS to port %s of Service %s because of its number or name, and the proxies would use clear "+
			"text; set appProtocol: https on the port or, if it is for clear text, annotation %s: http on the Service",
		portText(original.service.Port), original.service.Name, traefik("service.serversscheme")[0])
}

// retainedBlocker returns why the proxies would use HTTP/2 to the application for a backend with HTTP/1.1: a target
// retains HTTP/2, because another backend requests it.
func (p *objectPlan) retainedBlocker(
	targets []*Target, original *backend, toService behavior,
) (reason, message string) {
	if _, isSelected := protocolOf(p.port(original)); isSelected {
		return "", ""
	}
	source := withoutProtocol
	if http1 := toService.find(usesHTTP1); http1 != nil {
		source = http1.text
	}
	for _, target := range targets {
		current := p.inherited[target.Name]
		if other := current.protocols[model.HTTP2]; current.settings.IsHTTP2 && other != "" {
			return httpv1alpha1.ReasonProtocolMismatch, fmt.Sprintf(
				"%s uses HTTP/1.1 to the application, and %s uses HTTP/2; set appProtocol on port %s of Service %s",
				source, other, portText(original.service.Port), original.service.Name)
		}
	}
	return "", ""
}

// upstreamProtocol returns the protocol that the proxies use to the application for a backend: that of its Service's
// port. If the port leaves it open, it is HTTP/2 if the backend requests that and its targets take it over.
func (p *objectPlan) upstreamProtocol(targets []*Target, original *backend, toService behavior) model.Protocol {
	protocol, isSelected := protocolOf(p.port(original))
	if isSelected || toService.http2() == nil || p.otherProtocol(targets) != "" {
		return protocol
	}
	return model.HTTP2
}

// otherProtocol returns the source of HTTP/1.1 that another backend of a target requests, or an empty text.
func (p *objectPlan) otherProtocol(targets []*Target) string {
	for _, target := range targets {
		if source := p.inherited[target.Name].protocols[model.HTTP1]; source != "" {
			return source
		}
	}
	return ""
}

// http2 returns the annotation that sets HTTP/2 in clear text, or nil.
func (b behavior) http2() *match {
	if b.find(usesTLS, usesHTTP2TLS) != nil {
		return nil
	}
	return b.find(usesHTTP2)
}

// portBlocker returns why the proxies would receive HTTP/1.1 for an application that uses HTTP/2: Service kedify-proxy
// has no port for HTTP/2. If the Service does not exist, or the agent is about to add the port, no proxy is available.
// That is not reported here, but as ProxyUnavailable.
func (p *objectPlan) portBlocker(original, to *backend) (reason, message string) {
	if len(p.proxyService(to.isCrossNamespace).Spec.Ports) == 0 || p.providesHTTP2(to.isCrossNamespace) {
		return "", ""
	}
	return httpv1alpha1.ReasonProtocolMismatch, fmt.Sprintf(
		"port %s of Service %s uses HTTP/2, and the proxies would receive HTTP/1.1; add port %d to Service %s%s, with "+
			"appProtocol: kubernetes.io/h2c and the targetPort of its port %d",
		portText(original.service.Port), original.service.Name, HTTP2Port, ProxyService, to.namespaceSuffix(), ProxyPort)
}

// port returns the Service's port that a backend references.
func (p *objectPlan) port(ref *backend) corev1.ServicePort {
	return servicePort(ref.service.Port, p.service(ref.service.Name).Spec.Ports)
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

// protocolOf returns the protocol of a port. isSelected is false if the port leaves it open.
func protocolOf(port corev1.ServicePort) (protocol model.Protocol, isSelected bool) {
	appProtocol := ""
	if port.AppProtocol != nil {
		appProtocol = *port.AppProtocol
	}
	selected := model.ProtocolOf(appProtocol, port.Name)
	return cmp.Or(selected, model.HTTP1), selected != ""
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
