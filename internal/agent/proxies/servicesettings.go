package proxies

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// ServiceSettings are the settings of Service kedify-proxy, for load balancers in front of the proxies.
type ServiceSettings struct {
	// Labels and Annotations are added to those of config/kedify-proxy, which they cannot replace.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Type is ClusterIP, NodePort or LoadBalancer. Empty means ClusterIP.
	Type corev1.ServiceType `json:"type,omitempty"`
	// The other fields are those of the Service.
	LoadBalancerClass        *string                              `json:"loadBalancerClass,omitempty"`
	LoadBalancerSourceRanges []string                             `json:"loadBalancerSourceRanges,omitempty"`
	ExternalTrafficPolicy    corev1.ServiceExternalTrafficPolicy  `json:"externalTrafficPolicy,omitempty"`
	InternalTrafficPolicy    *corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy,omitempty"`
	TrafficDistribution      *string                              `json:"trafficDistribution,omitempty"`
}

// ParseService parses settings of Service kedify-proxy, as YAML or JSON. An empty object means no settings.
func ParseService(text string) (*ServiceSettings, error) {
	settings := new(ServiceSettings)
	if err := yaml.UnmarshalStrict([]byte(text), settings); err != nil {
		return nil, fmt.Errorf("%w: %.200q does not have the form of settings of a Service, such as "+
			`{"type": "NodePort"}: %w`, errSetting, text, err)
	}
	if err := checkMetadata(settings.Labels, settings.Annotations, "Service", "metadata"); err != nil {
		return nil, err
	}
	types := []corev1.ServiceType{"", corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer}
	if !slices.Contains(types, settings.Type) {
		return nil, fmt.Errorf("%w: type: %q is not ClusterIP, NodePort or LoadBalancer", errSetting, settings.Type)
	}
	return settings, settings.checkDependent()
}

// checkDependent rejects fields that the API server rejects with the type of the Service.
func (s *ServiceSettings) checkDependent() error {
	isBalanced := s.Type == corev1.ServiceTypeLoadBalancer
	switch {
	case s.LoadBalancerClass != nil && !isBalanced:
		return fmt.Errorf("%w: loadBalancerClass requires type LoadBalancer", errSetting)
	case len(s.LoadBalancerSourceRanges) > 0 && !isBalanced:
		return fmt.Errorf("%w: loadBalancerSourceRanges require type LoadBalancer", errSetting)
	case s.ExternalTrafficPolicy != "" && !isBalanced && s.Type != corev1.ServiceTypeNodePort:
		return fmt.Errorf("%w: externalTrafficPolicy requires type NodePort or LoadBalancer", errSetting)
	}
	return nil
}

// configure sets the settings in the Service.
func (s *ServiceSettings) configure(service *unstructured.Unstructured) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	if err != nil {
		return err
	}
	delete(fields, "labels")
	delete(fields, "annotations")
	labels := service.GetLabels()
	maps.Copy(labels, s.Labels)
	service.SetLabels(labels)
	for name, value := range s.Annotations {
		annotate(service, name, value)
	}
	for name, value := range fields {
		if err := unstructured.SetNestedField(service.Object, value, "spec", name); err != nil {
			return err
		}
	}
	return nil
}
