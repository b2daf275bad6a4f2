package httpso

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// object is what this router needs to know of an HTTPScaledObject, and all that it keeps of one. It never changes once made.
type object struct {
	name            types.NamespacedName
	resourceVersion string
	service         string                        // spec.scaleTargetRef.service
	scaledObject    string                        // the ScaledObject of whose triggers it is one's; "" where it is none's
	text            string                        // the annotation weighted-backends
	present         bool                          // whether there is that annotation, be it empty
	managed         string                        // the annotation managed-routes
	isManaged       bool                          // whether there is that annotation, be it empty
	owner           string                        // the annotation weighted-backends-owner
	owned           bool                          // whether there is that annotation, be it empty
	annotated       bool                          // whether there are annotations at all
	report          *httpv1alpha1.DataPlaneStatus // status.dataPlane, or what stands for it; nil where no interceptor has reported yet

	// since is the resource version of the write that gave the object its weights and managed routes, at the time seenAt, as far as the cache has seen it; "" where
	// it has not.
	since  string
	seenAt time.Time
}

// after returns the object as the state that follows known: it tells since when the annotations are what they are.
func (o *object) after(known *object) *object {
	next := *o
	if known.text == o.text && known.present == o.present && known.managed == o.managed {
		next.since, next.seenAt = known.since, known.seenAt
	} else {
		next.since, next.seenAt = o.resourceVersion, time.Now()
	}
	return &next
}

// Name is the object's namespace and name.
func (o *object) Name() types.NamespacedName { return o.name }

// Version is the object's resource version.
func (o *object) Version() string { return o.resourceVersion }

// Marks are the Rollout that the object's weights belong to, if any, and the ScaledObject that it is of.
func (o *object) Marks() []string {
	var marks []string
	if other, marked := parseOwner(o.owner, o.name.Namespace); marked && o.present {
		marks = append(marks, other.rollout.String())
	}
	if o.scaledObject != "" {
		marks = append(marks, o.group())
	}
	return marks
}

// group is the mark that the object has in common with those of the other triggers of its ScaledObject; "" where it is none's. No Rollout's mark is like it.
func (o *object) group() string {
	if o.scaledObject == "" {
		return ""
	}
	return "ScaledObject " + o.name.Namespace + "/" + o.scaledObject
}

// parseObject takes from an HTTPScaledObject in JSON what an object holds.
func parseObject(document []byte) (*object, error) {
	var from httpv1alpha1.HTTPScaledObject
	if err := json.Unmarshal(document, &from); err != nil {
		return nil, fmt.Errorf("not an HTTPScaledObject: %w", err)
	}
	text, present := from.Annotations[httpv1alpha1.AnnotationWeightedBackends]
	managed, isManaged := from.Annotations[httpv1alpha1.AnnotationManagedRoutes]
	owner, owned := from.Annotations[httpv1alpha1.AnnotationWeightedBackendsOwner]
	return &object{
		name:            types.NamespacedName{Namespace: from.Namespace, Name: from.Name},
		resourceVersion: from.ResourceVersion,
		service:         from.Spec.ScaleTargetRef.Service,
		scaledObject:    httpv1alpha1.ScaledObjectOf(&from),
		text:            text,
		present:         present,
		managed:         managed,
		isManaged:       isManaged,
		owner:           owner,
		owned:           owned,
		annotated:       len(from.Annotations) > 0,
		report:          httpv1alpha1.StatusOf(&from).DataPlane,
	}, nil
}
