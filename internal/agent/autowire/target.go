package autowire

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Target is an HTTPScaledObject whose requests are to come by the proxies.
type Target struct {
	// Name is the HTTPScaledObject's.
	Name string
	// Hosts and PathPrefixes are its spec's; no path prefixes mean every path.
	Hosts, PathPrefixes []string
	// IsPartial says that it takes only the requests that have certain headers.
	IsPartial bool
	// Service and Port are where its requests go without a canary: a Service of the namespace.
	Service string
	// Port is a number, or a name, of the Service's ports.
	Port networkingv1.ServiceBackendPort
	// IsProgrammed says that every Ready proxy has it as it is now.
	IsProgrammed bool
	// NotCarriedOut says what it asks for that this version does not do. Such a target is not wired.
	NotCarriedOut string
}

// TargetOf is what an HTTPScaledObject asks for. There is nothing where it asks not to be wired. One that the
// agent has not made is wired only if it has the annotation http.kedify.io/traffic-autowire.
func TargetOf(object *httpv1alpha1.HTTPScaledObject) (Target, bool) {
	asked, isAsked := object.Annotations[httpv1alpha1.AnnotationTrafficAutowire]
	isOurs := object.Labels[httpv1alpha1.LabelManagedBy] == httpv1alpha1.ManagedByAgent
	// What is left of a list with a mistake in it counts: the trigger's reader tells about the mistake.
	parsed, _ := trigger.Parse(map[string]string{trigger.KeyTrafficAutowire: asked})
	if object.DeletionTimestamp != nil || !isAsked && !isOurs || len(parsed.Autowire) == 0 {
		return Target{}, false
	}
	ref := object.Spec.ScaleTargetRef
	programmed := meta.FindStatusCondition(
		httpv1alpha1.StatusOf(object).Conditions, httpv1alpha1.ConditionProgrammed)
	return Target{
		Name: object.Name, Hosts: object.Spec.Hosts, PathPrefixes: object.Spec.PathPrefixes,
		IsPartial: len(object.Spec.Headers) > 0,
		Service:   ref.Service, Port: networkingv1.ServiceBackendPort{Name: ref.PortName, Number: ref.Port},
		IsProgrammed: programmed != nil && programmed.Status == metav1.ConditionTrue &&
			programmed.ObservedGeneration == object.Generation,
		NotCarriedOut: notCarriedOut(object, parsed.Autowire, isAsked),
	}, true
}

// notCarriedOut says what an object asks for that this version does not do.
func notCarriedOut(
	object *httpv1alpha1.HTTPScaledObject, kinds []trigger.AutowireKind, isAsked bool,
) string {
	if object.Annotations[httpv1alpha1.AnnotationFleet] == httpv1alpha1.FleetShared {
		return "the shared fleet is in another namespace, which no backend of an Ingress can name"
	}
	if object.Annotations[httpv1alpha1.AnnotationTLSSecretName] != "" {
		return "with tlsSecretName requests are to come over TLS, by port 8443 of Service kedify-proxy, which this version does not write into an Ingress; " +
			"write it yourself and set trafficAutowire to \"false\""
	}
	if isAsked && !slices.Contains(kinds, trigger.AutowireIngress) {
		return "of the kinds of trafficAutowire this version carries out ingress only"
	}
	return ""
}

// takes says whether requests of a backend may be a target's.
func (t *Target) takes(place backend) bool {
	return place.isDefault ||
		slices.ContainsFunc(t.Hosts, func(host string) bool { return hostsMeet(host, place.host) }) &&
			(len(t.PathPrefixes) == 0 || slices.ContainsFunc(t.PathPrefixes, func(prefix string) bool {
				return leads(prefix, place.prefix()) || place.kind != networkingv1.PathTypeExact && leads(place.prefix(), prefix)
			}))
}

// takesAll says whether all requests of a backend are a target's.
func (t *Target) takesAll(place backend) bool {
	hasHost := slices.ContainsFunc(t.Hosts, func(host string) bool { return hostHas(host, place.host) })
	return !t.IsPartial && hasHost &&
		(len(t.PathPrefixes) == 0 || slices.ContainsFunc(t.PathPrefixes, func(prefix string) bool {
			return leads(prefix, place.prefix())
		}))
}

// plainHost is a host as it is compared: an empty one is every host.
func plainHost(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "" {
		return "*"
	}
	return host
}

// hostHas says whether a host, perhaps with a wildcard, has all that another one has.
func hostHas(wide, narrow string) bool {
	wide, narrow = plainHost(wide), plainHost(narrow)
	suffix, isWildcard := strings.CutPrefix(wide, "*")
	return wide == narrow || isWildcard && strings.HasSuffix(narrow, suffix)
}

// hostsMeet says whether some host is in both.
func hostsMeet(one, other string) bool { return hostHas(one, other) || hostHas(other, one) }

// leads says whether a path begins with the segments of a prefix.
func leads(prefix, path string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	rest, has := strings.CutPrefix(path, prefix)
	return has && (rest == "" || rest[0] == '/')
}

// isAbout says whether a backend's port is the target's. Where one has a number and the other a name, the
// Service's ports decide.
func (t *Target) isAbout(service networkingv1.IngressServiceBackend, ports []corev1.ServicePort) bool {
	return t.Service == service.Name &&
		(t.Port == service.Port ||
			number(t.Port, ports) != 0 && number(t.Port, ports) == number(service.Port, ports))
}

// number is the number of a port, or 0 where it is not known.
func number(port networkingv1.ServiceBackendPort, ports []corev1.ServicePort) int32 {
	for _, each := range ports {
		if port.Name != "" && each.Name == port.Name {
			return each.Port
		}
	}
	return port.Number
}

// HasProxy says whether requests that go to the proxies of a namespace find one: Service kedify-proxy has
// ProxyPort and, in its EndpointSlices, a ready endpoint. ports are those of Services, by their names.
func HasProxy(proxies []discoveryv1.EndpointSlice, ports map[string][]corev1.ServicePort) bool {
	hasPort := slices.ContainsFunc(ports[ProxyService], func(port corev1.ServicePort) bool {
		return port.Port == ProxyPort
	})
	return hasPort && slices.ContainsFunc(proxies, func(slice discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(slice.Endpoints, func(endpoint discoveryv1.Endpoint) bool {
			// Unknown means ready (discovery.k8s.io/v1).
			return endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
		})
	})
}
