package httpso

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// object is what this router needs to know of an HTTPScaledObject, and all that it keeps of one. It never changes once made.
type object struct {
	name            types.NamespacedName
	resourceVersion string
	service         string                        // spec.scaleTargetRef.service
	text            string                        // the annotation weighted-backends
	present         bool                          // whether there is that annotation, be it empty
	owner           string                        // the annotation weighted-backends-owner
	report          *httpv1alpha1.DataPlaneStatus // status.dataPlane; nil where no interceptor has reported yet
}

// Name is the object's namespace and name.
func (o *object) Name() types.NamespacedName { return o.name }

// Version is the object's resource version.
func (o *object) Version() string { return o.resourceVersion }

// parseObject takes from an HTTPScaledObject in JSON what an object holds.
func parseObject(document []byte) (*object, error) {
	var from httpv1alpha1.HTTPScaledObject
	if err := json.Unmarshal(document, &from); err != nil {
		return nil, fmt.Errorf("not an HTTPScaledObject: %w", err)
	}
	text, present := from.Annotations[httpv1alpha1.AnnotationWeightedBackends]
	return &object{
		name:            types.NamespacedName{Namespace: from.Namespace, Name: from.Name},
		resourceVersion: from.ResourceVersion,
		service:         from.Spec.ScaleTargetRef.Service,
		text:            text,
		present:         present,
		owner:           from.Annotations[httpv1alpha1.AnnotationWeightedBackendsOwner],
		report:          from.Status.DataPlane,
	}, nil
}
