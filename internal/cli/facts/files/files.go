// Package files reads the objects of an installation from manifests, without a cluster.
package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi/route"
)

// errNoCluster is the reason why files contain no state of a cluster.
var errNoCluster = errors.New("only files were read")

// File is a file with YAML or JSON documents.
type File struct {
	Name    string
	Content []byte
}

// Read returns the facts in files. A document without kind, or with a template that is no YAML, is an error; objects of
// other kinds are ignored. namespace is that of objects without one. Resources that files cannot show are in Unread.
func Read(files []File, namespace string) (*facts.Facts, error) {
	cluster := &facts.Facts{
		CRDs: map[string]facts.CRD{}, Services: map[types.NamespacedName]*corev1.Service{},
		ReadyEndpoints: map[types.NamespacedName]int{}, Unread: map[facts.Resource]error{},
	}
	for _, resource := range []facts.Resource{
		facts.Deployments, facts.Pods, facts.Nodes, facts.CRDs, facts.EndpointSlices, facts.Autoscalers, facts.Reviews,
		facts.Webhook, facts.CA,
	} {
		cluster.Unread[resource] = errNoCluster
	}
	for _, file := range files {
		for i, document := range documents(file.Content) {
			if err := add(cluster, document, namespace); err != nil {
				return nil, fmt.Errorf("%s: document %d: %w", file.Name, i+1, err)
			}
		}
	}
	unreadMissing(cluster)
	return cluster, nil
}

// unreadMissing marks the kinds that no file contains: their objects are probably in another repository.
func unreadMissing(cluster *facts.Facts) {
	for resource, isMissing := range map[facts.Resource]bool{
		facts.Services: len(cluster.Services) == 0, facts.Routes: len(cluster.Routes) == 0,
		facts.HTTPScaledObjects: len(cluster.HTTPScaledObjects)+len(cluster.InterceptorRoutes) == 0,
	} {
		if isMissing {
			cluster.Unread[resource] = errNoCluster
		}
	}
}

// documents splits a YAML stream, and leaves out documents without content.
func documents(content []byte) [][]byte {
	var all [][]byte
	var current []byte
	flush := func() {
		if text := bytes.TrimSpace(current); len(text) > 0 {
			all = append(all, current)
		}
		current = nil
	}
	for line := range bytes.Lines(content) {
		if bytes.HasPrefix(line, []byte("---")) && len(bytes.TrimSpace(line[3:])) == 0 {
			flush()
			continue
		}
		current = append(current, line...)
	}
	flush()
	return all
}

// head are the fields that all objects have.
type head struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Items []json.RawMessage `json:"items"`
}

// add adds the object of a document.
func add(cluster *facts.Facts, document []byte, namespace string) error {
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		return fmt.Errorf("not YAML: %w", err)
	}
	if bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
		return nil // only comments
	}
	var object head
	if err := json.Unmarshal(text, &object); err != nil {
		return fmt.Errorf("no object of Kubernetes: %w", err)
	}
	for _, item := range object.Items {
		if err := add(cluster, item, namespace); err != nil {
			return err
		}
	}
	if object.Namespace == "" {
		object.Namespace = namespace
	}
	return addKind(cluster, &object, text)
}

// addKind adds an object of a kind that is examined.
func addKind(cluster *facts.Facts, object *head, text []byte) error {
	name := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	switch object.GroupVersionKind().GroupKind().String() {
	case "Rollout.argoproj.io":
		rollout := new(v1alpha1.Rollout)
		err := json.Unmarshal(text, rollout)
		rollout.Namespace = object.Namespace
		cluster.Rollouts = append(cluster.Rollouts, gather.ParseRollout(rollout))
		return describe(object, err)
	case "ConfigMap":
		if object.Name != facts.ConfigMapName {
			return nil
		}
		cluster.Plugins = new(corev1.ConfigMap)
		err := json.Unmarshal(text, cluster.Plugins)
		cluster.Plugins.Namespace = object.Namespace
		return describe(object, err)
	case "Service":
		cluster.Services[name] = new(corev1.Service)
		return describe(object, json.Unmarshal(text, cluster.Services[name]))
	case httpv1alpha1.Kind + "." + httpv1alpha1.Group:
		var live httpv1alpha1.HTTPScaledObject
		err := json.Unmarshal(text, &live)
		live.Namespace = object.Namespace
		cluster.HTTPScaledObjects = append(cluster.HTTPScaledObjects, live)
		return describe(object, err)
	case httpv1beta1.Kind + "." + httpv1beta1.Group:
		var live httpv1beta1.InterceptorRoute
		err := json.Unmarshal(text, &live)
		live.Namespace = object.Namespace
		cluster.InterceptorRoutes = append(cluster.InterceptorRoutes, facts.NewInterceptorRoute(&live))
		return describe(object, err)
	case "ScaledObject.keda.sh":
		var live facts.ScaledObject
		err := json.Unmarshal(text, &live)
		live.Namespace = object.Namespace
		cluster.ScaledObjects = append(cluster.ScaledObjects, live)
		return describe(object, err)
	}
	if object.GroupVersionKind().Group == "gateway.networking.k8s.io" {
		read := facts.Route{Kind: route.Kind(object.Kind), Name: name, Labels: object.Labels}
		err := utiljson.Unmarshal(text, &read.Content)
		return describe(object, cluster.AddRoute(read, err))
	}
	return nil
}

// describe adds the object to an error.
func describe(object *head, err error) error {
	if err != nil {
		return fmt.Errorf("%s %s/%s: %w", object.Kind, object.Namespace, object.Name, err)
	}
	return nil
}
