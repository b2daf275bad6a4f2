package autowire

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Label and annotation by which Argo Rollouts manages the selector of a Service (argo-rollouts,
// pkg/apis/rollouts/v1alpha1/types.go). It writes the label's value into the selector at every update.
const (
	rolloutHash      = "rollouts-pod-template-hash"
	rolloutManagedBy = "argo-rollouts.argoproj.io/managed-by-rollouts"
)

// serviceBlocker returns why a Service must not select the proxies, until someone changes something. isWired reports
// whether it does.
func (p *objectPlan) serviceBlocker(targets []*Target, original *backend, isWired bool) (reason, message string) {
	if p.object.kind != trigger.AutowireService {
		return "", ""
	}
	service := p.service(original.service.Name)
	if message = serviceIssue(service, original.selection); message != "" {
		return httpv1alpha1.ReasonUnsupportedSetting, message
	}
	if message = p.clientProtocolIssue(service); message != "" {
		return httpv1alpha1.ReasonUnsupportedAnnotation, message
	}
	if message = p.nameIssue(targets, service); message != "" {
		return httpv1alpha1.ReasonRequestMismatch, message
	}
	for _, target := range targets {
		if message = p.portIssue(target, original); message == "" {
			message = p.fallbackIssue(target, original)
		}
		if message != "" {
			return httpv1alpha1.ReasonUnsupportedSetting, message
		}
	}
	if message = p.loopIssue(targets, service.Name); message != "" {
		return httpv1alpha1.ReasonUnsupportedSetting, message
	}
	if message = p.certificateIssue(targets, original); message != "" {
		return httpv1alpha1.ReasonUnsupportedSetting, message
	}
	return p.labelBlocker(original, isWired)
}

// serviceIssue returns why the agent cannot take over a Service, whatever its clients and triggers, or an empty text.
func serviceIssue(service *corev1.Service, original *selection) string {
	spec := &service.Spec
	_, hasHash := original.selector[rolloutHash]
	rollout := service.Annotations[rolloutManagedBy]
	isLocal := spec.InternalTrafficPolicy != nil && *spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
	switch {
	case spec.Type == corev1.ServiceTypeExternalName:
		return "it has type ExternalName, and selects no Pods; use a Service with a selector"
	case spec.ClusterIP == corev1.ClusterIPNone:
		return "it is headless, so clients would see the addresses of the proxies, and use the ports of the application " +
			"there; give clients a Service with a cluster IP"
	case len(original.selector) == 0:
		return "it has no selector, and the Service to which the proxies forward has none that the agent could give it; name " +
			"one that selects the application in fallbackService of the trigger"
	case hasHash || rollout != "":
		return fmt.Sprintf("Argo Rollouts manages its selector (Rollout %s); name a Service of its own in key service, "+
			"which selects the Pods of all versions, without label %s", nonEmpty(rollout, "unknown"), rolloutHash)
	case spec.PublishNotReadyAddresses:
		return "it has publishNotReadyAddresses, so clients would reach proxies that are not ready; remove it"
	case spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal:
		return "it has externalTrafficPolicy: Local, so a load balancer would lose requests until it has found the nodes " +
			"of the proxies; set Cluster"
	case isLocal:
		return "it has internalTrafficPolicy: Local, so clients on nodes without a proxy would reach nothing; set Cluster"
	}
	return ""
}

// nonEmpty returns text, or other if it is empty.
func nonEmpty(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// isOfProxyProtocol reports whether an annotation of a Service, of any cloud, is about the PROXY protocol.
func isOfProxyProtocol(name string) bool {
	return strings.Contains(strings.ReplaceAll(strings.ToLower(name), "-", ""), "proxyprotocol")
}

// clientProtocolIssue returns why the proxies would not understand a load balancer: an annotation makes it send the PROXY
// protocol, or an empty text.
func (p *objectPlan) clientProtocolIssue(service *corev1.Service) string {
	for _, name := range slices.Sorted(maps.Keys(service.Annotations)) {
		value := strings.ToLower(strings.TrimSpace(service.Annotations[name]))
		if !isOfProxyProtocol(name) || slices.Contains([]string{"", "false", "none"}, value) || p.object.accepts(name) {
			continue
		}
		return fmt.Sprintf("annotation %s: %.40q makes the load balancer send the PROXY protocol, which the proxies do not "+
			"accept; remove it, or list it in annotation %s of the Service", name, value, httpv1alpha1.AnnotationAutowireAccept)
	}
	return ""
}

// nameIssue returns why clients in the cluster would get status 404, or an empty text: no trigger has a name of the
// Service as host, and others reach the Service neither directly nor through an Ingress or a route.
func (p *objectPlan) nameIssue(targets []*Target, service *corev1.Service) string {
	if isExposed(service) {
		return ""
	}
	names := serviceNames(service.Name, p.Name)
	for _, target := range targets {
		isName := func(host string) bool { return strings.HasPrefix(host, names[1]+".") } // of any cluster domain
		isMatched := func(name string) bool { return target.matchesHosts([]string{name}) }
		if slices.ContainsFunc(names, isMatched) || slices.ContainsFunc(target.Hosts, isName) ||
			p.isBackendFor(target, service.Name) {
			return ""
		}
	}
	return fmt.Sprintf("clients in the cluster send its name as host, and the proxies would answer 404, because "+
		"HTTPScaledObject %q matches none of %s; add those that clients use to hosts of its trigger",
		targets[0].Name, strings.Join(names, ", "))
}

// isBackendFor reports whether a Service is the backend of an Ingress or a route for requests that a target matches.
func (n *Namespace) isBackendFor(target *Target, service string) bool {
	isFor := func(ref backend) bool {
		return ref.selection == nil && !ref.isCrossNamespace && ref.service.Name == service && target.matches(ref.received)
	}
	return slices.ContainsFunc(n.Objects, func(object Object) bool { return slices.ContainsFunc(object.backends, isFor) })
}

// portIssue returns why the proxies cannot replace all ports of a Service, or an empty text. They select the application
// by host and path, and receive the requests of all ports at one of theirs.
func (p *objectPlan) portIssue(target *Target, original *backend) string {
	var own *corev1.ServicePort
	ports := original.selection.ports
	for i := range ports {
		if ports[i].Port == target.Port.Number || ports[i].Name != "" && ports[i].Name == target.Port.Name {
			own = &ports[i]
		}
	}
	if own == nil {
		return fmt.Sprintf("it has no port %s, which is that of HTTPScaledObject %q; add the port, or correct the trigger",
			portText(target.Port), target.Name)
	}
	wanted, _ := protocolOf(*own)
	for i := range ports {
		port := &ports[i]
		if !isTCP(port) {
			return fmt.Sprintf("its port %d is for %s, and the proxies serve TCP; move the port to a Service of its own",
				port.Port, port.Protocol)
		}
		if targetOf(*port) != targetOf(*own) {
			return fmt.Sprintf("its port %d leads to another port of the application than port %d of HTTPScaledObject %q, and "+
				"all ports would lead to the proxies; move port %[1]d to a Service of its own",
				port.Port, own.Port, target.Name)
		}
		if protocol, _ := protocolOf(*port); (protocol == model.HTTPS) != (wanted == model.HTTPS) {
			return fmt.Sprintf("its ports %d and %d lead to the same port of the application, and only one of them selects "+
				"TLS; give both the same appProtocol", port.Port, own.Port)
		}
	}
	return tlsIssue(own)
}

// tlsIssue returns why it is unknown whether clients use TLS to a port, or an empty text. The name or number of the port
// suggests it, and the proxies would use clear text to the application.
func tlsIssue(port *corev1.ServicePort) string {
	target := targetOf(*port)
	isSuspect := port.Port == 443 || port.Port == 8443 || target.IntValue() == 443 || target.IntValue() == 8443
	if _, isSelected := protocolOf(*port); isSelected || port.AppProtocol != nil || !isSuspect {
		return ""
	}
	return fmt.Sprintf("its port %d may be one for TLS, and has no appProtocol; set appProtocol: https on it, or "+
		"appProtocol: http if a load balancer ends TLS", port.Port)
}

// certificateIssue returns why the proxies cannot accept the TLS of a Service's clients, or an empty text.
func (p *objectPlan) certificateIssue(targets []*Target, original *backend) string {
	if p.servicePortOfProxies(original) != TLSPort {
		return ""
	}
	for _, target := range targets {
		if target.Certificate == CertificateNotConfigured {
			return fmt.Sprintf("clients use TLS to its port %d, and HTTPScaledObject %q has no certificate; set tlsSecretName "+
				"in its trigger", original.service.Port.Number, target.Name)
		}
	}
	return ""
}

// fallbackIssue returns why the proxies cannot forward to a target's fallback Service, or an empty text. One that does
// not exist yet is none.
func (p *objectPlan) fallbackIssue(target *Target, original *backend) string {
	name, at := original.service.Name, target.forwardService()
	service := p.Services[at]
	if at == name {
		return fmt.Sprintf("HTTPScaledObject %q forwards to the same Service, so the proxies would send requests to "+
			"themselves; set fallbackService in its trigger, or its spec.scaleTargetRef.service, to another one", target.Name)
	}
	if service == nil || isManaged(service) {
		return ""
	}
	for _, label := range slices.Sorted(maps.Keys(original.selection.selector)) {
		if value := original.selection.selector[label]; service.Spec.Selector[label] != value {
			return fmt.Sprintf("Service %s, to which HTTPScaledObject %q forwards, does not select the same Pods; add %s: %s to "+
				"its selector", at, target.Name, label, value)
		}
	}
	if portNumber(target.Port, service.Spec.Ports) == 0 ||
		!slices.ContainsFunc(service.Spec.Ports, func(port corev1.ServicePort) bool {
			return port.Port == target.Port.Number || port.Name != "" && port.Name == target.Port.Name
		}) {
		return fmt.Sprintf("Service %s, to which HTTPScaledObject %q forwards, has no port %s; add it",
			at, target.Name, portText(target.Port))
	}
	return ""
}

// loopIssue returns why the proxies would send requests to themselves, or an empty text: an HTTPScaledObject other than
// the targets forwards to the Service, or any has a weight for it.
func (p *objectPlan) loopIssue(targets []*Target, name string) (issue string) {
	p.eachObject(func(object *Target) {
		isOther := object.Service == name && !slices.Contains(targets, object)
		if issue != "" || !isOther && !slices.Contains(object.Weighted, name) {
			return
		}
		issue = fmt.Sprintf("HTTPScaledObject %q forwards to it, too, so the proxies would send those requests to "+
			"themselves; let it forward to Service %s", object.Name, targets[0].forwardService())
	})
	return issue
}

// labelBlocker returns why a selector cannot select the proxies: their Pods lack one of its labels, or not all have it
// yet.
func (p *objectPlan) labelBlocker(original *backend, isWired bool) (reason, message string) {
	for _, label := range slices.Sorted(maps.Keys(original.selection.selector)) {
		switch {
		case p.ProxyLabels[label] == ProxyService || isWired && p.NextProxyLabels[label] == ProxyService:
		case p.NextProxyLabels[label] == ProxyService:
			return httpv1alpha1.ReasonProxyUnavailable, fmt.Sprintf(
				"not every Pod of Deployment %s has label %s yet", ProxyService, label)
		case len(p.ProxyLabels) == 0:
			return "", "" // without proxies, blocker has the reason
		default:
			return httpv1alpha1.ReasonUnsupportedSetting, fmt.Sprintf(
				"its selector has label %[1]s, which the proxies' Pods lack; add label %[1]s: %[2]s to them: by annotation %[3]s: "+
					`'{"labels": {"%[1]s": "%[2]s"}}' of the Namespace, or in Deployment %[2]s if it is your own`,
				label, ProxyService, httpv1alpha1.AnnotationProxyPod)
		}
	}
	return "", ""
}

// forwardBlocker returns why a Service that does not select the proxies must wait: a target does not forward to its
// fallback Service yet, so the proxies would send requests to themselves.
func (p *objectPlan) forwardBlocker(targets []*Target) (reason, message string) {
	if p.object.kind != trigger.AutowireService {
		return "", ""
	}
	for _, target := range targets {
		at := target.forwardService()
		problem := p.ServiceErrors[at]
		switch {
		case p.Services[at] == nil && problem != "":
			return httpv1alpha1.ReasonWriteRejected, fmt.Sprintf("Service %s, which selects the application's Pods for the "+
				"proxies, is missing, and the API server rejected the agent's write: %s; create it manually", at, problem)
		case p.Services[at] == nil:
			return httpv1alpha1.ReasonNotProgrammed, fmt.Sprintf("Service %s, which selects the application's Pods for the "+
				"proxies, does not exist yet", at)
		case target.Service != at:
			return httpv1alpha1.ReasonNotProgrammed, fmt.Sprintf("HTTPScaledObject %q does not forward to Service %s yet, which "+
				"waits for the Service's EndpointSlices; if the object is your own, set its spec.scaleTargetRef.service",
				target.Name, at)
		}
	}
	return "", ""
}
