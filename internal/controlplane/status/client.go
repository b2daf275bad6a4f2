package status

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/events"
)

const (
	// FieldManager is the name under which the interceptor applies its fields of a status.
	FieldManager = "kedify-http-interceptor"
	// deniedPause is the time after which a write that was forbidden is tried again: whoever may
	// allow it is a person.
	deniedPause = 30 * time.Second
)

// apiClient is the Client of a real API server.
type apiClient struct {
	scaledObjects, eventsAPI rest.Interface
	definition               definition

	mu        sync.Mutex // not held during a request
	forbidden error      // why the annotation may not be written, as of deniedAt
	deniedAt  time.Time
	leftover  sync.Once
}

// NewClient returns a Client. scaledObjects is a REST client of
// httpv1alpha1.SchemeGroupVersion, and eventsAPI one of events.k8s.io/v1. It needs the permissions
// to patch httpscaledobjects/status and to create events. Where the installed
// CustomResourceDefinition has no place for a field of the status, it needs the one to patch
// httpscaledobjects too: such fields go into httpv1alpha1.AnnotationStatus, which is told to
// logger once, with the remedy.
func NewClient(scaledObjects, eventsAPI rest.Interface, logger *slog.Logger) Client {
	return &apiClient{scaledObjects: scaledObjects, eventsAPI: eventsAPI, definition: definition{client: scaledObjects, logger: logger}}
}

// ApplyStatus applies by server-side apply, taking over its fields from whoever had them. What
// the installed definition has no place for is applied to an annotation first: what is told of
// the object elsewhere in its status then never runs ahead of the report.
func (c *apiClient) ApplyStatus(
	ctx context.Context, object *httpv1alpha1.HTTPScaledObject,
	status httpv1alpha1.HTTPScaledObjectStatus,
) error {
	status.Conditions = ownConditions(status.Conditions)
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("encode the status of HTTPScaledObject %s/%s: %w",
			object.Namespace, object.Name, err)
	}
	inStatus, annotated := c.definition.divide(ctx, all)
	err = c.applyBoth(ctx, object, inStatus, annotated)
	if !mayBeUndeclared(err) || !c.definition.read(ctx) {
		return err
	}
	if inStatus, annotated = c.definition.divide(ctx, all); len(annotated) == 0 {
		return err // It was refused for another reason.
	}
	return c.applyBoth(ctx, object, inStatus, annotated)
}

// applyBoth applies some fields to the status and others to the annotation. Without any for it the
// annotation goes, once what it held is in the status. If that is forbidden it stays, as
// httpv1alpha1.StatusOf does not read it then.
func (c *apiClient) applyBoth(
	ctx context.Context, object *httpv1alpha1.HTTPScaledObject, inStatus, annotated map[string]any,
) error {
	if len(annotated) > 0 {
		err := c.annotate(ctx, object, annotated)
		if apierrors.IsForbidden(err) {
			return fmt.Errorf("annotation %s: allow the ServiceAccount to patch httpscaledobjects "+
				"(config/interceptor/rbac.yaml), or install config/crd: %w", httpv1alpha1.AnnotationStatus, err)
		}
		if err != nil {
			return err
		}
	}
	err := c.apply(ctx, object, nil, inStatus, "status")
	if err != nil || len(annotated) > 0 || !metav1.HasAnnotation(object.ObjectMeta, httpv1alpha1.AnnotationStatus) {
		return err
	}
	err = c.annotate(ctx, object, nil)
	if !apierrors.IsForbidden(err) {
		return err
	}
	c.leftover.Do(func() {
		c.definition.logger.WarnContext(ctx, "an annotation stays that nobody reads any more: all of the status has a place now",
			"annotation", httpv1alpha1.AnnotationStatus, "remedy", "remove it from all objects: "+
				"kubectl annotate httpscaledobjects -A --all "+httpv1alpha1.AnnotationStatus+"-", "error", err)
	})
	return nil
}

// annotate has the annotation hold fields of a status, or removes it where there are none. After a
// write that was forbidden none is tried for deniedPause.
func (c *apiClient) annotate(ctx context.Context, object *httpv1alpha1.HTTPScaledObject, fields map[string]any) error {
	var annotations map[string]string
	if len(fields) > 0 {
		fields["uid"] = object.UID
		text, err := json.Marshal(fields)
		if err != nil {
			return fmt.Errorf("encode the annotation of HTTPScaledObject %s/%s: %w",
				object.Namespace, object.Name, err)
		}
		annotations = map[string]string{httpv1alpha1.AnnotationStatus: string(text)}
	}
	c.mu.Lock()
	forbidden, deniedAt := c.forbidden, c.deniedAt
	c.mu.Unlock()
	if forbidden != nil && time.Since(deniedAt) < deniedPause {
		return forbidden
	}
	err := c.apply(ctx, object, annotations, nil)
	if apierrors.IsForbidden(err) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.forbidden, c.deniedAt = err, time.Now()
	}
	return err
}

// apply applies to an object or one of its subresources. The UID makes the API server refuse to
// annotate a successor of the same name; of a status it doesn't look at it (Kubernetes 1.34).
func (c *apiClient) apply(
	ctx context.Context, object *httpv1alpha1.HTTPScaledObject,
	annotations map[string]string, status map[string]any, subresource ...string,
) error {
	body, err := json.Marshal(struct {
		metav1.PartialObjectMetadata
		Status map[string]any `json:"status,omitempty"`
	}{metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: httpv1alpha1.SchemeGroupVersion.String(), Kind: httpv1alpha1.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.Namespace, Name: object.Name, UID: object.UID, Annotations: annotations,
		},
	}, status})
	if err != nil {
		return fmt.Errorf("encode HTTPScaledObject %s/%s: %w", object.Namespace, object.Name, err)
	}
	err = c.scaledObjects.Patch(types.ApplyPatchType).
		Namespace(object.Namespace).
		Resource(httpv1alpha1.Resource).
		Name(object.Name).
		SubResource(subresource...).
		Param("fieldManager", FieldManager).
		Param("force", "true").
		Body(body).
		Do(ctx).
		Error()
	if apierrors.IsNotFound(err) && len(subresource) > 0 {
		return fmt.Errorf("%w, or the CustomResourceDefinition has no subresource status (install config/crd): %w", ErrGone, err)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || isOfAnother(err) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return err
}

// isOfAnother says whether a write was refused because another object has the name by now: its UID
// cannot be changed.
func isOfAnother(err error) bool {
	cause, is := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return is && cause.Field == "metadata.uid"
}

// CreateEvent creates event through events.k8s.io/v1.
func (c *apiClient) CreateEvent(ctx context.Context, event *eventsv1.Event) error {
	return events.Create(ctx, c.eventsAPI, event)
}

// ownConditions leaves out the conditions of other writers: to apply a field is to own it.
func ownConditions(conditions []metav1.Condition) []metav1.Condition {
	own := append(ownersConditions(), httpv1alpha1.ConditionReady, httpv1alpha1.ConditionProgrammed)
	return slices.DeleteFunc(slices.Clone(conditions), func(condition metav1.Condition) bool {
		return !slices.Contains(own, condition.Type)
	})
}
