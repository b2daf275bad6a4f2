package manifests

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/config"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
)

// Component is a component of the data plane or of autoscaling.
type Component string

// The components, in installation order.
const (
	// Interceptor is the control plane of the proxies, with the CustomResourceDefinitions of HTTPScaledObjects
	// and InterceptorRoutes.
	Interceptor Component = "interceptor"
	// Proxy is the proxies of namespaces.
	Proxy Component = "proxy"
	// Scaler is the external scaler that KEDA queries.
	Scaler Component = "scaler"
	// Agent converts triggers to HTTPScaledObjects and autowires Ingresses.
	Agent Component = "agent"
)

const kindCRD = "CustomResourceDefinition"

// crdVersion returns the version that a CustomResourceDefinition must serve.
func crdVersion(name string) string {
	if name == httpv1beta1.Resource+"."+httpv1beta1.Group {
		return httpv1beta1.Version
	}
	return httpv1alpha1.Version
}

// AnnotationPlugins is an annotation on the Pods of the controller: the SHA-256 hash, in hexadecimal digits, of the
// list of plugins that they have read at startup.
const AnnotationPlugins = "http.kedify.io/plugins-sha256"

// Components returns all components, in installation order.
func Components() []Component { return []Component{Interceptor, Proxy, Scaler, Agent} }

// files returns the manifests of a component without namespaces, which must exist.
func files(component Component) []string {
	switch component {
	case Interceptor:
		return []string{
			"crd/http.keda.sh_httpscaledobjects.yaml", "crd/http.keda.sh_interceptorroutes.yaml",
			"interceptor/rbac.yaml", "interceptor/tls.yaml", "interceptor/pods.yaml", "interceptor/services.yaml",
			"interceptor/deployment.yaml",
		}
	case Proxy:
		return []string{
			"kedify-proxy/configmap.yaml", "kedify-proxy/services.yaml",
			"kedify-proxy/poddisruptionbudget.yaml", "kedify-proxy/deployment.yaml",
		}
	case Scaler:
		return []string{"scaler/rbac.yaml", "scaler/service.yaml", "scaler/deployment.yaml"}
	case Agent:
		// The webhook is last: once it exists, ScaledObjects with kedify-http triggers require the agent.
		return []string{
			"agent/rbac.yaml", "agent/admission.yaml", "agent/service.yaml", "agent/deployment.yaml", "agent/webhook.yaml",
		}
	default:
		return nil
	}
}

// roleFiles returns the manifest with the controller's permissions for each router, patchFiles the manifest with the
// init container that copies its file.
func roleFiles() map[string]string {
	return map[string]string{
		facts.HTTPRouter:    "argo-rollouts/rbac.yaml",
		facts.GatewayRouter: "argo-rollouts/gatewayapi/rbac.yaml",
	}
}

func patchFiles() map[string]string {
	return map[string]string{
		facts.HTTPRouter:    "argo-rollouts/deployment-patch.yaml",
		facts.GatewayRouter: "argo-rollouts/gatewayapi/deployment-patch.yaml",
	}
}

// Options are the options of an installation.
type Options struct {
	// Routers are the names of the routers, Components the additional components.
	Routers    []string
	Components []Component
	// ProxyNamespaces are the namespaces of component Proxy.
	ProxyNamespaces []string
	// Registry and Tag are those of the images.
	Registry, Tag string
	// Controller is the Deployment of the Argo Rollouts controller, Account its ServiceAccount.
	Controller, Account types.NamespacedName
}

// Set builds objects from manifests.
type Set struct {
	files   fs.FS
	options Options
}

// NewSet returns a Set for the options. The paths in files are relative to folder config.
func NewSet(files fs.FS, options Options) *Set { return &Set{files: files, options: options} }

// All returns every object of any options, as a list of kinds to search: the objects have no proxy namespace and no
// valid image.
func All(files fs.FS) ([]Object, error) {
	return NewSet(files, Options{
		Routers: slices.Sorted(maps.Keys(roleFiles())), Components: Components(), ProxyNamespaces: []string{""},
		Registry: "none", Tag: "none",
	}).Objects()
}

// Objects returns all objects in installation order. Each has the label [LabelManagedBy].
func (s *Set) Objects() ([]Object, error) {
	all, err := s.roles()
	if err != nil {
		return nil, err
	}
	for _, component := range Components() {
		if !slices.Contains(s.options.Components, component) {
			continue
		}
		namespaces := []string{""}
		if component == Proxy {
			namespaces = s.options.ProxyNamespaces
		}
		for _, namespace := range namespaces {
			for _, file := range files(component) {
				objects, err := s.readFile(file, namespace)
				if err != nil {
					return nil, err
				}
				all = append(all, objects...)
			}
		}
	}
	for _, object := range all {
		s.label(object)
	}
	return all, nil
}

// label adds the recommended labels of an installation to an object and to the template of its Pods. It changes no
// selector: those of Deployments are immutable, and those of Services must select the Pods of earlier versions. It does
// not change the Pods of proxies, because that would restart them.
func (s *Set) label(object Object) {
	labels := child(object.metadata(), "labels")
	labels[LabelManagedBy] = ManagedBy
	labels[facts.LabelPartOf], labels[facts.LabelInstance] = facts.PartOf, facts.PartOf
	// A tag can be longer than a label.
	if s.options.Tag != "" && len(validation.IsValidLabelValue(s.options.Tag)) == 0 {
		labels[facts.LabelVersion] = s.options.Tag
	}
	if object.Kind == "Deployment" && labels[facts.LabelName] == facts.ComponentsName {
		pod := child(child(child(child(object.Content, "spec"), "template"), "metadata"), "labels")
		pod[facts.LabelPartOf], pod[facts.LabelInstance] = facts.PartOf, facts.PartOf
	}
}

// roles returns the controller's permissions for its routers.
func (s *Set) roles() ([]Object, error) {
	var all []Object
	for _, router := range s.options.Routers {
		objects, err := s.readFile(roleFiles()[router], "")
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			if object.Kind == "ClusterRoleBinding" {
				account := s.options.Account
				object.Content["subjects"] = []any{map[string]any{
					"kind": "ServiceAccount", "name": account.Name,
					"namespace": account.Namespace,
				}}
			}
		}
		all = append(all, objects...)
	}
	return all, nil
}

// ControllerPatch returns the server-side apply patch of the controller's Deployment. It replaces the Pods if and only
// if the list of plugins has changed, because they read it only at startup. withFiles adds the init containers that
// copy the routers' files.
func (s *Set) ControllerPatch(plugins string, withFiles bool) (Object, error) {
	patch := emptyController(s.options.Controller)
	template := child(child(patch.Content, "spec"), "template")
	child(child(template, "metadata"), "annotations")[AnnotationPlugins] = fmt.Sprintf("%x",
		sha256.Sum256([]byte(plugins)))
	if !withFiles {
		return patch, nil
	}
	var containers []any
	for _, router := range s.options.Routers {
		patches, err := s.readFile(patchFiles()[router], "")
		if err != nil {
			return patch, err
		}
		pod := child(child(child(patches[0].Content, "spec"), "template"), "spec")
		initContainers, _ := pod["initContainers"].([]any)
		containers = append(containers, initContainers...)
	}
	child(template, "spec")["initContainers"] = containers
	return patch, nil
}

// emptyController returns the controller's Deployment with its name only. Applying it releases all fields that the same
// field manager has applied before.
func emptyController(name types.NamespacedName) Object {
	object := Object{Reference: Reference{
		APIVersion: "apps/v1", Kind: "Deployment", Namespace: name.Namespace,
		Name: name.Name,
	}}
	object.Content = map[string]any{
		"apiVersion": object.APIVersion, "kind": object.Kind, "metadata": map[string]any{
			"namespace": name.Namespace,
			"name":      name.Name,
		},
	}
	return object
}

// ControllerRelease returns the patch that reverts ControllerPatch.
func ControllerRelease(name types.NamespacedName) Object { return emptyController(name) }

// readFile reads the objects of a file with the images of the release. If namespace is not empty, they get it.
func (s *Set) readFile(file, namespace string) ([]Object, error) {
	raw, err := fs.ReadFile(s.files, file)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return Decode(file, config.WithImages(raw, s.options.Registry, s.options.Tag), namespace)
}
