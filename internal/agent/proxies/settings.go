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

// Settings are the proxy settings of an operator. Zero values mean the defaults in config/kedify-proxy.
type Settings struct {
	// Image is Envoy's image.
	Image string
	// Replicas is the number of proxies, 1 to MaxReplicas. If someone else scales the Deployment later, the agent
	// keeps that number until this setting changes.
	Replicas int32
	// MaxReplicas lets KEDA scale the proxies from Replicas up to this number; 0 disables it.
	MaxReplicas int32
	// TargetConnections is the number of connections with clients for each proxy: KEDA adds proxies above it, within
	// MaxReplicas. 0 means that only the CPU usage counts.
	TargetConnections int32
	// ScalerAddress is the address at which KEDA reaches the scaler, as host:port. It is required with TargetConnections.
	ScalerAddress string
	// Resources are the requests and limits of cpu and memory of one proxy.
	Resources *corev1.ResourceRequirements
	// Pod are the settings of the Pods, Service those of Service kedify-proxy; nil for none.
	Pod     *PodSettings
	Service *ServiceSettings
	// EnvoyConfig is added to Envoy's bootstrap: YAML with fields of the bootstrap.
	EnvoyConfig string
	// InterceptorNamespace is the namespace of the interceptor that configures the proxies.
	InterceptorNamespace string
	// CA are the CAs in PEM that sign the interceptor's certificate. The proxies connect to the interceptor by TLS and
	// verify its certificate, and they prove their namespace by a token. Nil means that they connect without TLS and
	// without a token.
	CA []byte
	// isStrict makes the interceptor serve no proxy of the namespace without a token.
	isStrict bool
	// IPv6 makes the listener that the kubelet probes listen on IPv6 in addition to IPv4. The first address of a Pod in
	// the cluster must be an IPv6 address: Envoy does not start on a machine without IPv6.
	IPv6 bool
}

// MaxReplicas bounds Settings.Replicas and Settings.MaxReplicas, so that a typing error cannot fill a cluster.
const MaxReplicas = 100

// minMemory is the lowest memory limit with which Envoy starts and serves.
const minMemory = "128Mi"

// errSetting is the error of an invalid setting.
var errSetting = errors.New("invalid setting")

// ParseImage validates an image reference.
func ParseImage(text string) (string, error) {
	if !regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._/:@-]{0,511}$`).MatchString(text) {
		return "", fmt.Errorf("%w: %.80q is not an image reference such as envoyproxy/envoy:v1.40.0", errSetting, text)
	}
	return text, nil
}

// ParseReplicas parses a number of proxies.
func ParseReplicas(text string) (int32, error) {
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil || number < 1 || number > MaxReplicas {
		return 0, fmt.Errorf("%w: %.80q is not a whole number from 1 to %d", errSetting, text, MaxReplicas)
	}
	return int32(number), nil
}

// ParseMaxReplicas parses the maximum number of proxies, 0 for no scaling.
func ParseMaxReplicas(text string) (int32, error) {
	if text == "0" {
		return 0, nil
	}
	return ParseReplicas(text)
}

// ParseTargetConnections parses the number of connections for each proxy, 0 for none.
func ParseTargetConnections(text string) (int32, error) {
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil || number < 0 {
		return 0, fmt.Errorf("%w: %.80q is not a whole number of connections, or 0 for none", errSetting, text)
	}
	return int32(number), nil
}

// ParseResources parses requests and limits of cpu and memory, as YAML or JSON.
func ParseResources(text string) (*corev1.ResourceRequirements, error) {
	resources := new(corev1.ResourceRequirements)
	if err := yaml.UnmarshalStrict([]byte(text), resources); err != nil {
		return nil, fmt.Errorf("%w: %.200q does not have the form of container resources, such as "+
			`{"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}: %w`, errSetting, text, err)
	}
	if len(resources.Claims) > 0 || len(resources.Requests)+len(resources.Limits) == 0 {
		return nil, fmt.Errorf("%w: %.200q must contain requests, limits or both, and nothing else", errSetting, text)
	}
	for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
		for name, quantity := range list {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory || quantity.Sign() <= 0 {
				return nil, fmt.Errorf("%w: %s: %s; only cpu and memory are allowed, and only positive amounts",
					errSetting, name, quantity.String())
			}
			if limit, has := resources.Limits[name]; has && quantity.Cmp(limit) > 0 {
				return nil, fmt.Errorf("%w: %s: the request %s exceeds the limit %s",
					errSetting, name, quantity.String(), limit.String())
			}
		}
	}
	memory, isLimited := resources.Limits[corev1.ResourceMemory]
	if isLimited && memory.Cmp(resource.MustParse(minMemory)) < 0 {
		return nil, fmt.Errorf("%w: the memory limit %s is below the minimum %s", errSetting, memory.String(), minMemory)
	}
	return resources, nil
}

// NamespaceAnnotations returns the names of the annotations of a Namespace with settings.
func NamespaceAnnotations() []string {
	return []string{
		httpv1alpha1.AnnotationProxyImage, httpv1alpha1.AnnotationProxyReplicas, httpv1alpha1.AnnotationProxyMaxReplicas,
		httpv1alpha1.AnnotationProxyTargetConnections, httpv1alpha1.AnnotationProxyResources,
		httpv1alpha1.AnnotationProxyPod, httpv1alpha1.AnnotationProxyService, httpv1alpha1.AnnotationProxyEnvoyConfig,
	}
}

// withAnnotations returns the settings with those of a Namespace's annotations, and the validation errors. An
// invalid annotation leaves its setting unchanged.
func (s Settings) withAnnotations(annotations map[string]string) (merged Settings, problems []string) {
	merged = s
	for _, setting := range []struct {
		name string
		read func(text string) error
	}{
		{httpv1alpha1.AnnotationProxyImage, func(text string) error {
			return store(&merged.Image)(ParseImage(text))
		}},
		{httpv1alpha1.AnnotationProxyReplicas, func(text string) error {
			return store(&merged.Replicas)(ParseReplicas(text))
		}},
		{httpv1alpha1.AnnotationProxyMaxReplicas, func(text string) error {
			return store(&merged.MaxReplicas)(ParseMaxReplicas(text))
		}},
		{httpv1alpha1.AnnotationProxyTargetConnections, func(text string) error {
			return store(&merged.TargetConnections)(ParseTargetConnections(text))
		}},
		{httpv1alpha1.AnnotationProxyResources, func(text string) error {
			return store(&merged.Resources)(ParseResources(text))
		}},
		{httpv1alpha1.AnnotationProxyPod, func(text string) error {
			return store(&merged.Pod)(ParsePod(text))
		}},
		{httpv1alpha1.AnnotationProxyService, func(text string) error {
			return store(&merged.Service)(ParseService(text))
		}},
		{httpv1alpha1.AnnotationProxyEnvoyConfig, func(text string) error {
			return store(&merged.EnvoyConfig)(ParseEnvoyConfig(text))
		}},
	} {
		text, has := annotations[setting.name]
		if !has {
			continue
		}
		if err := setting.read(text); err != nil {
			problems = append(problems, fmt.Sprintf("annotation %s of the Namespace: %v", setting.name, err))
		}
	}
	if err := merged.Check(); err != nil {
		problems = append(problems, fmt.Sprintf(
			"annotations %s and %s of the Namespace, or the agent's flags: %v; "+
				"until this is fixed, KEDA does not scale the proxies",
			httpv1alpha1.AnnotationProxyReplicas, httpv1alpha1.AnnotationProxyMaxReplicas, err))
		merged.MaxReplicas = 0
	}
	return merged, problems
}

// Check validates settings that depend on each other: the maximum number of proxies must exceed the number of
// proxies.
func (s Settings) Check() error {
	if least := max(1, s.Replicas); s.MaxReplicas != 0 && s.MaxReplicas <= least {
		return fmt.Errorf("%w: the maximum number of proxies, %d, must exceed the number of proxies, %d",
			errSetting, s.MaxReplicas, least)
	}
	return nil
}

// store stores a parsed value, unless parsing failed.
func store[T any](into *T) func(read T, err error) error {
	return func(read T, err error) error {
		if err == nil {
			*into = read
		}
		return err
	}
}
