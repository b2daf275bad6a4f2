package httpso

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// object is the part of an HTTPScaledObject or an InterceptorRoute that this router uses and caches. It is immutable.
type object struct {
	name            types.NamespacedName
	resourceVersion string
	service         string // spec.scaleTargetRef.service, or spec.target.service of an InterceptorRoute
	scaledObject    string // the ScaledObject with the trigger that the object belongs to; "" if there is none

	// The annotations. The flags distinguish an empty annotation from a missing one.
	hasAnnotations      bool
	weightedBackends    string
	hasWeightedBackends bool
	managedRoutes       string
	hasManagedRoutes    bool
	stickiness          string
	hasStickiness       bool
	owner               string // weighted-backends-owner
	hasOwner            bool
	isUnrouted          bool // no request is routed to the object, so it has no weights

	notServed string // why the interceptor does not serve the object, "" unless an HTTPScaledObject has its name

	report *httpv1alpha1.DataPlaneStatus // status.dataPlane, or what replaces it; nil if no interceptor has reported yet

	// annotatedVersion is the resource version of the write that set the current weights, managed routes and stickiness,
	// and annotatedAt when the cache saw it. "" if the cache has not seen that write.
	annotatedVersion string
	annotatedAt      time.Time
}

// after returns the object as the successor of previous: it keeps the version of the last change of the annotations.
func (o *object) after(previous *object) *object {
	next := *o
	if previous.weightedBackends == o.weightedBackends && previous.hasWeightedBackends == o.hasWeightedBackends &&
		previous.managedRoutes == o.managedRoutes && previous.stickiness == o.stickiness {
		next.annotatedVersion, next.annotatedAt = previous.annotatedVersion, previous.annotatedAt
	} else {
		next.annotatedVersion, next.annotatedAt = o.resourceVersion, time.Now()
	}
	return &next
}

// Name returns the object's namespace and name.
func (o *object) Name() types.NamespacedName { return o.name }

// Version returns the object's resource version.
func (o *object) Version() string { return o.resourceVersion }

// IndexKeys returns the cache index keys of the object: the Rollout that owns the weights and the ScaledObject, if any.
func (o *object) IndexKeys() []string {
	var keys []string
	if other, ok := parseOwner(o.owner, o.name.Namespace); ok && o.hasWeightedBackends {
		keys = append(keys, other.rollout.String())
	}
	if o.scaledObject != "" {
		keys = append(keys, o.scaledObjectKey())
	}
	return keys
}

// scaledObjectKey returns the index key that all objects of one ScaledObject have; "" without a ScaledObject. It
// differs from the key of any Rollout.
func (o *object) scaledObjectKey() string {
	if o.scaledObject == "" {
		return ""
	}
	return "ScaledObject " + o.name.Namespace + "/" + o.scaledObject
}

// parseObject parses an HTTPScaledObject in JSON.
func parseObject(document []byte) (*object, error) {
	var from httpv1alpha1.HTTPScaledObject
	if err := json.Unmarshal(document, &from); err != nil {
		return nil, fmt.Errorf("not an HTTPScaledObject: %w", err)
	}
	live := newObject(from.ObjectMeta)
	live.service, live.scaledObject = from.Spec.ScaleTargetRef.Service, httpv1alpha1.ScaledObjectOf(&from)
	live.report, live.isUnrouted = httpv1alpha1.StatusOf(&from).DataPlane, httpv1alpha1.IsUnrouted(&from)
	return live, nil
}

// newObject returns an object with the annotations of its metadata, and with the report of the interceptor in them.
func newObject(from metav1.ObjectMeta) *object {
	weightedBackends, hasWeightedBackends := from.Annotations[httpv1alpha1.AnnotationWeightedBackends]
	managedRoutes, hasManagedRoutes := from.Annotations[httpv1alpha1.AnnotationManagedRoutes]
	stickiness, hasStickiness := from.Annotations[httpv1alpha1.AnnotationStickiness]
	owner, hasOwner := from.Annotations[httpv1alpha1.AnnotationWeightedBackendsOwner]
	return &object{
		name:                types.NamespacedName{Namespace: from.Namespace, Name: from.Name},
		resourceVersion:     from.ResourceVersion,
		hasAnnotations:      len(from.Annotations) > 0,
		weightedBackends:    weightedBackends,
		hasWeightedBackends: hasWeightedBackends,
		managedRoutes:       managedRoutes,
		hasManagedRoutes:    hasManagedRoutes,
		stickiness:          stickiness,
		hasStickiness:       hasStickiness,
		owner:               owner,
		hasOwner:            hasOwner,
		report:              httpv1alpha1.StatusOf(&httpv1alpha1.HTTPScaledObject{ObjectMeta: from}).DataPlane,
	}
}
