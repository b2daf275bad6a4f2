package controllers

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	selectors "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
)

// AutowireCache returns the cache configuration for the AutowireReconciler. Ingresses and Services are trimmed to what
// a plan reads, except the Services of proxies, which the ProxyReconciler compares. EndpointSlices and Deployments are
// limited to those of proxies. The other kinds, which may not be installed, are missing: a cache looks up all configured
// kinds when it is created, and fails if one is not installed. See Trim.
func AutowireCache() map[client.Object]cache.ByObject {
	trimmer := autowire.NewTrimmer()
	return map[client.Object]cache.ByObject{
		&networkingv1.Ingress{}: {Transform: func(object any) (any, error) {
			if ingress, ok := object.(*networkingv1.Ingress); ok {
				trimmer.Ingress(ingress)
			}
			return object, nil
		}},
		&corev1.Service{}: {Transform: func(object any) (any, error) {
			if service, ok := object.(*corev1.Service); ok && !isProxyService(service.Name) {
				return trimmer.Service(service), nil
			}
			return object, nil
		}},
		&discoveryv1.EndpointSlice{}: {Label: labels.SelectorFromSet(labels.Set{
			discoveryv1.LabelServiceName: autowire.ProxyService,
		})},
		&appsv1.Deployment{}: byName(autowire.ProxyService),
	}
}

// Trim returns the transformation of the objects for which AutowireCache and ProxyCache have none. Any tenant can store
// 256 KiB of annotations in each object, and more of other metadata.
func Trim() toolscache.TransformFunc {
	trimmer := autowire.NewTrimmer()
	return func(object any) (any, error) {
		switch typed := object.(type) {
		case *apis.HTTPRoute:
			trimmer.HTTPRoute(typed)
		case *apis.VirtualService:
			trimmer.VirtualService(typed)
		case *apis.Route:
			trimmer.Route(typed)
		case *apis.DestinationRule:
			trimMeta(typed)
		case *apis.ScaledObject:
			managers := desired.TriggerManagers(typed.ManagedFields)
			if !isProxyService(typed.Name) {
				trimMeta(typed, append(httpv1alpha1.PausingAnnotations(), httpv1alpha1.AnnotationTriggerProblems)...)
			}
			typed.ManagedFields, typed.OwnerReferences = managers, nil
		case *apis.Rollout:
			trimMeta(typed)
			typed.OwnerReferences = nil
		case *httpv1alpha1.HTTPScaledObject:
			trimMeta(typed, desired.ReadAnnotations()...)
		case *httpv1beta1.InterceptorRoute:
			trimMeta(typed, httpv1alpha1.AnnotationFleet)
			typed.Spec = httpv1beta1.InterceptorRouteSpec{}
		case *networkingv1.IngressClass:
			trimMeta(typed, networkingv1.AnnotationIsDefaultIngressClass)
		case *discoveryv1.EndpointSlice:
			typed.ManagedFields, typed.Annotations = nil, nil
		case *apis.BackendTLSPolicy:
			trimMeta(typed)
		case *apis.AlphaBackendTLSPolicy:
			trimMeta(typed)
		case client.Object: // objects of the proxies, of which each namespace has one
			typed.SetManagedFields(nil)
			delete(typed.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
		}
		return object, nil
	}
}

// trimMeta removes metadata that no controller reads: the field managers, all annotations except some, and all labels
// except that of the agent.
func trimMeta(object client.Object, annotations ...string) {
	object.SetManagedFields(nil)
	object.SetFinalizers(nil)
	maps.DeleteFunc(object.GetAnnotations(), func(name, _ string) bool { return !slices.Contains(annotations, name) })
	maps.DeleteFunc(object.GetLabels(), func(name, _ string) bool { return name != httpv1alpha1.LabelManagedBy })
}

// ProxyCache returns the cache configuration for the ProxyReconciler, in addition to AutowireCache. Of each kind
// it keeps the objects with the name of the proxies' objects, because the agent has permission for these only. Of
// Namespaces it keeps the settings of proxies.
func ProxyCache() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&policyv1.PodDisruptionBudget{}: byName(proxies.Service),
		&corev1.ConfigMap{}:             byName(proxyBootstrap),
		&corev1.Namespace{}: {Transform: func(object any) (any, error) {
			if namespace, ok := object.(*corev1.Namespace); ok {
				trimMeta(namespace, proxies.NamespaceAnnotations()...)
				namespace.Spec, namespace.Status = corev1.NamespaceSpec{}, corev1.NamespaceStatus{}
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
