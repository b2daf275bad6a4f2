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
)

// The functions below decide what is kept in memory of each kind, and which changes wake the whole chain. A field that resolve or status starts to read has
// to be kept here first.

// maxAnnotation is how much of an annotation is kept, in bytes, and maxManaged that of AnnotationManagedRoutes: enough to tell that it is too long.
const maxAnnotation, maxManaged = split.MaxBytes + 1, managedroute.MaxBytes + 1

// reduceScaledObject keeps everything but what only other programs read: managedFields, labels and annotations.
func (s *shared) reduceScaledObject(object *httpv1alpha1.HTTPScaledObject) *httpv1alpha1.HTTPScaledObject {
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
	reduced.Spec.PathPrefixes = slices.Clone(object.Spec.PathPrefixes)
	reduced.Status.Conditions = slices.Clip(slices.Clone(reduced.Status.Conditions))
	s.share(&reduced.Namespace, &reduced.Spec.ScaleTargetRef.APIVersion, &reduced.Spec.ScaleTargetRef.Kind)
	for i := range reduced.Spec.PathPrefixes {
		s.share(&reduced.Spec.PathPrefixes[i])
	}
	shareOne(&s.prefixes, &reduced.Spec.PathPrefixes)
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
		s.share(&shared.ReportedBy)
		reduced.Status.DataPlane = &shared
	}
	for i := range reduced.Status.Conditions {
		condition := &reduced.Status.Conditions[i]
		s.share(&condition.Type, (*string)(&condition.Status), &condition.Reason, &condition.Message)
	}
	return reduced
}

// observedAnnotations are the annotations that routing, and the counting and holding of requests depend on.
func observedAnnotations() []string {
	return append(httpv1alpha1.ZeroAnnotations(),
		httpv1alpha1.AnnotationWeightedBackends, httpv1alpha1.AnnotationManagedRoutes,
		httpv1alpha1.AnnotationFleet, httpv1alpha1.AnnotationExternalProxyMetricKey,
		httpv1alpha1.AnnotationTLSSecretName)
}

// keptAnnotations copies the annotations that are read, each up to maxAnnotation. Any tenant can write
// 256 KiB of others into each of its objects, and change them all the time. Of the interceptor's own
// one, which is in the status already, only that it is there is kept.
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
		if name == httpv1alpha1.AnnotationManagedRoutes {
			limit = maxManaged
		}
		keep(name, limit)
	}
	keep(httpv1alpha1.AnnotationStatus, 0)
	return kept
}

// sameScaledObjectRouting says whether two versions differ at most in their status, which the interceptor writes itself, and in bookkeeping. Its annotation
// is a part of the status.
func sameScaledObjectRouting(before, after *httpv1alpha1.HTTPScaledObject) bool {
	return before.UID == after.UID &&
		before.CreationTimestamp.Equal(&after.CreationTimestamp) &&
		before.DeletionTimestamp.Equal(after.DeletionTimestamp) &&
		sameAnnotations(before.Annotations, after.Annotations) &&
		apiequality.Semantic.DeepEqual(before.Spec, after.Spec)
}

// sameAnnotations says whether observedAnnotations are the same.
func sameAnnotations(before, after map[string]string) bool {
	for _, name := range observedAnnotations() {
		was, wasThere := before[name]
		is, isThere := after[name]
		if was != is || wasThere != isThere {
			return false
		}
	}
	return true
}

// reduceService keeps what resolve reads of a Service.
func (s *shared) reduceService(object *corev1.Service) *resolve.Service {
	reduced := resolve.NewService(object)
	s.share(&reduced.Key.Namespace)
	for i := range reduced.Ports {
		s.share(&reduced.Ports[i].Name)
	}
	shareOne(&s.ports, &reduced.Ports)
	return reduced
}

// reduceEndpointSlice keeps what resolve reads of an EndpointSlice. Slices are written often for reasons
// that change none of it, such as the time of the last change of a Pod.
func (s *shared) reduceEndpointSlice(object *discoveryv1.EndpointSlice) *resolve.EndpointSlice {
	reduced := resolve.NewEndpointSlice(object)
	s.share(&reduced.Key.Namespace, &reduced.Service.Namespace)
	for i := range reduced.Ports {
		s.share(&reduced.Ports[i].Name)
	}
	shareOne(&s.slicePorts, &reduced.Ports)
	return reduced
}

// reduceReplicas keeps all but metadata of the EndpointSlices of the interceptor's own replicas.
func reduceReplicas(object *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	reduced := *object
	reduced.ObjectMeta = metav1.ObjectMeta{Name: object.Name, Namespace: object.Namespace, Labels: object.Labels}
	return &reduced
}

// sameReplicas says whether two versions of what reduceReplicas keeps are the same.
func sameReplicas(before, after *discoveryv1.EndpointSlice) bool {
	return apiequality.Semantic.DeepEqual(before, after)
}
