package autowire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// googleGateway is the controller of the Gateways of Google Cloud. If the appProtocol of a Service's port is
// googleHTTP2, they use HTTP/2 over TLS, like the backend services of load balancers
// (https://cloud.google.com/kubernetes-engine/docs/how-to/secure-gateway#load-balancer-tls).
const (
	googleGateway = "networking.gke.io/gateway"
	googleHTTP2   = "HTTP2"
)

// addGatewayTLS adds to the behavior of an HTTPRoute what makes its Gateways use TLS to a port of a Service: a
// BackendTLSPolicy, or an appProtocol that the proxies interpret differently.
func (p *objectPlan) addGatewayTLS(found behavior, name string, ref networkingv1.ServiceBackendPort) {
	port := servicePort(ref, p.service(name).Spec.Ports)
	if slices.Contains(p.object.controllers, googleGateway) &&
		port.AppProtocol != nil && strings.EqualFold(*port.AppProtocol, googleHTTP2) {
		found[usesHTTP2TLS] = append(found[usesHTTP2TLS], match{
			text: fmt.Sprintf("appProtocol: %s behind a Gateway of Google Cloud", *port.AppProtocol),
		})
	}
	with := usesTLS
	if protocol, _ := protocolOf(port); protocol == model.HTTP2 {
		with = usesHTTP2TLS
	}
	for i := range p.TLSPolicies {
		policy := &p.TLSPolicies[i]
		appliesHere := func(target apis.PolicyTargetReference) bool { return appliesTo(target, name, port) }
		if policy.DeletionTimestamp == nil && slices.ContainsFunc(policy.Spec.TargetRefs, appliesHere) {
			found[with] = append(found[with], match{text: "BackendTLSPolicy " + policy.Name})
		}
	}
}

// appliesTo reports whether the target of a policy is a port of a Service. The name of a section is that of the port.
// Some implementations accept its number.
func appliesTo(target apis.PolicyTargetReference, service string, port corev1.ServicePort) bool {
	section := target.SectionName
	return target.Group == "" && target.Kind == "Service" && target.Name == service &&
		(section == nil || *section == "" || *section == port.Name || *section == strconv.Itoa(int(port.Port)))
}

// gatewayPortBlocker returns why a Gateway and the proxies would disagree about TLS on a port of Service kedify-proxy:
// what makes the Gateway use TLS does not apply to the port for TLS, or applies to one for clear text.
func (p *objectPlan) gatewayPortBlocker(to *backend) (reason, message string) {
	port := to.service.Port
	hasNoGateway := p.object.kind == trigger.AutowireIngress || p.object.kind == trigger.AutowireService
	if hasNoGateway || to.isCrossNamespace || port.Number == ProxyPort {
		return "", ""
	}
	secured := p.behaviorOf(ProxyService, port).find(usesTLS, usesHTTP2TLS)
	if (secured != nil) == (port.Number == TLSPort) {
		return "", ""
	}
	if secured == nil {
		secured, port.Number = p.toProxies.find(usesTLS, usesHTTP2TLS), ProxyPort
	}
	return httpv1alpha1.ReasonUnsupportedSetting, fmt.Sprintf(
		"%s uses TLS to port %d of Service %s, which is for clear text; let it apply to port %d only",
		secured.text, port.Number, ProxyService, TLSPort)
}
