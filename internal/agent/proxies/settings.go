package proxies

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// Settings are what an operator may choose. Zero values stand for what config/kedify-proxy says.
type Settings struct {
	// Image is Envoy's.
	Image string
	// Replicas is how many proxies there are: 1 to MaxReplicas. Whoever scales the Deployment later is left alone
	// until this number changes.
	Replicas int32
	// MaxReplicas has KEDA scale the proxies, from Replicas up to this number; 0 has nobody.
	MaxReplicas int32
	// Resources are those of one proxy: requests and limits of cpu and memory.
	Resources *corev1.ResourceRequirements
	// InterceptorNamespace is where the proxies have their configuration from.
	InterceptorNamespace string
}

// MaxReplicas bounds Settings.Replicas and Settings.MaxReplicas, so that a slip of the pen does not fill a cluster.
const MaxReplicas = 100

// minMemory is the lowest limit of memory that Envoy starts and serves with.
const minMemory = "128Mi"

// errSetting says that a setting cannot work.
var errSetting = errors.New("invalid setting")

// ParseImage reads the name of an image.
func ParseImage(text string) (string, error) {
	if !regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._/:@-]{0,511}$`).MatchString(text) {
		return "", fmt.Errorf("%w: %.80q is no name of an image, such as envoyproxy/envoy:v1.40.0", errSetting, text)
	}
	return text, nil
}

// ParseReplicas reads a number of proxies.
func ParseReplicas(text string) (int32, error) {
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil || number < 1 || number > MaxReplicas {
		return 0, fmt.Errorf("%w: %.80q is no whole number from 1 to %d", errSetting, text, MaxReplicas)
	}
	return int32(number), nil
}

// ParseMaxReplicas reads the highest number of proxies, 0 for none.
func ParseMaxReplicas(text string) (int32, error) {
	if text == "0" {
		return 0, nil
	}
	return ParseReplicas(text)
}

// ParseResources reads requests and limits of cpu and memory, as YAML or JSON.
func ParseResources(text string) (*corev1.ResourceRequirements, error) {
	found := new(corev1.ResourceRequirements)
	if err := yaml.UnmarshalStrict([]byte(text), found); err != nil {
		return nil, fmt.Errorf("%w: %.200q has not the form of a container's resources, such as "+
			`{"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}: %w`, errSetting, text, err)
	}
	if len(found.Claims) > 0 || len(found.Requests)+len(found.Limits) == 0 {
		return nil, fmt.Errorf("%w: %.200q has to have requests, limits or both, and nothing else", errSetting, text)
	}
	for _, each := range []corev1.ResourceList{found.Requests, found.Limits} {
		for name, quantity := range each {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory || quantity.Sign() <= 0 {
				return nil, fmt.Errorf("%w: %s: %s; allowed are cpu and memory, more than 0",
					errSetting, name, quantity.String())
			}
			if limit, has := found.Limits[name]; has && quantity.Cmp(limit) > 0 {
				return nil, fmt.Errorf("%w: %s: the request %s is above the limit %s",
					errSetting, name, quantity.String(), limit.String())
			}
		}
	}
	memory, isLimited := found.Limits[corev1.ResourceMemory]
	if isLimited && memory.Cmp(resource.MustParse(minMemory)) < 0 {
		return nil, fmt.Errorf("%w: the limit of memory, %s, is below %s", errSetting, memory.String(), minMemory)
	}
	return found, nil
}

// with are the settings of a namespace with these annotations, and the mistakes in them. What is mistaken leaves
// the setting as it was.
func (s Settings) with(annotations map[string]string) (of Settings, mistakes []string) {
	of = s
	for _, each := range []struct {
		name string
		read func(text string) error
	}{
		{httpv1alpha1.AnnotationProxyImage, func(text string) error { return keep(&of.Image)(ParseImage(text)) }},
		{httpv1alpha1.AnnotationProxyReplicas, func(text string) error { return keep(&of.Replicas)(ParseReplicas(text)) }},
		{httpv1alpha1.AnnotationProxyMaxReplicas, func(text string) error { return keep(&of.MaxReplicas)(ParseMaxReplicas(text)) }},
		{httpv1alpha1.AnnotationProxyResources, func(text string) error { return keep(&of.Resources)(ParseResources(text)) }},
	} {
		text, has := annotations[each.name]
		if !has {
			continue
		}
		if err := each.read(text); err != nil {
			mistakes = append(mistakes, fmt.Sprintf("annotation %s of the Namespace: %v", each.name, err))
		}
	}
	if mistake := of.Check(); mistake != nil {
		mistakes = append(mistakes, fmt.Sprintf("annotations %s and %s of the Namespace, or the agent's flags: %v, and no proxies are scaled until then",
			httpv1alpha1.AnnotationProxyReplicas, httpv1alpha1.AnnotationProxyMaxReplicas, mistake))
		of.MaxReplicas = 0
	}
	return of, mistakes
}

// Check says whether settings fit one another: there has to be room between the numbers of proxies.
func (s Settings) Check() error {
	if least := max(1, s.Replicas); s.MaxReplicas != 0 && s.MaxReplicas <= least {
		return fmt.Errorf("%w: the highest number of proxies, %d, has to be above the number of proxies, %d", errSetting, s.MaxReplicas, least)
	}
	return nil
}

// keep stores what was read, unless that failed.
func keep[T any](into *T) func(read T, err error) error {
	return func(read T, err error) error {
		if err == nil {
			*into = read
		}
		return err
	}
}
