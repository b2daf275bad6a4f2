package autowire

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// selection is the part of a Service that autowiring changes: which Pods receive its requests, and at which of their
// ports.
type selection struct {
	selector map[string]string
	ports    []corev1.ServicePort
}

// ServiceObjects returns the Services of the namespace that autowiring may change, sorted by name: those that an
// HTTPScaledObject names, and those that the agent has changed before.
func (n *Namespace) ServiceObjects() []*corev1.Service {
	named := map[string]bool{}
	n.eachObject(func(object *Target) { named[object.AutowireService] = true })
	var found []*corev1.Service
	for _, name := range slices.Sorted(maps.Keys(n.Services)) {
		service := n.Services[name]
		annotations := service.Annotations
		isChanged := annotations[httpv1alpha1.AnnotationAutowireUndo]+annotations[httpv1alpha1.AnnotationAutowireHold] != "" ||
			!isManaged(service) && slices.ContainsFunc(service.ManagedFields, isAgents)
		if isChanged || named[name] && name != ProxyService {
			found = append(found, service)
		}
	}
	return found
}

// FromService returns a Service with one backend: the Pods that it selects, which the proxies replace.
//
// Clients in the cluster call a Service by its names. Those of a load balancer, a node's port or an external address may
// use every host.
func FromService(service *corev1.Service) Object {
	all := requestSet{hosts: serviceHosts(service), paths: []path{{text: "/"}}}
	original := backend{
		pointer: "/spec", label: portsText(service.Spec.Ports), matched: all, requests: all, received: all,
		service:   networkingv1.IngressServiceBackend{Name: service.Name},
		selection: &selection{selector: service.Spec.Selector, ports: service.Spec.Ports},
	}
	if len(service.Spec.Ports) > 0 {
		original.service.Port.Number = service.Spec.Ports[0].Port
	}
	return Object{kind: trigger.AutowireService, meta: service, backends: []backend{original}}
}

// serviceHosts returns the hosts of the requests that a Service receives.
func serviceHosts(service *corev1.Service) []string {
	if isExposed(service) {
		return []string{""}
	}
	return serviceNames(service.Name, service.Namespace)
}

// isExposed reports whether clients outside of the cluster can reach a Service.
func isExposed(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer || service.Spec.Type == corev1.ServiceTypeNodePort ||
		len(service.Spec.ExternalIPs) > 0
}

// serviceNames returns the names by which clients in the cluster call a Service, the longest one first.
func serviceNames(name, namespace string) []string {
	full := name + "." + namespace + ".svc"
	return []string{full + "." + clusterDomain, full, name + "." + namespace, name}
}

// portsText names ports, for messages.
func portsText(ports []corev1.ServicePort) string {
	var numbers []string
	for _, port := range ports {
		numbers = append(numbers, strconv.Itoa(int(port.Port)))
	}
	if len(numbers) == 1 {
		return "port " + numbers[0]
	}
	return "ports " + strings.Join(numbers, ", ")
}

// equal reports whether two selections lead to the same Pods and ports.
func (s *selection) equal(other *selection) bool {
	if s == nil || other == nil {
		return s == other
	}
	target := func(port corev1.ServicePort) string { return port.TargetPort.String() }
	return maps.Equal(s.selector, other.selector) &&
		slices.EqualFunc(s.ports, other.ports, func(a, b corev1.ServicePort) bool { return target(a) == target(b) })
}

// isOfProxies reports whether the selection leads to the proxies: every label that it requires has the value that only
// their Pods have.
func (s *selection) isOfProxies() bool {
	for _, value := range s.selector {
		if value != ProxyService {
			return false
		}
	}
	return len(s.selector) > 0
}

// replaceSelection is replaceWith for a Service.
func (b *backend) replaceSelection(other *backend) []desired.Operation {
	var patch []desired.Operation
	if !maps.Equal(b.selection.selector, other.selection.selector) {
		patch = append(patch, b.selectorOperation(other.selection.selector))
	}
	for i := range b.selection.ports {
		if target := other.selection.ports[i].TargetPort; b.selection.ports[i].TargetPort != target {
			patch = append(patch, desired.Operation{Op: "replace", Path: portField(i, "targetPort"), Value: target})
		}
	}
	return patch
}

// prepareService is prepare for a Service.
func (p *objectPlan) prepareService() {
	ref := &p.object.backends[0]
	p.toProxies, p.originals = behavior{}, map[int]backend{}
	record, err := parseServiceRecord(p.object.meta.GetAnnotations()[httpv1alpha1.AnnotationAutowireUndo])
	if err != nil {
		p.recordIssue = err.Error()
	}
	if record != nil {
		original := *ref
		original.selection, p.isRestored = record.undo(ref.selection)
		p.originals[0] = original
	}
	if ref.selection.isOfProxies() {
		ref.service = proxyBackend(p.selectedPort(ref.selection))
	}
}

// selectedPort returns the port of Service kedify-proxy that leads to the same port of the proxies as a Service.
func (p *objectPlan) selectedPort(current *selection) int32 {
	secure := p.proxyTarget(TLSPort)
	isSecure := func(port corev1.ServicePort) bool { return port.TargetPort == secure }
	if secure != (intstr.IntOrString{}) && slices.ContainsFunc(current.ports, isSecure) {
		return TLSPort
	}
	return ProxyPort
}

// proxyTarget returns the port of the proxies to which a port of Service kedify-proxy leads, the zero value if the
// Service does not have it.
func (p *objectPlan) proxyTarget(number int32) intstr.IntOrString {
	for _, port := range p.service(ProxyService).Spec.Ports {
		if port.Port == number {
			return targetOf(port)
		}
	}
	return intstr.IntOrString{}
}

// targetOf returns the port of the Pods to which a Service's port leads. The API server sets the default.
func targetOf(port corev1.ServicePort) intstr.IntOrString {
	if port.TargetPort == (intstr.IntOrString{}) {
		return intstr.FromInt32(port.Port)
	}
	return port.TargetPort
}

// ofProxies returns the selection with which a Service leads to a port of the proxies. It has the labels of the original
// one, with the values of the proxies' Pods. So kubectl apply and Helm, which compare single labels with those in their
// manifest, restore exactly the original.
func (p *objectPlan) ofProxies(original *selection, number int32) *selection {
	taken := &selection{selector: map[string]string{}, ports: slices.Clone(original.ports)}
	for label := range original.selector {
		taken.selector[label] = ProxyService
	}
	for i := range taken.ports {
		taken.ports[i].TargetPort = p.proxyTarget(number)
	}
	return taken
}

// servicePortOfProxies returns the port of Service kedify-proxy with the protocol that clients use to a Service: TLS if
// its port selects it.
func (p *objectPlan) servicePortOfProxies(original *backend) int32 {
	if protocol, _ := protocolOf(p.port(original)); protocol == model.HTTPS {
		return TLSPort
	}
	return ProxyPort
}

// addSessionAffinity adds to the behavior of a Service its own session affinity, which would select a proxy.
func (p *objectPlan) addSessionAffinity(found behavior, name string) {
	if name != ProxyService && p.service(name).Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		found[sticksByAddress] = append(found[sticksByAddress], match{text: "sessionAffinity: ClientIP"})
	}
}

// hostHint returns what happens to requests for names of a Service that no trigger matches, for messages. It is empty if
// triggers match all of them.
func (o *Object) hostHint(targets []*Target) string {
	var missing []string
	for _, name := range serviceNames(o.meta.GetName(), o.meta.GetNamespace()) {
		isMatched := func(target *Target) bool { return target.matchesHosts([]string{name}) }
		if !slices.ContainsFunc(targets, isMatched) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return " (requests for host " + strings.Join(missing, ", ") + " get status 404)"
}
