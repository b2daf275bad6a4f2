package kit

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
)

// NewScaledObject returns an HTTPScaledObject that routes the requests for hosts to port 80 of service. It was created
// rank seconds after the Unix epoch: the lower the rank, the older. Objects of another rank have another UID.
func NewScaledObject(namespace, name, service string, rank int, hosts ...string) *httpv1alpha1.HTTPScaledObject {
	return &httpv1alpha1.HTTPScaledObject{
		TypeMeta: metav1.TypeMeta{APIVersion: httpv1alpha1.Group + "/" + httpv1alpha1.Version, Kind: httpv1alpha1.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         namespace,
			Name:              name,
			CreationTimestamp: metav1.NewTime(time.Unix(int64(rank), 0)),
			UID:               types.UID("created-" + strconv.Itoa(rank)),
		},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts:          slices.Clone(hosts),
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{Service: service, Port: 80},
		},
	}
}

// WithSplit returns a copy of object that splits its requests between backends.
func WithSplit(object *httpv1alpha1.HTTPScaledObject, backends ...split.Backend) *httpv1alpha1.HTTPScaledObject {
	return WithAnnotation(object, httpv1alpha1.AnnotationWeightedBackends, split.Format(backends))
}

// WithAnnotation returns a copy of object with one annotation set.
func WithAnnotation(object *httpv1alpha1.HTTPScaledObject, name, value string) *httpv1alpha1.HTTPScaledObject {
	changed := object.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, name, value)
	return changed
}

// NewService returns a Service with port 80 named http. Its Pods listen on port 8080.
func NewService(namespace, name string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

// NewEndpointSlice returns the slice of a Service of NewService, with a ready endpoint for each address.
func NewEndpointSlice(namespace, service string, addresses ...string) *discoveryv1.EndpointSlice {
	name, port := "http", int32(8080)
	slice := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      service + "-1",
			Labels:    map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	return slice
}
