package proxies

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// PodSettings are the settings of the proxies' Pods that do not concern Envoy: where they run, and their metadata.
type PodSettings struct {
	// Labels and Annotations are added to those of config/kedify-proxy, of which they can replace app.kubernetes.io/name,
	// instance and component.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Tolerations are added to those of config/kedify-proxy. The agent's admission policy allows other keys of taints
	// only if it lists them.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// TopologySpreadConstraints replace those of config/kedify-proxy.
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// NodeSelector, Affinity, PriorityClassName and ImagePullSecrets are fields of the Pods.
	NodeSelector      map[string]string             `json:"nodeSelector,omitempty"`
	Affinity          *corev1.Affinity              `json:"affinity,omitempty"`
	PriorityClassName string                        `json:"priorityClassName,omitempty"`
	ImagePullSecrets  []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// ParsePod parses settings of Pods, as YAML or JSON. An empty object means no settings.
func ParsePod(text string) (*PodSettings, error) {
	settings := new(PodSettings)
	if err := yaml.UnmarshalStrict([]byte(text), settings); err != nil {
		return nil, fmt.Errorf("%w: %.200q does not have the form of settings of Pods, such as "+
			`{"nodeSelector": {"pool": "edge"}, "priorityClassName": "edge"}: %w`, errSetting, text, err)
	}
	if err := checkMetadata(settings.Labels, settings.Annotations, "Deployment", "spec", "template", "metadata"); err != nil {
		return nil, err
	}
	if errs := metav1validation.ValidateLabels(settings.Labels, field.NewPath("labels")); len(errs) > 0 {
		return nil, fmt.Errorf("%w: %w", errSetting, errs.ToAggregate())
	}
	return settings, nil
}

// configure sets the settings in the Deployment.
func (s *PodSettings) configure(deployment *unstructured.Unstructured) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		path, value := []string{"spec", "template", "spec", name}, fields[name]
		switch name {
		case "labels", "annotations":
			path = []string{"spec", "template", "metadata", name}
			existing, _, err := unstructured.NestedMap(deployment.Object, path...)
			if err != nil {
				return err
			}
			maps.Copy(existing, value.(map[string]any)) //nolint:forcetypeassert // The field is a map of strings.
			value = existing
		case "tolerations":
			existing, _, err := unstructured.NestedSlice(deployment.Object, path...)
			if err != nil {
				return err
			}
			value = slices.Concat(existing, value.([]any)) //nolint:forcetypeassert // The field is a slice.
		}
		if err := unstructured.SetNestedField(deployment.Object, value, path...); err != nil {
			return err
		}
	}
	return nil
}
