package httpso

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
)

// kind is a kind of object that the router writes to.
type kind struct {
	name              string // such as HTTPScaledObject
	version, resource string // in the API group httpv1alpha1.Group
	key               string // the key of the configuration that names an object
	parse             func(document []byte) (*object, error)
}

// scaledObjectKind returns the kind HTTPScaledObject.
func scaledObjectKind() kind {
	return kind{httpv1alpha1.Kind, httpv1alpha1.Version, httpv1alpha1.Resource, objectKey, parseObject}
}

// routeKind returns the kind InterceptorRoute.
func routeKind() kind {
	return kind{httpv1beta1.Kind, httpv1beta1.Version, httpv1beta1.Resource, routeKey, parseRoute}
}

// crd returns the name of the CustomResourceDefinition.
func (k kind) crd() string { return k.resource + "." + httpv1alpha1.Group }

// path returns the API path of an object, or of those of a namespace if name.Name is empty.
func (k kind) path(name types.NamespacedName) []string {
	segments := []string{"apis", httpv1alpha1.Group, k.version, "namespaces", name.Namespace, k.resource}
	if name.Name != "" {
		segments = append(segments, name.Name)
	}
	return segments
}

// parseRoute parses an InterceptorRoute in JSON. The report of the interceptor is in an annotation.
func parseRoute(document []byte) (*object, error) {
	var from httpv1beta1.InterceptorRoute
	if err := json.Unmarshal(document, &from); err != nil {
		return nil, fmt.Errorf("not an InterceptorRoute: %w", err)
	}
	live := newObject(from.ObjectMeta)
	live.service = from.Spec.Target.Service
	accepted := meta.FindStatusCondition(from.Status.Conditions, httpv1alpha1.ConditionAccepted)
	if accepted != nil && accepted.Reason == httpv1beta1.ReasonHTTPScaledObjectExists {
		live.notServed = accepted.Message
	}
	return live, nil
}
