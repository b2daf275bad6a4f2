package ingest

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model/managedroute"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/model/staticresponse"
)

// The functions below select the stored fields of each kind and decide which changes trigger a pass. A field that
// resolve or status starts to read has to be added here first.

// maxAnnotation is the maximum stored length of an annotation in bytes. maxManagedRoutes is that of
// AnnotationManagedRoutes, and maxStatic that of annotations with static responses. They are one byte above the limits, so that a value that is too long is detected.
const maxAnnotation, maxManagedRoutes, maxStatic = split.MaxBytes + 1, managedroute.MaxBytes + 1, staticresponse.MaxBytes + 1

// reduceScaledObject drops what only other programs read: managedFields, labels and other annotations. It stores the
// whole spec.
func (s *interner) reduceScaledObject(object *httpv1alpha1.HTTPScaledObject) *httpv1alpha1.HTTPScaledObject {
	reduced := &httpv1alpha1.HTTPScaledObject{
		ObjectMeta: metav1.ObjectMeta{
			Name:              object.Name,
			Namespace:         object.Namespace,
			UID:               object.UID,
			ResourceVersion:   object.ResourceVersion,
			Generation:        object.Generation,
			CreationTimestamp: object.CreationTimestamp,
			DeletionTimestamp: object.DeletionTimestamp,
			Annotations:       keptAnnotations(object.Annotations),
		},
		Spec:   object.Spec,
		Status: httpv1alpha1.StatusOf(object),
	}
	reduced.Spec.HasScaledObject = hasScaledObject(object)
	reduced.Spec.PathPrefixes = slices.Clone(object.Spec.PathPrefixes)
	reduced.Status.Conditions = slices.Clip(slices.Clone(reduced.Status.Conditions))
	s.intern(&reduced.Namespace, &reduced.Spec.ScaleTargetRef.APIVersion, &reduced.Spec.ScaleTargetRef.Kind)
	for i := range reduced.Spec.PathPrefixes {
		s.intern(&reduced.Spec.PathPrefixes[i])
	}
	internSingle(&s.prefixes, &reduced.Spec.PathPrefixes)
	if target := &reduced.Spec.ScaleTargetRef; target.Name == reduced.Name {
		target.Name = reduced.Name
	}
	if report := reduced.Status.DataPlane; report != nil {
		shared := *report
		if text := reduced.Annotations[httpv1alpha1.AnnotationWeightedBackends]; text == shared.WeightedBackends {
			shared.WeightedBackends = text
		}
		if text := reduced.Annotations[httpv1alpha1.AnnotationManagedRoutes]; text == shared.ManagedRoutes {
			shared.ManagedRoutes = text
		}
		s.intern(&shared.ReportedBy, &shared.Stickiness, &shared.SessionAffinity, &shared.AutowireSettings)
		reduced.Status.DataPlane = &shared
	}
	for i := range reduced.Status.Conditions {
		condition := &reduced.Status.Conditions[i]
		s.intern(&condition.Type, (*string)(&condition.Status), &condition.Reason, &condition.Message)
	}
	return reduced
}

// hasScaledObject reports whether a ScaledObject owns an object, which may be trimmed.
func hasScaledObject(object *httpv1alpha1.HTTPScaledObject) bool {
	owner := metav1.GetControllerOf(object)
	return object.Spec.HasScaledObject || owner != nil && owner.Kind == "ScaledObject"
}

// observedAnnotations returns the annotations that routing, metrics and the queueing of requests depend on.
func observedAnnotations() []string {
	return append(httpv1alpha1.ZeroAnnotations(),
		httpv1alpha1.AnnotationWeightedBackends, httpv1alpha1.AnnotationManagedRoutes,
		httpv1alpha1.AnnotationStickiness, httpv1alpha1.AnnotationSessionAffinity,
		httpv1alpha1.AnnotationAutowireSettings,
		httpv1alpha1.AnnotationRequestTimeout, httpv1alpha1.AnnotationIdleTimeout,
		httpv1alpha1.AnnotationStaticResponses, httpv1alpha1.AnnotationPlaceholderResponse,
		httpv1alpha1.AnnotationFleet, httpv1alpha1.AnnotationAllowedNamespaces, httpv1alpha1.AnnotationRouting,
		httpv1alpha1.AnnotationExternalProxyMetricKey, httpv1alpha1.AnnotationExternalProxySources,
		httpv1alpha1.AnnotationTLSSecretName)
}

// keptAnnotations copies the annotations that are read, each up to its maximum length. The rest is dropped, because
// any tenant can write 256 KiB of annotations to each object and change them continuously. The interceptor's own
// annotation is copied without its value, which is already part of the status.
func keptAnnotations(annotations map[string]string) map[string]string {
	var kept map[string]string
	keep := func(name string, limit int) {
		value, present := annotations[name]
		if !present {
			return
		}
		if kept == nil {
			kept = make(map[string]string, 1)
		}
		if len(value) > limit {
			value = strings.Clone(value[:limit])
		}
		kept[name] = value
	}
	for _, name := range observedAnnotations() {
		limit := maxAnnotation
		switch name {
		case httpv1alpha1.AnnotationManagedRoutes:
			limit = maxManagedRoutes
		case httpv1alpha1.AnnotationStaticResponses, httpv1alpha1.AnnotationPlaceholderResponse:
			limit = maxStatic
		}
		keep(name, limit)
	}
	keep(httpv1alpha1.AnnotationStatus, 0)
	keep(httpv1alpha1.AnnotationProxyAuthentication, maxAnnotation) // of a Service
	return kept
}

// Trim removes most of what the stores drop from the metadata of an object. A list trims each object before it decodes
// the next one.
func Trim(object metav1.Object) {
	if scaledObject, ok := object.(*httpv1alpha1.HTTPScaledObject); ok {
		scaledObject.Status = httpv1alpha1.StatusOf(scaledObject) // keptAnnotations drops the annotation's value
		scaledObject.Spec.HasScaledObject = hasScaledObject(scaledObject)
	}
	object.SetAnnotations(keptAnnotations(object.GetAnnotations()))
	object.SetManagedFields(nil)
	object.SetOwnerReferences(nil)
	object.SetFinalizers(nil)
	service, isOfService := object.GetLabels()[discoveryv1.LabelServiceName]
	object.SetLabels(nil)
	if isOfService {
		object.SetLabels(map[string]string{discoveryv1.LabelServiceName: service})
	}
}

// isSameScaledObjectRouting reports whether two versions differ only in metadata that does not affect routing, or in
// the status, which the interceptor itself writes. The status annotation counts as status.
func isSameScaledObjectRouting(before, after *httpv1alpha1.HTTPScaledObject) bool {
	return before.UID == after.UID &&
		before.CreationTimestamp.Equal(&after.CreationTimestamp) &&
		before.DeletionTimestamp.Equal(after.DeletionTimestamp) &&
		isSameAnnotations(before.Annotations, after.Annotations) &&
		apiequality.Semantic.DeepEqual(before.Spec, after.Spec)
}

// isSameAnnotations reports whether the observedAnnotations are equal.
func isSameAnnotations(before, after map[string]string) bool {
	for _, name := range observedAnnotations() {
		old, hadOld := before[name]
		value, hasValue := after[name]
		if old != value || hadOld != hasValue {
			return false
		}
	}
	return true
}

// reduceService selects the fields of a Service that package resolve reads.
func (s *interner) reduceService(object *corev1.Service) *resolve.Service {
	reduced := resolve.NewService(object)
	s.intern(&reduced.Key.Namespace)
	for i := range reduced.Ports {
		s.intern(&reduced.Ports[i].Name)
	}
	internSingle(&s.ports, &reduced.Ports)
	return reduced
}

// reduceEndpointSlice selects the fields of an EndpointSlice that package resolve reads. Many writes of a slice
// change none of them, for example the time of a Pod's last change.
func (s *interner) reduceEndpointSlice(object *discoveryv1.EndpointSlice) *resolve.EndpointSlice {
	reduced := resolve.NewEndpointSlice(object)
	s.intern(&reduced.Key.Namespace, &reduced.Service.Namespace)
	for i := range reduced.Ports {
		s.intern(&reduced.Ports[i].Name)
	}
	internSingle(&s.slicePorts, &reduced.Ports)
	return reduced
}

// reduceReplicas drops most metadata of the EndpointSlices of the interceptor's replicas.
func reduceReplicas(object *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	reduced := *object
	reduced.ObjectMeta = metav1.ObjectMeta{Name: object.Name, Namespace: object.Namespace, Labels: object.Labels}
	return &reduced
}

// isSameReplicas reports whether two results of reduceReplicas are equal.
func isSameReplicas(before, after *discoveryv1.EndpointSlice) bool {
	return apiequality.Semantic.DeepEqual(before, after)
}
