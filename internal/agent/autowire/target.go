package autowire

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/model/affinity"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/trigger"
)

// Target is an HTTPScaledObject with autowiring enabled.
type Target struct {
	// Name is the HTTPScaledObject's name.
	Name string
	// Hosts are the hosts of its routes as the interceptor normalizes them, "*" for every host. Without one, no request
	// is routed to it.
	Hosts []string
	// PathPrefixes are those of its spec. An empty list matches every path.
	PathPrefixes []string
	// IsPartial reports whether it matches only requests with certain headers.
	IsPartial bool
	// Service and Port are the Service in the namespace that receives its requests without a canary. Weighted are the
	// Services that receive some of them during one.
	Service  string
	Weighted []string
	// AutowireService is the Service that clients call, if autowiring may take it over, or empty. Fallback is the Service
	// to which the proxies forward meanwhile, empty for Service.
	AutowireService, Fallback string
	// Port is a number or name of one of the Service's ports.
	Port networkingv1.ServiceBackendPort
	// Kinds are the kinds of objects that may be wired for it.
	Kinds []trigger.AutowireKind
	// IsShared reports whether the shared fleet of another namespace serves it.
	IsShared bool
	// IsProgrammed reports whether every Ready proxy has ACKed its current generation.
	IsProgrammed bool
	// HasAffinity reports whether it has a session affinity of its own, by AnnotationSessionAffinity.
	HasAffinity bool
	// Settings is the text of its annotation AnnotationAutowireSettings. AreSettingsPending reports whether a Ready proxy
	// may not have ACKed them, or earlier ones may still be active.
	Settings           string
	AreSettingsPending bool
	// Certificate is the state of the TLS certificate for its hosts.
	Certificate Certificate
	// Unsupported is the message about a setting that this version does not support. Such a target is not wired.
	Unsupported string
}

// Certificate is the state of a Target's certificate. It is active in all proxies or in none, because they fetch
// it from the interceptor.
type Certificate int

const (
	// CertificateNotConfigured means that the Target references no Secret.
	CertificateNotConfigured Certificate = iota
	// CertificateMissing means that the proxies reject TLS for a host.
	CertificateMissing
	// CertificateMaybeActive means that the Secret is unusable, but a certificate from before may still be active.
	CertificateMaybeActive
	// CertificateActive means that the proxies accept TLS for every host, possibly with the certificate of another
	// object.
	CertificateActive
)

// certificateOf derives the state from condition TLSReady.
func certificateOf(object *httpv1alpha1.HTTPScaledObject) Certificate {
	if object.Annotations[httpv1alpha1.AnnotationTLSSecretName] == "" {
		return CertificateNotConfigured
	}
	condition := meta.FindStatusCondition(httpv1alpha1.StatusOf(object).Conditions, httpv1alpha1.ConditionTLSReady)
	if condition == nil {
		return CertificateMaybeActive
	}
	switch condition.Reason {
	case httpv1alpha1.ReasonTLSReady, httpv1alpha1.ReasonCertificateConflict, httpv1alpha1.ReasonHostNotCovered:
		return CertificateActive
	case httpv1alpha1.ReasonSecretNotFound, httpv1alpha1.ReasonInvalidSecretName:
		return CertificateMissing
	default:
		return CertificateMaybeActive
	}
}

// TargetOf returns the target of an HTTPScaledObject, and false if the object opts out. An object that the agent
// did not create is wired only if it has annotation http.kedify.io/traffic-autowire. An unrouted object is not wired.
// sharedNamespace is the namespace whose proxies are the shared fleet.
func TargetOf(object *httpv1alpha1.HTTPScaledObject, sharedNamespace string) (Target, bool) {
	value, hasAnnotation := object.Annotations[httpv1alpha1.AnnotationTrafficAutowire]
	// The valid entries of an invalid list count: trigger validation reports the others.
	parsed, _ := trigger.Parse(map[string]string{trigger.KeyTrafficAutowire: value})
	if object.DeletionTimestamp != nil || httpv1alpha1.IsUnrouted(object) || !hasAnnotation && !isManaged(object) ||
		len(parsed.Autowire) == 0 {
		return Target{}, false
	}
	isIncomplete := object.Annotations[httpv1alpha1.AnnotationAutowireService] == "" && len(parsed.Autowire) > 1
	kinds := slices.DeleteFunc(parsed.Autowire, func(kind trigger.AutowireKind) bool {
		return kind == trigger.AutowireService && isIncomplete
	})
	programmed := meta.FindStatusCondition(
		httpv1alpha1.StatusOf(object).Conditions, httpv1alpha1.ConditionProgrammed)
	target := RivalOf(object, sharedNamespace)
	target.Kinds = kinds
	target.IsProgrammed = programmed != nil && programmed.Status == metav1.ConditionTrue &&
		programmed.ObservedGeneration == object.Generation
	target.HasAffinity = hasAffinity(object)
	target.AreSettingsPending = areSettingsPending(object)
	target.Certificate = certificateOf(object)
	target.Unsupported = target.unsupported()
	return target, true
}

// RivalOf returns the part of a Target that decides which requests the proxies send to an HTTPScaledObject, whether or
// not the object opts out, and its settings. sharedNamespace is the namespace whose proxies are the shared fleet.
func RivalOf(object *httpv1alpha1.HTTPScaledObject, sharedNamespace string) Target {
	if httpv1alpha1.IsUnrouted(object) {
		return Target{Name: object.Name}
	}
	ref := object.Spec.ScaleTargetRef
	isShared := object.Annotations[httpv1alpha1.AnnotationFleet] == httpv1alpha1.FleetShared
	isSharedNamespace := object.Namespace == sharedNamespace
	return Target{
		Name: object.Name, Hosts: hostsOf(&object.Spec, isShared || isSharedNamespace),
		PathPrefixes: object.Spec.PathPrefixes, IsPartial: len(object.Spec.Headers) > 0,
		Service: ref.Service, Port: networkingv1.ServiceBackendPort{Name: ref.PortName, Number: ref.Port},
		Weighted:        weightedServices(object),
		AutowireService: object.Annotations[httpv1alpha1.AnnotationAutowireService],
		Fallback:        object.Annotations[httpv1alpha1.AnnotationFallbackService],
		IsShared:        isShared && !isSharedNamespace, // there, the shared fleet is the namespace's own
		Settings:        object.Annotations[httpv1alpha1.AnnotationAutowireSettings],
	}
}

// hostsOf returns the hosts that the interceptor routes for spec.hosts, by the rules of package resolve: an empty list
// means every host, except in the shared fleet, where it is invalid. Invalid hosts are ignored, and a list that cannot
// be decoded is not empty.
func hostsOf(spec *httpv1alpha1.HTTPScaledObjectSpec, isInSharedFleet bool) []string {
	if len(spec.Hosts) == 0 && !isInSharedFleet && spec.Unreadable == "" {
		return []string{string(model.AnyHost)}
	}
	var hosts []string
	for _, text := range spec.Hosts {
		if host, err := model.ParseHost(text); err == nil {
			hosts = append(hosts, string(host))
		}
	}
	return hosts
}

// hasAffinity reports whether an HTTPScaledObject has a valid session affinity.
func hasAffinity(object *httpv1alpha1.HTTPScaledObject) bool {
	text, has := object.Annotations[httpv1alpha1.AnnotationSessionAffinity]
	_, err := affinity.Parse(text)
	return has && err == nil
}

// areSettingsPending reports whether the status of an HTTPScaledObject does not show that every Ready proxy has ACKed
// its settings. Without settings, it reports whether the status shows earlier ones.
func areSettingsPending(object *httpv1alpha1.HTTPScaledObject) bool {
	text, report := object.Annotations[httpv1alpha1.AnnotationAutowireSettings], httpv1alpha1.StatusOf(object).DataPlane
	if report == nil {
		return text != ""
	}
	hasEveryACK := report.Proxies.Ready > 0 && report.Proxies.Acked == report.Proxies.Ready
	return report.AutowireSettings != text || text != "" && !hasEveryACK
}

// weightedServices returns the Services with a weight in a valid annotation of an HTTPScaledObject.
func weightedServices(object *httpv1alpha1.HTTPScaledObject) (names []string) {
	backends, err := split.Parse(object.Annotations[httpv1alpha1.AnnotationWeightedBackends])
	if err != nil {
		return nil
	}
	for _, weighted := range backends {
		names = append(names, weighted.Service)
	}
	return names
}

// unsupported returns a message if a kind lacks what it needs.
func (t *Target) unsupported() string {
	if slices.Contains(t.Kinds, trigger.AutowireService) && t.AutowireService == "" {
		return "kind service needs the Service that clients call, in annotation " + httpv1alpha1.AnnotationAutowireService
	}
	return ""
}

// describeKinds names the kinds of objects that may be wired for the target, for messages.
func (t *Target) describeKinds() string {
	var names []string
	for _, kind := range t.Kinds {
		names = append(names, kindNames()[kind])
	}
	if last := len(names) - 1; last > 1 {
		names = []string{strings.Join(names[:last], ", "), names[last]}
	}
	return strings.Join(names, " or ")
}

// problemOf returns the problem of the first of its kinds that has one, or an empty text.
func (t *Target) problemOf(unlisted map[trigger.AutowireKind]string) string {
	for _, kind := range t.Kinds {
		if unlisted[kind] != "" {
			return unlisted[kind]
		}
	}
	return ""
}

// matches reports whether the target may match some of the requests.
func (t *Target) matches(requests requestSet) bool {
	return anyPair(t.Hosts, requests.hosts, hostsOverlap) && (len(t.PathPrefixes) == 0 ||
		anyPair(t.PathPrefixes, requests.paths, func(prefix string, path path) bool { return path.mayHavePrefix(prefix) }))
}

// mayHavePrefix reports whether some of the paths begin with the segments of prefix.
func (p path) mayHavePrefix(prefix string) bool {
	return hasPathPrefix(prefix, p.text) || !p.isExact && hasPathPrefix(p.text, prefix) ||
		p.isOpen && strings.HasPrefix(prefix, p.text)
}

// anyPair reports whether two lists have an element each that belong together.
func anyPair[A, B any](as []A, bs []B, belong func(A, B) bool) bool {
	return slices.ContainsFunc(as, func(a A) bool {
		return slices.ContainsFunc(bs, func(b B) bool { return belong(a, b) })
	})
}

// matchesAll reports whether the target matches all of the requests.
func (t *Target) matchesAll(all requestSet) bool {
	if t.IsPartial {
		return false
	}
	return t.matchesHosts(all.hosts) && t.matchesPaths(all.paths)
}

// matchesHosts reports whether the target matches all of the hosts.
func (t *Target) matchesHosts(hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool {
		return !slices.ContainsFunc(t.Hosts, func(pattern string) bool { return hostCovers(pattern, host) })
	})
}

// matchesPaths reports whether the target matches all of the paths.
func (t *Target) matchesPaths(paths []path) bool {
	return len(t.PathPrefixes) == 0 || !slices.ContainsFunc(paths, func(path path) bool {
		return !slices.ContainsFunc(t.PathPrefixes, func(prefix string) bool { return hasPathPrefix(prefix, path.text) })
	})
}

// normalizeHost returns a host in the form used for comparison. An empty host means every host.
func normalizeHost(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "" {
		return "*"
	}
	return host
}

// hostCovers reports whether a host, possibly with a wildcard, includes all hosts of another one.
func hostCovers(wide, narrow string) bool {
	wide, narrow = normalizeHost(wide), normalizeHost(narrow)
	suffix, isWildcard := strings.CutPrefix(wide, "*")
	return wide == narrow || isWildcard && strings.HasSuffix(narrow, suffix)
}

// hostsOverlap reports whether two host patterns have a host in common.
func hostsOverlap(one, other string) bool { return hostCovers(one, other) || hostCovers(other, one) }

// hasPathPrefix reports whether a path begins with the segments of prefix.
func hasPathPrefix(prefix, path string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	rest, has := strings.CutPrefix(path, prefix)
	return has && (rest == "" || rest[0] == '/')
}

// matchesService reports whether a backend's Service and port are the target's. If one references the port by
// number and the other by name, the Service's ports decide.
func (t *Target) matchesService(service networkingv1.IngressServiceBackend, ports []corev1.ServicePort) bool {
	return t.Service == service.Name &&
		(t.Port == service.Port ||
			portNumber(t.Port, ports) != 0 && portNumber(t.Port, ports) == portNumber(service.Port, ports))
}

// portNumber returns the number of a port, or 0 if it is unknown.
func portNumber(port networkingv1.ServiceBackendPort, ports []corev1.ServicePort) int32 {
	for _, candidate := range ports {
		if port.Name != "" && candidate.Name == port.Name {
			return candidate.Port
		}
	}
	return port.Number
}
