package main

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

// application contains the objects of one HTTPScaledObject: its Services, stable and canary, with one endpoint each.
type application struct {
	namespace    string
	scaledObject *httpv1alpha1.HTTPScaledObject
	services     []*corev1.Service
	slices       []*discoveryv1.EndpointSlice
}

// endpoint is the address of a Service's only pod.
type endpoint struct {
	address string
	port    int32
}

// nameOf returns the name of application i, hostOf its host.
func nameOf(i int) string { return fmt.Sprintf("web-%05d", i) }
func hostOf(i int) string { return nameOf(i) + ".shop.test" }

// sides are the suffixes of the names of an application's Services.
func sides() []string { return []string{"-stable", "-canary"} }

// annotation returns the annotation of application i at a canary weight.
func annotation(i int, weight uint32) string {
	return split.Format([]split.Backend{
		{Service: nameOf(i) + "-stable", Weight: 100 - weight}, {Service: nameOf(i) + "-canary", Weight: weight},
	})
}

// newApplication creates application i in a canary at a weight. at are the endpoints of its sides.
func newApplication(namespace string, i int, weight uint32, at map[string]endpoint) application {
	app := application{namespace: namespace, scaledObject: &httpv1alpha1.HTTPScaledObject{
		TypeMeta: metav1.TypeMeta{APIVersion: httpv1alpha1.SchemeGroupVersion.String(), Kind: httpv1alpha1.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: nameOf(i), Namespace: namespace, Labels: map[string]string{"app": nameOf(i)},
			Annotations: map[string]string{httpv1alpha1.AnnotationWeightedBackends: annotation(i, weight)},
		},
		Spec: httpv1alpha1.HTTPScaledObjectSpec{
			Hosts: []string{hostOf(i)}, PathPrefixes: []string{"/"},
			ScaleTargetRef: httpv1alpha1.ScaleTargetRef{
				Name: nameOf(i), APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Service: nameOf(i) + "-stable", Port: 80,
			},
		},
	}}
	for _, side := range sides() {
		name, portName, port := nameOf(i)+side, "http", at[side].port
		app.services = append(app.services, &corev1.Service{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app": nameOf(i)}},
			Spec: corev1.ServiceSpec{
				ClusterIP: corev1.ClusterIPNone,
				Selector:  map[string]string{"app": nameOf(i), "rollouts-pod-template-hash": "6c54544bf9"},
				Ports:     []corev1.ServicePort{{Name: portName, Port: 80}},
			},
		})
		app.slices = append(app.slices, &discoveryv1.EndpointSlice{
			TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: namespace,
				Labels: map[string]string{
					discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
				},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
			Endpoints:   endpointsAt(namespace, name, at[side].address),
		})
	}
	return app
}

// endpointsAt returns the endpoints of a Service with one pod.
func endpointsAt(namespace, service, address string) []discoveryv1.Endpoint {
	return []discoveryv1.Endpoint{{
		Addresses: []string{address},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: service + "-6c54544bf9-x7k2z"},
	}}
}

// proxySlice is an EndpointSlice by which the interceptor identifies proxies.
func proxySlice(suffix string, isReady bool, addresses ...netip.Addr) *discoveryv1.EndpointSlice {
	portName, port := "http", int32(translate.ListenerPort)
	slice := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Name: resolve.ProxyService + suffix, Namespace: fleetName(0),
			Labels: map[string]string{discoveryv1.LabelServiceName: resolve.ProxyService},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &isReady},
		})
	}
	return slice
}

// unreachable are endpoints without a server. They differ for each application, as pods do.
func unreachable(i int) map[string]endpoint {
	return map[string]endpoint{
		"-stable": {fmt.Sprintf("10.1.%d.%d", i/250, i%250+1), 8080},
		"-canary": {fmt.Sprintf("10.2.%d.%d", i/250, i%250+1), 8080},
	}
}

// The REST paths of the collections.
func scaledObjectsPath(namespace string) string {
	return "/apis/" + httpv1alpha1.SchemeGroupVersion.String() + "/namespaces/" + namespace + "/" + httpv1alpha1.Resource
}

func servicesPath(namespace string) string { return "/api/v1/namespaces/" + namespace + "/services" }

func slicesPath(namespace string) string {
	return "/apis/" + discoveryv1.SchemeGroupVersion.String() + "/namespaces/" + namespace + "/endpointslices"
}

// create stores an application, the HTTPScaledObject last.
func (a application) create(ctx context.Context, client rest.Interface) error {
	for i := range a.services {
		if err := apiserver.Create(ctx, client, servicesPath(a.namespace), a.services[i]); err != nil {
			return err
		}
		if err := apiserver.Create(ctx, client, slicesPath(a.namespace), a.slices[i]); err != nil {
			return err
		}
	}
	return apiserver.Create(ctx, client, scaledObjectsPath(a.namespace), a.scaledObject)
}

// inputsOf returns the inputs with all of these applications.
func inputsOf(applications []application) resolve.Inputs {
	var inputs resolve.Inputs
	for _, app := range applications {
		inputs.ScaledObjects = append(inputs.ScaledObjects, app.scaledObject)
		inputs.Services = append(inputs.Services, kit.ResolveServices(app.services...)...)
		inputs.EndpointSlices = append(inputs.EndpointSlices, kit.ResolveEndpointSlices(app.slices...)...)
	}
	return inputs
}

// setWeight changes the annotation of application i, as the router does.
func setWeight(ctx context.Context, client rest.Interface, namespace string, i int, weight uint32) error {
	return apiserver.Patch(ctx, client, scaledObjectsPath(namespace)+"/"+nameOf(i), "bench", map[string]any{
		"metadata": map[string]any{
			"annotations": map[string]any{httpv1alpha1.AnnotationWeightedBackends: annotation(i, weight)},
		},
	})
}

// setEndpoint moves the pod of a Service.
func setEndpoint(ctx context.Context, client rest.Interface, namespace, service, address string) error {
	return apiserver.Patch(ctx, client, slicesPath(namespace)+"/"+service, "bench",
		map[string]any{"endpoints": endpointsAt(namespace, service, address)})
}
