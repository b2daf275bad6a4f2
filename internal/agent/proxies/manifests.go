package proxies

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	kedifyproxy "github.com/kedify/argo-rollouts-plugin/config/kedify-proxy"
)

const (
	// bootstrapFile is the key of Envoy's bootstrap in the ConfigMap.
	bootstrapFile = "envoy.yaml"
	// interceptorHost is the prefix of the interceptor's host name in the bootstrap.
	interceptorHost = "keda-add-ons-http-interceptor-kedify-proxy-metric-sink."
	// defaultMaxHeap is the bootstrap's limit of Envoy's heap, in bytes. With a memory limit of m, the heap may
	// use m*(heapDivisor-1)/heapDivisor, the same fraction as in the manifests.
	defaultMaxHeap = "max_heap_size_bytes: 900000000"
	heapDivisor    = 6
	// statusAddress is the bootstrap's address of the listener for probes and statistics, and statusAddressIPv6 the one
	// for Settings.IPv6.
	statusAddress     = "{address: 0.0.0.0, port_value: 9901}"
	statusAddressIPv6 = `{address: "::", port_value: 9901, ipv4_compat: true}`
)

// errManifests means that config/kedify-proxy lacks something that settings change. It is a bug.
var errManifests = errors.New("config/kedify-proxy")

// manifests returns the objects of the proxies of a namespace: config/kedify-proxy with settings, in the order in
// which they are applied, the Deployment last.
func manifests(namespace string, settings Settings) ([]*unstructured.Unstructured, error) {
	objects, err := readManifests()
	if err != nil {
		return nil, err
	}
	var bootstrap string
	for _, object := range objects {
		object.SetNamespace(namespace)
		labels := object.GetLabels()
		labels[httpv1alpha1.LabelManagedBy] = httpv1alpha1.ManagedByAgent
		object.SetLabels(labels)
		switch object.GetKind() {
		case "Service":
			err = settings.configureService(object)
		case "ConfigMap":
			bootstrap, err = settings.configureBootstrap(object)
		case "Deployment":
			err = settings.configureDeployment(object, hash([]byte(bootstrap)))
		}
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return objects, nil
}

// readManifests returns the objects of the files in kustomization.yaml, in order.
func readManifests() ([]*unstructured.Unstructured, error) {
	var list struct {
		Resources []string `json:"resources"`
	}
	text, err := kedifyproxy.Files.ReadFile("kustomization.yaml")
	if err := errors.Join(err, yaml.Unmarshal(text, &list)); err != nil {
		return nil, fmt.Errorf("%w: %w", errManifests, err)
	}
	var objects []*unstructured.Unstructured
	for _, file := range list.Resources {
		text, err := kedifyproxy.Files.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errManifests, err)
		}
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			object := new(unstructured.Unstructured)
			asJSON, err := yaml.YAMLToJSON(document)
			if err == nil {
				err = object.UnmarshalJSON(asJSON)
			}
			if err != nil {
				return nil, fmt.Errorf("%w: %s: %w", errManifests, file, err)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// configureBootstrap sets the settings in the ConfigMap with the bootstrap, and returns the bootstrap.
func (s Settings) configureBootstrap(object *unstructured.Unstructured) (bootstrap string, err error) {
	bootstrap, _, err = unstructured.NestedString(object.Object, "data", bootstrapFile)
	if err != nil {
		return "", err
	}
	var changes []string
	if s.InterceptorNamespace != "" {
		changes = append(changes, interceptorHost+httpv1alpha1.DefaultInterceptorNamespace,
			interceptorHost+s.InterceptorNamespace)
	}
	if s.CA != nil {
		changes = append(changes, interceptorCluster, interceptorCluster+s.transportSocket(),
			interceptorProtocol, tokenFilters()+interceptorProtocol)
		if err := s.addCA(object); err != nil {
			return "", err
		}
	}
	if s.IPv6 {
		changes = append(changes, statusAddress, statusAddressIPv6)
	}
	if s.Resources != nil {
		if limit, has := s.Resources.Limits[corev1.ResourceMemory]; has {
			heap := limit.Value() / heapDivisor * (heapDivisor - 1)
			changes = append(changes, defaultMaxHeap, "max_heap_size_bytes: "+strconv.FormatInt(heap, 10))
		}
	}
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(bootstrap, changes[i]) {
			return "", fmt.Errorf("%w: the bootstrap lacks %q", errManifests, changes[i])
		}
		bootstrap = strings.ReplaceAll(bootstrap, changes[i], changes[i+1])
	}
	return bootstrap, unstructured.SetNestedField(object.Object, bootstrap, "data", bootstrapFile)
}

// configureService sets the settings in Service kedify-proxy, and leaves other Services unchanged.
func (s Settings) configureService(object *unstructured.Unstructured) error {
	if object.GetName() != Service {
		return nil
	}
	if s.isStrict {
		annotate(object, httpv1alpha1.AnnotationProxyAuthentication, httpv1alpha1.ProxyAuthenticationStrict)
	}
	if s.Service == nil {
		return nil
	}
	return s.Service.configure(object)
}

// configureDeployment sets the settings in the Deployment.
func (s Settings) configureDeployment(object *unstructured.Unstructured, bootstrap string) error {
	template := []string{"spec", "template"}
	containers, _, err := unstructured.NestedSlice(object.Object, append(template, "spec", "containers")...)
	if err != nil || len(containers) != 1 {
		return fmt.Errorf("%w: the Deployment must have exactly one container: %w", errManifests, err)
	}
	envoy, isObject := containers[0].(map[string]any)
	if !isObject {
		return fmt.Errorf("%w: the Deployment's container is not an object", errManifests)
	}
	if s.Image != "" {
		envoy["image"] = s.Image
	}
	if s.CA != nil {
		if err := mountToken(object, envoy); err != nil {
			return err
		}
	}
	if s.Resources != nil {
		envoy["resources"] = resourceFields(s.Resources)
	}
	if err := addEnvoyConfig(envoy, s.EnvoyConfig); err != nil {
		return err
	}
	if s.Pod != nil {
		if err := s.Pod.configure(object); err != nil {
			return err
		}
	}
	if s.Replicas != 0 {
		if err := unstructured.SetNestedField(object.Object, int64(s.Replicas), "spec", "replicas"); err != nil {
			return err
		}
	}
	replicas, _, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if err != nil {
		return err
	}
	annotate(object, httpv1alpha1.AnnotationProxyReplicas, strconv.FormatInt(replicas, 10))
	return errors.Join(
		unstructured.SetNestedSlice(object.Object, containers, append(template, "spec", "containers")...),
		unstructured.SetNestedField(object.Object, bootstrap,
			append(template, "metadata", "annotations", httpv1alpha1.AnnotationProxyBootstrap)...))
}

// resourceFields returns resources in the form of the API server.
func resourceFields(resources *corev1.ResourceRequirements) map[string]any {
	fields := map[string]any{}
	for name, list := range map[string]corev1.ResourceList{"requests": resources.Requests, "limits": resources.Limits} {
		written := map[string]any{}
		for resource, quantity := range list {
			written[string(resource)] = quantity.String()
		}
		if len(written) > 0 {
			fields[name] = written
		}
	}
	return fields
}

// annotate sets an annotation.
func annotate(object *unstructured.Unstructured, name, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[name] = value
	object.SetAnnotations(annotations)
}

// hash returns a short hash of a text.
func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
