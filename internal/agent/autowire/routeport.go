package autowire

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
)

// Pointers to the port of a Route, which selects the endpoints of all its backends.
const (
	portOfRoute       = "/spec/port"
	targetPortOfRoute = portOfRoute + "/targetPort"
)

// targetPort returns field spec.port.targetPort of a Route as JSON, or an empty text.
func (o *Object) targetPort() string {
	var port apis.RoutePort
	if json.Unmarshal(o.route.Spec.Port, &port) != nil || len(port.TargetPort) == 0 {
		return ""
	}
	return canonicalJSON(port.TargetPort)
}

// setRoutePorts sets the ports of the backends of a Route, and of their originals. record is the restore record.
//
// The original port is in the record, as long as the Route has the one that the agent wrote. Any other one was written
// by someone else, and is the original from then on. If that is the one before, the Route was restored in part.
func (p *objectPlan) setRoutePorts(record []backend) {
	current := p.object.targetPort()
	p.originalPort = current
	if len(record) > 0 && record[0].writtenPort != "" {
		switch current {
		case record[0].writtenPort:
			p.originalPort = record[0].targetPort
		case record[0].targetPort:
			p.isRestored = true
		}
	}
	for i := range p.object.backends {
		ref := &p.object.backends[i]
		if ref.targetPort = current; ref.isProxy() {
			p.setProxyPort(ref)
			continue
		}
		ref.targetPort = p.originalPort
		p.setRoutePort(ref)
	}
	for i, original := range p.originals {
		original.targetPort = p.originalPort
		p.setRoutePort(&original)
		p.originals[i] = original
	}
}

// setRoutePort sets the port of a Service from which the router takes the endpoints of a backend. It stays zero if the
// Service has none, or if the Route selects no port and the Service has several. If a target port of the Pods belongs to
// several ports, that of a trigger precedes the others.
func (p *objectPlan) setRoutePort(ref *backend) {
	ref.service.Port = networkingv1.ServiceBackendPort{}
	numbers := p.endpointPorts(ref.service.Name, p.originalPort)
	if len(numbers) == 0 || p.originalPort == "" && len(numbers) > 1 {
		return
	}
	ref.service.Port.Number = numbers[0]
	p.eachObject(func(object *Target) {
		number := portNumber(object.Port, p.service(object.Service).Spec.Ports)
		if object.Service == ref.service.Name && slices.Contains(numbers, number) {
			ref.service.Port.Number = number
		}
	})
}

// setProxyPort sets the port of a backend that references the proxies, ProxyPort if it is none of theirs.
func (p *objectPlan) setProxyPort(ref *backend) {
	ref.service.Port = proxyBackend(ProxyPort).Port
	for _, number := range []int32{HTTP2Port, TLSPort} {
		if ref.targetPort == p.proxyTargetPort(number) {
			ref.service.Port.Number = number
		}
	}
}

// endpointPorts returns the ports of a Service whose endpoints OpenShift's router uses for a target port: those with
// that name, and those with that port of the Pods (endpointsForAlias in pkg/router/template/template_helper.go of
// openshift/router). Without a target port, it uses all. The number of a named port of the Pods is unknown here; the only
// port of a Service counts as the right one.
func (p *objectPlan) endpointPorts(name, targetPort string) (numbers []int32) {
	var text intstr.IntOrString
	if json.Unmarshal([]byte(targetPort), &text) != nil {
		text = intstr.FromString(targetPort)
	}
	wanted := text.String()
	_, err := strconv.ParseUint(wanted, 10, 16)
	ports := p.service(name).Spec.Ports
	for _, port := range ports {
		target := targetOf(port)
		isTarget := target.Type == intstr.Int && target.String() == wanted
		isUnknown := target.Type == intstr.String && len(ports) == 1 && err == nil
		if port.Protocol != corev1.ProtocolUDP && (targetPort == "" || port.Name == wanted || isTarget || isUnknown) {
			numbers = append(numbers, port.Port)
		}
	}
	return numbers
}

// proxyTargetPort returns the target port with which a Route references a port of Service kedify-proxy, as JSON: its
// name, or without one the port of the Pods. It is empty if that has a name, too.
func (p *objectPlan) proxyTargetPort(number int32) string {
	for _, port := range p.service(ProxyService).Spec.Ports {
		target := targetOf(port)
		switch {
		case port.Port != number:
		case port.Name != "":
			return toJSON(port.Name)
		case target.Type == intstr.Int:
			return toJSON(target.IntVal)
		default:
			return ""
		}
	}
	return toJSON(map[int32]string{ProxyPort: "http", HTTP2Port: "h2c", TLSPort: "https"}[number])
}

// targetPortIssue returns why a Route cannot select a port of the proxies for one of its backends: it selects the ports
// of all of them by the same text. The result is an empty text if it can.
func (p *objectPlan) targetPortIssue(originals []backend, at int, to *backend) string {
	if to.targetPort == "" {
		return fmt.Sprintf("port %d of Service %s has no name, by which a Route could reference it; give it one",
			to.service.Port.Number, ProxyService)
	}
	for i := range originals {
		name := originals[i].service.Name
		if i == at || slices.Equal(p.endpointPorts(name, p.originalPort), p.endpointPorts(name, to.targetPort)) {
			continue
		}
		return fmt.Sprintf("its spec.port.targetPort selects the ports of all its backends, and %s, for Service %s, would "+
			"select other ports of Service %s; name the port of that Service %[1]s, and use this name in the Route",
			to.targetPort, ProxyService, name)
	}
	return ""
}

// replaceTargetPort returns the operations that change the port of a Route. Both are JSON, empty for no port.
func replaceTargetPort(from, to string) []desired.Operation {
	switch value := json.RawMessage(to); {
	case from == to:
		return nil
	case to == "":
		return []desired.Operation{{Op: "remove", Path: portOfRoute}}
	case from == "":
		added := map[string]any{"targetPort": value}
		return []desired.Operation{{Op: "add", Path: portOfRoute, Value: added}}
	default:
		return []desired.Operation{{Op: "replace", Path: targetPortOfRoute, Value: value}}
	}
}

// restoreTarget returns the operations of a restore record for a backend of a Route. The last one replaces the name.
func (b *backend) restoreTarget(original *backend) []desired.Operation {
	patch := []desired.Operation{b.testName()}
	if b.targetPort != original.targetPort {
		value := json.RawMessage(b.targetPort)
		patch = append(patch, desired.Operation{Op: "test", Path: targetPortOfRoute, Value: value})
		patch = append(patch, replaceTargetPort(b.targetPort, original.targetPort)...)
	}
	return append(patch, b.replaceName(original))
}

// addTarget is add for an operation on the port of a Route. It reports whether the operation is one.
func (b *backend) addTarget(current operation) bool {
	switch {
	case current.Path == targetPortOfRoute && current.Op == "test":
		b.writtenPort = canonicalJSON(current.Value)
	case current.Path == targetPortOfRoute:
		b.targetPort = canonicalJSON(current.Value)
	case current.Path != portOfRoute: // otherwise there was no port
		return false
	}
	return true
}
