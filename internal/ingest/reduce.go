package ingest

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// The functions below decide what is kept in memory of each kind, and which changes wake the whole chain. A field that resolve or status starts to read has
// to be kept here first.

// reduceScaledObject keeps everything but what only other programs read: managedFields and the annotation in which kubectl keeps a second copy of the object.
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
			Annotations:       withoutLastApplied(object.Annotations),
		},
		Spec:   object.Spec,
		Status: object.Status,
	}
}

// withoutLastApplied copies annotations without kubectl's copy of the object.
func withoutLastApplied(annotations map[string]string) map[string]string {
	if len(annotations) == 0 {
		return nil
	}
	kept := make(map[string]string, len(annotations))
	for name, value := range annotations {
		if name != corev1.LastAppliedConfigAnnotation {
			kept[name] = value
		}
	}
	return kept
}

// sameScaledObjectRouting says whether two versions differ at most in their status, which the interceptor writes itself, and in bookkeeping.
func sameScaledObjectRouting(before, after *httpv1alpha1.HTTPScaledObject) bool {
	return before.UID == after.UID &&
		before.CreationTimestamp.Equal(&after.CreationTimestamp) &&
		before.DeletionTimestamp.Equal(after.DeletionTimestamp) &&
		apiequality.Semantic.DeepEqual(before.Annotations, after.Annotations) &&
		apiequality.Semantic.DeepEqual(before.Spec, after.Spec)
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

// reducePod keeps the identity, the addresses, and whether the Pod is Ready and stays.
func reducePod(object *corev1.Pod) *corev1.Pod {
	reduced := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: object.Name, Namespace: object.Namespace, DeletionTimestamp: object.DeletionTimestamp},
		Status:     corev1.PodStatus{PodIPs: object.Status.PodIPs},
	}
	for _, condition := range object.Status.Conditions {
		if condition.Type == corev1.PodReady {
			reduced.Status.Conditions = []corev1.PodCondition{{Type: condition.Type, Status: condition.Status}}
		}
	}
	return reduced
}

// samePod says whether two versions of a Pod are the same to reports.
func samePod(before, after *corev1.Pod) bool { return apiequality.Semantic.DeepEqual(before, after) }
