package autowire

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
	// Kinds are those of objects that may be wired for it, of those that this version carries out.
	Kinds []trigger.AutowireKind
	// IsShared says that the shared fleet serves it, which is that of another namespace.
	IsShared bool
	// IsProgrammed says that every Ready proxy has it as it is now.
	IsProgrammed bool
	// Certificate is what its hosts answer TLS with.
	Certificate Certificate
	// NotCarriedOut says what it asks for that this version does not do. Such a target is not wired.
	NotCarriedOut string
}

// Certificate is what is known of a Target's certificate. It is in force in all proxies or in none: they ask for it.
type Certificate int

const (
	// NotNamed says that the Target names no Secret.
	NotNamed Certificate = iota
	// NotInForce says that proxies refuse TLS for some host.
	NotInForce
	// FromBefore says that a certificate may be in force, from before the Secret could not be used any more.
	FromBefore
	// InForce says that proxies answer TLS for every host, be it with another object's certificate.
	InForce
)

// certificateOf reads condition TLSReady.
func certificateOf(object *httpv1alpha1.HTTPScaledObject) Certificate {
	if object.Annotations[httpv1alpha1.AnnotationTLSSecretName] == "" {
		return NotNamed
	}
	said := meta.FindStatusCondition(httpv1alpha1.StatusOf(object).Conditions, httpv1alpha1.ConditionTLSReady)
	if said == nil {
		return FromBefore
	}
	switch said.Reason {
	case httpv1alpha1.ReasonTLSReady, httpv1alpha1.ReasonHostTaken, httpv1alpha1.ReasonHostNotCovered:
		return InForce
	case httpv1alpha1.ReasonSecretNotFound, httpv1alpha1.ReasonInvalidSecretName:
		return NotInForce
	default:
		return FromBefore
	}
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
	kinds := slices.DeleteFunc(parsed.Autowire, func(kind trigger.AutowireKind) bool { return titles()[kind] == "" })
	programmed := meta.FindStatusCondition(
		httpv1alpha1.StatusOf(object).Conditions, httpv1alpha1.ConditionProgrammed)
	return Target{
		Name: object.Name, Hosts: object.Spec.Hosts, PathPrefixes: object.Spec.PathPrefixes,
		IsPartial: len(object.Spec.Headers) > 0,
		Service:   ref.Service, Port: networkingv1.ServiceBackendPort{Name: ref.PortName, Number: ref.Port},
		Kinds:    kinds,
		IsShared: object.Annotations[httpv1alpha1.AnnotationFleet] == httpv1alpha1.FleetShared,
		IsProgrammed: programmed != nil && programmed.Status == metav1.ConditionTrue &&
			programmed.ObservedGeneration == object.Generation,
		Certificate:   certificateOf(object),
		NotCarriedOut: notCarriedOut(kinds),
	}, true
}

// notCarriedOut says what an object asks for that this version does not do.
func notCarriedOut(kinds []trigger.AutowireKind) string {
	if len(kinds) == 0 {
		return "of the kinds of trafficAutowire this version carries out ingress and httproute only"
	}
	return ""
}

// kinds names the kinds of objects that may be wired for a target.
func (t *Target) kinds() string {
	var names []string
	for _, kind := range t.Kinds {
		names = append(names, titles()[kind])
	}
	return strings.Join(names, " or ")
}

// takes says whether some of the requests may be a target's.
func (t *Target) takes(some request) bool {
	return hasPair(t.Hosts, some.hosts, hostsMeet) && (len(t.PathPrefixes) == 0 ||
		hasPair(t.PathPrefixes, some.paths, func(prefix string, path path) bool {
			return leads(prefix, path.text) || !path.isExact && leads(path.text, prefix)
		}))
}

// hasPair says whether two lists have an element each that belong together.
func hasPair[A, B any](as []A, bs []B, belong func(A, B) bool) bool {
	return slices.ContainsFunc(as, func(a A) bool {
		return slices.ContainsFunc(bs, func(b B) bool { return belong(a, b) })
	})
}

// takesAll says whether all of the requests are a target's.
func (t *Target) takesAll(all request) bool {
	if t.IsPartial {
		return false
	}
	for _, host := range all.hosts {
		if !slices.ContainsFunc(t.Hosts, func(wide string) bool { return hostHas(wide, host) }) {
			return false
		}
	}
	for _, path := range all.paths {
		isTaken := slices.ContainsFunc(t.PathPrefixes, func(prefix string) bool { return leads(prefix, path.text) })
		if len(t.PathPrefixes) > 0 && !isTaken {
			return false
		}
	}
	return true
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
