package autowire

import (
	"bytes"
	"encoding/json"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// ProxyService is where backends send requests to the proxies of their namespace: to ProxyPort in clear text, and over TLS
// to TLSPort.
const (
	ProxyService       = "kedify-proxy"
	ProxyPort    int32 = 8080
	TLSPort      int32 = 8443
)

// Object is one that sends requests to Services of its namespace. There is a function for each kind that makes
// one: OfIngress, OfHTTPRoute.
type Object struct {
	kind   trigger.AutowireKind
	meta   metav1.Object
	places []backend
	// router is who else decides about its backends, or empty.
	router string
	// speech is how its backends are spoken to.
	speech speech
}

// titles are how messages name the kinds of objects that this version carries out.
func titles() map[trigger.AutowireKind]string {
	return map[trigger.AutowireKind]string{trigger.AutowireIngress: "Ingress", trigger.AutowireHTTPRoute: "HTTPRoute"}
}

// String names the object in messages.
func (o *Object) String() string { return titles()[o.kind] + " " + o.meta.GetName() }

// backend is a place of an object that names a Service.
type backend struct {
	pointer string // JSON pointer (RFC 6901) to what has the Service's name and port
	title   string // in messages
	marks   []mark
	rule    string  // pointer to the rule that shares requests between this backend and others; empty where none does
	sees    request // the requests that go there, as they arrive
	// isNumber says that the port is a number by itself, not an object with a number or a name.
	isNumber bool

	service networkingv1.IngressServiceBackend
	// namespace is what it names as the Service's, or empty; that of its object means the same. In another one there are
	// proxies only: ofBackendRef leaves out what else is elsewhere.
	namespace   string
	isElsewhere bool
	// isMoved says, of the record of a backend, that it was wired to another namespace, and namespace is what there was before.
	isMoved bool
}

// mark is a value of an object by which a place in it is known again, wherever it has moved. The first two of a place
// say what requests it is for; if one of them changes, it is still the same place.
type mark struct {
	pointer string // JSON pointer
	value   string // JSON, as canonical makes it; null where there is none
	// isShared says that all places of the object have it, so it tells no two of them apart.
	isShared bool
}

// request is a set of requests: those to each of the hosts with each of the paths. A host is perhaps a wildcard; an
// empty one means every host.
type request struct {
	hosts []string
	paths []path
}

// path is a set of paths: one, or all that begin with its segments.
type path struct {
	text    string
	isExact bool
}

// isProxy says whether requests go to the proxies.
func (b *backend) isProxy() bool { return b.service == proxy(ProxyPort) || b.service == proxy(TLSPort) }

// proxy is how a backend names a port of the proxies.
func proxy(port int32) networkingv1.IngressServiceBackend {
	return networkingv1.IngressServiceBackend{
		Name: ProxyService, Port: networkingv1.ServiceBackendPort{Number: port},
	}
}

// names says whether a backend names what another one in its place does.
func (b *backend) names(what *backend) bool {
	return b.service == what.service && b.namespace == what.namespace
}

// replace are the operations that have a backend name what another one in its place does. Other fields of it stay.
func (b *backend) replace(by *backend) []desired.Operation {
	var port any = by.service.Port
	if b.isNumber {
		port = by.service.Port.Number
	}
	patch := []desired.Operation{{Op: "replace", Path: b.pointer + "/name", Value: by.service.Name}}
	switch {
	case b.namespace == by.namespace:
	case by.namespace == "":
		patch = append(patch, desired.Operation{Op: "remove", Path: b.pointer + "/namespace"})
	default: // where there is one, add replaces it
		patch = append(patch, desired.Operation{Op: "add", Path: b.pointer + "/namespace", Value: by.namespace})
	}
	return append(patch, desired.Operation{Op: "replace", Path: b.pointer + "/port", Value: port})
}

// naming is a backend in the same place that names another Service, in a namespace that is written so.
func (b *backend) naming(service networkingv1.IngressServiceBackend, namespace string) backend {
	named := *b
	named.service, named.namespace = service, namespace
	return named
}

// as is a backend in the same place that names what its record says.
func (b *backend) as(record *backend) backend {
	if record.isMoved {
		original := b.naming(record.service, record.namespace)
		original.isElsewhere = false
		return original
	}
	return b.naming(record.service, b.namespace)
}

// suffix is what messages have behind the title of a backend that goes to TLSPort, or elsewhere.
func (b *backend) suffix() string {
	if b.service.Port.Number == TLSPort {
		return " over TLS"
	}
	return b.where()
}

// where says in messages in which namespace the Service of a backend is, if in another one.
func (b *backend) where() string {
	if !b.isElsewhere {
		return ""
	}
	return " in namespace " + b.namespace
}

// titled is the same backend with more in its title.
func (b *backend) titled(suffix string) *backend {
	titled := *b
	titled.title += suffix
	return &titled
}

// isAt says whether a backend is where the record of one says.
func (b *backend) isAt(record *backend) bool {
	if len(b.marks) != len(record.marks) {
		return false
	}
	for i, mark := range b.marks {
		if !mark.isShared && mark.value != record.marks[i].value {
			return false
		}
	}
	return true
}

// isLike says whether a backend may be the one that a record was made of, for other requests by now.
func (b *backend) isLike(record *backend) bool {
	for i, mark := range b.marks[:min(2, len(b.marks))] {
		if len(record.marks) == len(b.marks) && mark.value == record.marks[i].value {
			return true
		}
	}
	return false
}

// canonical is JSON with sorted keys; null for nothing, and for what is no JSON.
func canonical(text []byte) string {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return "null"
	}
	return encoded(value)
}

// encoded is a value as JSON. It is for values that have an encoding.
func encoded(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "null"
	}
	return string(text)
}

// orNull is a text, or nil for a field that is not there.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
