package autowire

import (
	"bytes"
	"encoding/json"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// ProxyService is the Service of the proxies of a namespace. It serves plain HTTP on ProxyPort and TLS on TLSPort.
// HTTP2Port leads to the same listener as ProxyPort, which accepts HTTP/1.1 and HTTP/2. Its appProtocol makes Gateways
// use HTTP/2 to the proxies.
const (
	ProxyService       = "kedify-proxy"
	ProxyPort    int32 = 8080
	HTTP2Port    int32 = 8081
	TLSPort      int32 = 8443
)

// Object is an Ingress, HTTPRoute, VirtualService or Route that routes requests to Services of its namespace, or a
// Service. See FromIngress, FromHTTPRoute, FromVirtualService, FromRoute and FromService.
type Object struct {
	kind     trigger.AutowireKind
	meta     metav1.Object
	backends []backend
	// route is a Route of OpenShift, nil for other kinds.
	route *apis.Route
	// router is why something else manages the object's backends, for messages, or is empty.
	router string
	// class is the class of an Ingress, or empty. hosts are those of its rules, empty for every host.
	class string
	hosts []string
	// inherited are the annotations that an Ingress has from another one, and master describes that one. See
	// inheritFromMasters.
	inherited map[string]string
	master    string
	// controllers are the controllers of the Gateways that accepted an HTTPRoute.
	controllers []string
}

// kindNames returns the names, for messages, of the kinds that this version supports.
func kindNames() map[trigger.AutowireKind]string {
	return map[trigger.AutowireKind]string{
		trigger.AutowireIngress: "Ingress", trigger.AutowireHTTPRoute: "HTTPRoute",
		trigger.AutowireVirtualService: "VirtualService", trigger.AutowireRoute: "Route",
		trigger.AutowireService: serviceKind,
	}
}

// String returns kind and name of the object, for messages.
func (o *Object) String() string { return kindNames()[o.kind] + " " + o.meta.GetName() }

// backend is a reference to a Service in an object.
type backend struct {
	pointer       string // JSON pointer (RFC 6901) to the object with the Service's name and port
	label         string // in messages
	preconditions []precondition
	rule          string     // pointer to the rule with weighted backends; empty if the object has none
	requests      requestSet // the requests that the backend receives, except for annotations
	// matched are the requests that the rule matches, before filters. received are those that proxies receive in the
	// backend's place, and changedBy describes what makes the difference.
	matched, received requestSet
	changedBy         string
	// others is what annotations of other Ingresses with the same host do.
	others behavior
	// affinity is the session affinity of the backend's rule.
	affinity affinitySource
	// filters are the filters of the backend and of its rule whose effect on requests the agent cannot determine.
	filters []filter
	// isPlainPort reports whether the port is a plain number (HTTPRoute), not an object with number or name
	// (Ingress).
	isPlainPort bool
	// isDestination reports whether the backend is a destination of a VirtualService. Its host is the Service's name and
	// domain, subset is its subset, and omitsPort reports whether it has no port. See setDefaultPort.
	isDestination, omitsPort bool
	domain, subset           string
	// isRouteTarget reports whether the backend is one of a Route. targetPort is the Route's field spec.port.targetPort as
	// JSON, empty for none. writtenPort is, in a restore record, the one that replaced it, empty if it stayed.
	isRouteTarget           bool
	targetPort, writtenPort string
	// selection is what autowiring changes of a Service, nil for other kinds of objects. Then service is the Service
	// itself, or that of the proxies while it selects them.
	selection *selection

	service networkingv1.IngressServiceBackend
	// namespace is the Service's namespace as written, or empty for the object's own. In another namespace only
	// proxies are backends: backendFromRef drops other references.
	namespace        string
	isCrossNamespace bool
	// crossedNamespace reports, in a restore record, whether the rewrite changed the namespace. Then namespace is
	// the original one.
	crossedNamespace bool
}

// precondition is a field by which a backend is found again after its index has changed. The first two fields of a
// backend identify the requests that it receives. If only one of them changes, it is still the same backend.
type precondition struct {
	pointer string // JSON pointer
	value   string // JSON in the form of canonicalJSON; null for a missing field
	// isShared reports whether all backends of the object have the same value, so that it does not distinguish
	// them.
	isShared bool
}

// requestSet is the set of requests to any of the hosts with any of the paths. A host may have a wildcard. An
// empty host means every host.
type requestSet struct {
	hosts []string
	paths []path
}

// path is a set of paths: exactly text, or all paths that begin with the segments of text, of which the last one may be
// incomplete if isOpen.
type path struct {
	text            string
	isExact, isOpen bool
}

// isProxy reports whether the backend references the proxies.
func (b *backend) isProxy() bool {
	return b.service == proxyBackend(ProxyPort) || b.service == proxyBackend(HTTP2Port) ||
		b.service == proxyBackend(TLSPort) || b.isRouteTarget && b.service.Name == ProxyService
}

// proxyBackend returns the reference to a port of the proxies.
func proxyBackend(port int32) networkingv1.IngressServiceBackend {
	return networkingv1.IngressServiceBackend{
		Name: ProxyService, Port: networkingv1.ServiceBackendPort{Number: port},
	}
}

// equals reports whether two backends reference the same Service, port and namespace, written the same way.
func (b *backend) equals(other *backend) bool {
	return b.service == other.service && b.namespace == other.namespace && b.domain == other.domain &&
		b.targetPort == other.targetPort && b.selection.equal(other.selection)
}

// replaceWith returns the operations that make the backend reference what other references. Its other fields stay.
func (b *backend) replaceWith(other *backend) []desired.Operation {
	switch {
	case b.isDestination:
		return b.replaceDestination(other)
	case b.selection != nil:
		return b.replaceSelection(other)
	case b.isRouteTarget: // objectPlan.change adds the port, which all backends share
		return []desired.Operation{b.replaceName(other)}
	}
	var port any = other.service.Port
	if b.isPlainPort {
		port = other.service.Port.Number
	}
	patch := []desired.Operation{b.replaceName(other)}
	switch {
	case b.namespace == other.namespace:
	case other.namespace == "":
		patch = append(patch, desired.Operation{Op: "remove", Path: b.pointer + "/namespace"})
	default: // add replaces an existing value
		patch = append(patch, desired.Operation{Op: "add", Path: b.pointer + "/namespace", Value: other.namespace})
	}
	return append(patch, desired.Operation{Op: "replace", Path: b.pointer + "/port", Value: port})
}

// replaceName returns the operation that makes the backend reference the Service of another one.
func (b *backend) replaceName(other *backend) desired.Operation {
	return desired.Operation{Op: "replace", Path: b.pointer + "/name", Value: other.service.Name}
}

// withService returns the backend with a reference to a port of another Service. namespace is written as given.
func (b *backend) withService(service networkingv1.IngressServiceBackend, namespace string) backend {
	named := *b
	named.service, named.namespace, named.omitsPort = service, namespace, false
	return named
}

// restored returns the backend with the reference in its restore record.
func (b *backend) restored(record *backend) backend {
	if record.crossedNamespace {
		original := b.withService(record.service, record.namespace)
		original.isCrossNamespace = false
		return original
	}
	original := b.withService(record.service, b.namespace)
	original.domain, original.omitsPort = record.domain, record.omitsPort
	return original
}

// suffix returns the addition to the label of a backend that uses TLSPort, HTTP2Port or another namespace.
func (b *backend) suffix() string {
	switch b.service.Port.Number {
	case TLSPort:
		return " over TLS"
	case HTTP2Port:
		return " over HTTP/2" + b.namespaceSuffix()
	}
	return b.namespaceSuffix()
}

// namespaceSuffix returns " in namespace X" if the backend references another namespace, for messages.
func (b *backend) namespaceSuffix() string {
	if !b.isCrossNamespace {
		return ""
	}
	return " in namespace " + b.namespace
}

// withLabelSuffix returns the backend with an addition to its label.
func (b *backend) withLabelSuffix(suffix string) *backend {
	labeled := *b
	labeled.label += suffix
	return &labeled
}

// matchesRecord reports whether the backend has all identifying fields of a restore record.
func (b *backend) matchesRecord(record *backend) bool {
	if len(b.preconditions) != len(record.preconditions) {
		return false
	}
	for i, field := range b.preconditions {
		if !field.isShared && field.value != record.preconditions[i].value {
			return false
		}
	}
	return true
}

// resemblesRecord reports whether the backend may be that of a restore record, edited since to receive other
// requests.
func (b *backend) resemblesRecord(record *backend) bool {
	for i, field := range b.preconditions[:min(2, len(b.preconditions))] {
		if len(record.preconditions) == len(b.preconditions) && field.value == record.preconditions[i].value {
			return true
		}
	}
	return false
}

// canonicalJSON returns JSON with sorted keys, or null for empty or invalid input.
func canonicalJSON(text []byte) string {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return "null"
	}
	return toJSON(value)
}

// toJSON returns a value as JSON. The value must have an encoding.
func toJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "null"
	}
	return string(text)
}

// nullable returns text, or nil for an empty text.
func nullable(text string) any {
	if text == "" {
		return nil
	}
	return text
}
