package ingest

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/split"
)

// The functions below decide what is kept in memory of each kind, and which changes wake the whole chain. A field that resolve or status starts to read has
// to be kept here first.

// maxAnnotation is how much of an annotation is kept, in bytes: enough to tell that it is too long.
const maxAnnotation = split.MaxBytes + 1

// reduceScaledObject keeps everything but what only other programs read: managedFields and annotations.
func reduceScaledObject(object *httpv1alpha1.HTTPScaledObject) *httpv1alpha1.HTTPScaledObject {
	return &httpv1alpha1.HTTPScaledObject{
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
}

// observedAnnotations are the annotations that routing, and the counting and holding of requests depend on.
func observedAnnotations() []string {
	return append(httpv1alpha1.ZeroAnnotations(),
		httpv1alpha1.AnnotationWeightedBackends, httpv1alpha1.AnnotationFleet,
		httpv1alpha1.AnnotationExternalProxyMetricKey)
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
		kept[name] = strings.Clone(value[:min(len(value), limit)])
	}
	for _, name := range observedAnnotations() {
		keep(name, maxAnnotation)
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

// reduceService keeps the identity, the type, the ports, the first IP family, and the hash in the selector of a Service of a Rollout.
func reduceService(object *corev1.Service) *corev1.Service {
	reduced := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: object.Name, Namespace: object.Namespace},
		Spec:       corev1.ServiceSpec{Type: object.Spec.Type, Ports: make([]corev1.ServicePort, len(object.Spec.Ports))},
	}
	for i, port := range object.Spec.Ports {
		reduced.Spec.Ports[i] = corev1.ServicePort{Name: port.Name, Protocol: port.Protocol, AppProtocol: port.AppProtocol, Port: port.Port}
	}
	if len(object.Spec.IPFamilies) > 0 {
		reduced.Spec.IPFamilies = object.Spec.IPFamilies[:1:1]
	}
	if hash := object.Spec.Selector[hashLabel]; hash != "" {
		reduced.Spec.Selector = map[string]string{hashLabel: hash}
	}
	return reduced
}

// sameServiceRouting says whether two versions of a Service are the same to routing.
func sameServiceRouting(before, after *corev1.Service) bool {
	return apiequality.Semantic.DeepEqual(before, after)
}

// reduceEndpointSlice keeps the label that names the Service, the ports, and addresses, conditions and Pod of each endpoint.
func reduceEndpointSlice(object *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	reduced := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name:      object.Name,
			Namespace: object.Namespace,
			Labels:    map[string]string{discoveryv1.LabelServiceName: object.Labels[discoveryv1.LabelServiceName]},
		},
		AddressType: object.AddressType,
		Ports:       object.Ports,
		Endpoints:   make([]discoveryv1.Endpoint, len(object.Endpoints)),
	}
	for i, endpoint := range object.Endpoints {
		// All addresses of an endpoint stand for the same pod, and consumers use the first (discovery/v1, Endpoint).
		reduced.Endpoints[i] = discoveryv1.Endpoint{Addresses: endpoint.Addresses[:min(1, len(endpoint.Addresses))], Conditions: endpoint.Conditions}
		if target := endpoint.TargetRef; target != nil {
			reduced.Endpoints[i].TargetRef = &corev1.ObjectReference{Kind: target.Kind, Name: target.Name}
		}
	}
	return reduced
}

// sameEndpointSliceRouting says whether two versions of a slice lead to the same endpoints. Slices are written often for reasons that change none, such as
// the time of the last change of a pod.
func sameEndpointSliceRouting(before, after *discoveryv1.EndpointSlice) bool {
	return apiequality.Semantic.DeepEqual(before, after)
}
