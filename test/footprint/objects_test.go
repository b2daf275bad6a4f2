package footprint

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
)

// size is the size of the environment: objects, distributed evenly over fleets, and proxies of the first fleet.
type size struct{ fleets, objects, proxies int }

func (s size) String() string { return fmt.Sprintf("%dx%d/%d", s.fleets, s.objects, s.proxies) }

// objectName returns the name of an object.
func objectName(i int) string { return fmt.Sprintf("web-%05d", i) }

// fleetName returns the namespace of an object.
func (s size) fleetName(i int) string { return fmt.Sprintf("shop-%03d", i%s.fleets) }

// metadata returns the metadata that every object has in a cluster.
func metadata(namespace, name string, version int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(fmt.Sprintf("3f2b1c9e-5d4a-4c1e-9f00-%012d", version)),
		ResourceVersion: strconv.Itoa(version), Generation: 1,
		CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0)), Labels: map[string]string{"app": name},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:hosts":{}}}`)},
		}},
	}
}

// scaledObject returns object i, in a canary, in a version and with a status.
func (s size) scaledObject(i, version int, status httpv1alpha1.HTTPScaledObjectStatus) *httpv1alpha1.HTTPScaledObject {
	name := objectName(i)
	object := &httpv1alpha1.HTTPScaledObject{
		TypeMeta:   metav1.TypeMeta{APIVersion: httpv1alpha1.SchemeGroupVersion.String(), Kind: httpv1alpha1.Kind},
		ObjectMeta: metadata(s.fleetName(i), name, i+1),
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts: []string{name + ".shop.test"}, PathPrefixes: []string{"/"},
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{
				Name: name, APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Service: name + "-stable", Port: 80,
			},
		},
		Status: status,
	}
	object.ResourceVersion = strconv.Itoa(version)
	object.Annotations = map[string]string{httpv1alpha1.AnnotationWeightedBackends: split.Format([]split.Backend{
		{Service: name + "-stable", Weight: 90}, {Service: name + "-canary", Weight: 10},
	})}
	return object
}

// service returns one of the two Services of object i.
func (s size) service(i int, side string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metadata(s.fleetName(i), objectName(i)+side, i+1),
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.1.1", ClusterIPs: []string{"10.96.1.1"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Type:     corev1.ServiceTypeClusterIP,
			Selector: map[string]string{"app": objectName(i), "rollouts-pod-template-hash": "6c54544bf9"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
}

// slice returns the EndpointSlice of one of the two Services of object i, with one Pod.
func (s size) slice(i int, side string) *discoveryv1.EndpointSlice {
	isTrue, isFalse, port, portName, protocol := true, false, int32(8080), "http", corev1.ProtocolTCP
	service, node := objectName(i)+side, "node-1"
	meta := metadata(s.fleetName(i), service+"-x2v9q", i+1)
	meta.Labels = map[string]string{
		discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: &portName, Port: &port, Protocol: &protocol}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{fmt.Sprintf("10.%d.%d.%d", len(side), i/250, i%250+1)},
			Conditions: discoveryv1.EndpointConditions{Ready: &isTrue, Serving: &isTrue, Terminating: &isFalse},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: s.fleetName(i), Name: service + "-6c54544bf9-x7k2z"},
			NodeName:   &node,
		}},
	}
}

// proxiesSlice returns the EndpointSlice of the first fleet's proxies.
func (s size) proxiesSlice() *discoveryv1.EndpointSlice {
	slice := s.slice(0, "")
	slice.Name, slice.Labels[discoveryv1.LabelServiceName] = resolve.ProxyService, resolve.ProxyService
	slice.Endpoints = nil
	for i := range s.proxies {
		isReady := true
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{proxyAddress(i)}, Conditions: discoveryv1.EndpointConditions{Ready: &isReady},
		})
	}
	return slice
}

// proxyAddress returns the address of a proxy, of which netspace.Main makes 150 local.
func proxyAddress(i int) string { return fmt.Sprintf("192.0.2.%d", i+100) }

// scaledObjects, services and slices return the lists of an API server, created again in each call.
func (s size) scaledObjects() runtime.Object {
	list := new(httpv1alpha1.HTTPScaledObjectList)
	for i := range s.objects {
		list.Items = append(list.Items, *deepCopy(s.scaledObject(i, i+1, httpv1alpha1.HTTPScaledObjectStatus{})))
	}
	return list
}

func (s size) services() runtime.Object {
	list := new(corev1.ServiceList)
	for i := range s.objects {
		list.Items = append(list.Items, *deepCopy(s.service(i, "-stable")), *deepCopy(s.service(i, "-canary")))
	}
	return list
}

func (s size) slices() runtime.Object {
	list := new(discoveryv1.EndpointSliceList)
	for i := range s.objects {
		list.Items = append(list.Items, *deepCopy(s.slice(i, "-stable")), *deepCopy(s.slice(i, "-canary")))
	}
	list.Items = append(list.Items, *deepCopy(s.proxiesSlice()))
	return list
}

// deepCopy returns an object as decoded from the API server: it shares no memory with another one.
func deepCopy[T any](object *T) *T {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // No type of these can fail.
	}
	fresh := new(T)
	if err := json.Unmarshal(text, fresh); err != nil {
		panic(err)
	}
	return fresh
}
