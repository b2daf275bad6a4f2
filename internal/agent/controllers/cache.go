package controllers

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	selectors "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
)

// AutowireCache returns the cache configuration for the AutowireReconciler. Ingresses are kept whole, because
// their patches depend on all of their metadata. Of Services only the ports and the annotations that affect autowiring
// are kept, except those of proxies, which the ProxyReconciler compares. EndpointSlices and Deployments are limited to those of proxies. HTTPRoutes
// are missing: a cache looks up all configured kinds when it is created, and fails if one is not installed.
func AutowireCache() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&networkingv1.Ingress{}: {Transform: func(object any) (any, error) { return object, nil }},
		&corev1.Service{}: {Transform: func(object any) (any, error) {
			if service, ok := object.(*corev1.Service); ok && !isProxyService(service.Name) {
				kept := &corev1.Service{ObjectMeta: named(service), Spec: corev1.ServiceSpec{Ports: service.Spec.Ports}}
				kept.ResourceVersion, kept.UID = service.ResourceVersion, service.UID
				kept.Annotations = autowire.ServiceAnnotations(service.Annotations)
				return kept, nil
			}
			return object, nil
		}},
		&discoveryv1.EndpointSlice{}: {Label: labels.SelectorFromSet(labels.Set{
			discoveryv1.LabelServiceName: autowire.ProxyService,
		})},
		&appsv1.Deployment{}: byName(autowire.ProxyService),
	}
}

// ProxyCache returns the cache configuration for the ProxyReconciler, in addition to AutowireCache. Of each kind
// it keeps the objects with the name of the proxies' objects, because the agent has permission for these only. Of
// Namespaces it keeps the metadata.
func ProxyCache() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&policyv1.PodDisruptionBudget{}: byName(proxies.Service),
		&corev1.ConfigMap{}:             byName(proxyBootstrap),
		&corev1.Namespace{}: {Transform: func(object any) (any, error) {
			if namespace, ok := object.(*corev1.Namespace); ok {
				namespace.ManagedFields, namespace.Spec, namespace.Status = nil, corev1.NamespaceSpec{}, corev1.NamespaceStatus{}
			}
			return object, nil
		}},
	}
}

// byName limits the cache to the objects of one name, because the agent has permission for these only.
func byName(name string) cache.ByObject {
	return cache.ByObject{Field: selectors.OneTermEqualSelector("metadata.name", name)}
}

// isProxyService reports whether a Service has the name of a Service of the proxies.
func isProxyService(name string) bool { return name == proxies.Service || name == proxyAdmin }
