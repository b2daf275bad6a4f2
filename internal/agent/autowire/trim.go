package autowire

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// Trimmer removes what a plan does not read from objects before they are cached: any tenant can store 256 KiB of
// annotations in each object, and more of other metadata.
type Trimmer struct{ ingress, route, virtualService, openShiftRoute, service annotationSet }

// NewTrimmer returns a Trimmer.
func NewTrimmer() *Trimmer {
	own := []string{
		httpv1alpha1.AnnotationAutowireUndo, httpv1alpha1.AnnotationAutowireHold, httpv1alpha1.AnnotationAutowireAccept,
	}
	ofIngresses := slices.Concat(own, inheritedNames(), []string{mergeableType, classAnnotation})
	for _, balancer := range loadBalancers() {
		ofIngresses = append(ofIngresses, balancer.annotations...)
	}
	for _, rule := range hostRules() {
		ofIngresses = append(ofIngresses, rule.names...)
	}
	return &Trimmer{
		ingress: newAnnotationSet(onIngress, ofIngresses), route: newAnnotationSet(onRoute, own),
		virtualService: newAnnotationSet(0, own),
		openShiftRoute: newAnnotationSet(onOpenShift, append(slices.Clone(own), disableCookies)),
		service: newAnnotationSet(onService, slices.Concat(own, []string{
			rolloutManagedBy, httpv1alpha1.AnnotationProxyUnneeded,
		})),
	}
}

// Ingress trims an Ingress.
func (t *Trimmer) Ingress(ingress *networkingv1.Ingress) {
	t.ingress.trim(ingress)
	ingress.Labels, ingress.Status, ingress.Spec.TLS = nil, networkingv1.IngressStatus{}, nil
}

// HTTPRoute trims an HTTPRoute. Its labels stay, because Rollouts select by them.
func (t *Trimmer) HTTPRoute(route *apis.HTTPRoute) { t.route.trim(route) }

// VirtualService trims a VirtualService.
func (t *Trimmer) VirtualService(service *apis.VirtualService) {
	t.virtualService.trim(service)
	service.Labels = nil
}

// Route trims a Route of OpenShift. The owner that controls it stays: it may be an Ingress.
func (t *Trimmer) Route(route *apis.Route) {
	controller := metav1.GetControllerOf(route)
	t.openShiftRoute.trim(route)
	if route.Labels = nil; controller != nil {
		route.OwnerReferences = []metav1.OwnerReference{*controller}
	}
}

// Service returns the part of a Service that a plan reads.
func (t *Trimmer) Service(service *corev1.Service) *corev1.Service {
	spec := &service.Spec
	kept := &corev1.Service{TypeMeta: service.TypeMeta, Spec: corev1.ServiceSpec{
		Ports: spec.Ports, Selector: spec.Selector, Type: spec.Type, ExternalIPs: spec.ExternalIPs,
		SessionAffinity: spec.SessionAffinity, PublishNotReadyAddresses: spec.PublishNotReadyAddresses,
		ExternalTrafficPolicy: spec.ExternalTrafficPolicy, InternalTrafficPolicy: spec.InternalTrafficPolicy,
		IPFamilyPolicy: spec.IPFamilyPolicy, IPFamilies: spec.IPFamilies,
	}}
	if spec.ClusterIP == corev1.ClusterIPNone {
		kept.Spec.ClusterIP = spec.ClusterIP
	}
	kept.Namespace, kept.Name, kept.UID = service.Namespace, service.Name, service.UID
	kept.ResourceVersion, kept.DeletionTimestamp = service.ResourceVersion, service.DeletionTimestamp
	kept.Annotations = t.ServiceAnnotations(service.Annotations)
	if len(service.Annotations) > 0 && kept.Annotations == nil { // as for trim
		kept.Annotations = map[string]string{slices.Min(slices.Collect(maps.Keys(service.Annotations))): ""}
	}
	kept.ManagedFields = trimManagers(service.ManagedFields)
	if isManaged(service) {
		kept.Labels = map[string]string{httpv1alpha1.LabelManagedBy: httpv1alpha1.ManagedByAgent}
		kept.OwnerReferences = service.OwnerReferences
	}
	return kept
}

// ServiceAnnotations returns those of a Service's annotations that affect autowiring.
func (t *Trimmer) ServiceAnnotations(annotations map[string]string) map[string]string {
	kept := t.service.of(annotations)
	for name, value := range annotations {
		if !isOfProxyProtocol(name) {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[name] = value
	}
	return kept
}

// annotationSet is a set of annotations, by their names or the beginnings of these.
type annotationSet struct {
	names    map[string]bool
	prefixes []string
}

// newAnnotationSet returns the annotations in the table that an object in a place can have, and more.
func newAnnotationSet(on place, more []string) annotationSet {
	set := annotationSet{names: map[string]bool{}}
	for _, rule := range annotationRules() {
		if max(rule.on, onIngress)&on != 0 {
			more = append(more, rule.names...)
		}
	}
	for _, name := range more {
		if at := strings.IndexAny(name, "*{"); at >= 0 {
			set.prefixes = append(set.prefixes, name[:at])
			continue
		}
		set.names[name] = true
	}
	return set
}

// of returns the annotations of the set, nil if there are none.
func (s annotationSet) of(annotations map[string]string) map[string]string {
	var kept map[string]string
	for name, value := range annotations {
		isPrefixed := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if !s.names[name] && !slices.ContainsFunc(s.prefixes, isPrefixed) {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[name] = value
	}
	return kept
}

// trim trims the metadata of an object. If none of its annotations is in the set, one stays without its value, because
// a patch of annotations depends on whether there are some.
func (s annotationSet) trim(object metav1.Object) {
	all := object.GetAnnotations()
	kept := s.of(all)
	if len(all) > 0 && kept == nil {
		kept = map[string]string{slices.Min(slices.Collect(maps.Keys(all))): ""}
	}
	object.SetAnnotations(kept)
	object.SetManagedFields(trimManagers(object.GetManagedFields()))
	object.SetOwnerReferences(nil)
	object.SetFinalizers(nil)
}
