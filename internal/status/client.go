package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// FieldManager is the name under which the interceptor applies its fields of a status.
const FieldManager = "kedify-http-interceptor"

// apiClient is the Client of a real API server.
type apiClient struct {
	scaledObjects rest.Interface
	events        rest.Interface
	definition    *definition
}

// NewClient returns a Client. scaledObjects is a REST client of
// httpv1alpha1.SchemeGroupVersion, and events one of events.k8s.io/v1. It needs the permissions
// to patch httpscaledobjects/status and to create events. Where the installed
// CustomResourceDefinition has no place for a field of the status, it needs the one to patch
// httpscaledobjects too: such fields go into httpv1alpha1.AnnotationStatus, which is told to
// logger once, with the remedy.
func NewClient(scaledObjects, events rest.Interface, logger *slog.Logger) Client {
	return &apiClient{scaledObjects, events, newDefinition(scaledObjects, logger)}
}

// appliedObject is the part of an HTTPScaledObject that is applied.
type appliedObject struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   appliedMetadata `json:"metadata"`
	Status     fields          `json:"status,omitempty"`
}

// appliedMetadata names an object. The UID makes the API server refuse to annotate a successor
// of the same name; of a status it doesn't look at it (Kubernetes 1.34).
type appliedMetadata struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	UID         types.UID         `json:"uid"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ApplyStatus applies by server-side apply, taking over its fields from whoever had them. What
// the installed definition has no place for is applied to an annotation first: what is told of
// the object elsewhere in its status then never runs ahead of the report.
func (c *apiClient) ApplyStatus(
	ctx context.Context, object *httpv1alpha1.HTTPScaledObject,
	status httpv1alpha1.HTTPScaledObjectStatus,
) error {
	status.Conditions = ownConditions(status.Conditions)
	all, err := fieldsOf(status)
	if err != nil {
		return fmt.Errorf("encode the status of HTTPScaledObject %s/%s: %w",
			object.Namespace, object.Name, err)
	}
	inStatus, annotated := c.definition.divide(ctx, all)
	err = c.applyBoth(ctx, object, inStatus, annotated)
	if err == nil || !mayBeUndeclared(err) || !c.definition.read(ctx) {
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
	ctx context.Context, object *httpv1alpha1.HTTPScaledObject, inStatus, annotated fields,
) error {
	if len(annotated) > 0 {
		annotated["uid"] = object.UID
		text, err := json.Marshal(annotated)
		if err != nil {
			return fmt.Errorf("encode the annotation of HTTPScaledObject %s/%s: %w",
				object.Namespace, object.Name, err)
		}
		own := map[string]string{httpv1alpha1.AnnotationStatus: string(text)}
		err = c.annotate(ctx, object, own)
		if apierrors.IsForbidden(err) {
			return fmt.Errorf("annotation %s: allow the ServiceAccount to patch httpscaledobjects "+
				"(config/interceptor/rbac.yaml), or install config/crd: %w", httpv1alpha1.AnnotationStatus, err)
		}
		if err != nil {
			return err
		}
	}
	err := c.apply(ctx, object, nil, inStatus, "status")
	if err != nil || len(annotated) > 0 || !isAnnotated(object) {
		return err
	}
	if err = c.annotate(ctx, object, nil); apierrors.IsForbidden(err) {
		c.definition.leave(ctx, err)
		return nil
	}
	return err
}

// annotate makes annotations all that the interceptor has on an object.
func (c *apiClient) annotate(
	ctx context.Context, object *httpv1alpha1.HTTPScaledObject, annotations map[string]string,
) error {
	if err := c.definition.denied(); err != nil {
		return err
	}
	err := c.apply(ctx, object, annotations, nil)
	if apierrors.IsForbidden(err) {
		c.definition.deny(err)
	}
	return err
}

// apply applies to an object or one of its subresources.
func (c *apiClient) apply(
	ctx context.Context, object *httpv1alpha1.HTTPScaledObject,
	annotations map[string]string, status fields, subresource ...string,
) error {
	body, err := json.Marshal(appliedObject{
		APIVersion: httpv1alpha1.SchemeGroupVersion.String(),
		Kind:       httpv1alpha1.Kind,
		Metadata:   appliedMetadata{object.Namespace, object.Name, object.UID, annotations},
		Status:     status,
	})
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
	refused, is := errors.AsType[*apierrors.StatusError](err)
	if !is || refused.ErrStatus.Details == nil {
		return false
	}
	return slices.ContainsFunc(refused.ErrStatus.Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field == "metadata.uid"
	})
}

// CreateEvent creates event through events.k8s.io.
func (c *apiClient) CreateEvent(ctx context.Context, event *eventsv1.Event) error {
	err := c.events.Post().Namespace(event.Namespace).Resource("events").Body(event).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// ownConditions leaves out the conditions of other writers: to apply a field is to own it.
func ownConditions(conditions []metav1.Condition) []metav1.Condition {
	own := []string{
		httpv1alpha1.ConditionAccepted, httpv1alpha1.ConditionReady, httpv1alpha1.ConditionProgrammed,
		httpv1alpha1.ConditionScalingMetricAccepted, httpv1alpha1.ConditionWaitingPageAccepted, httpv1alpha1.ConditionTLSReady,
		httpv1alpha1.ConditionEnvoySettingsAccepted,
	}
	return slices.DeleteFunc(slices.Clone(conditions), func(condition metav1.Condition) bool {
		return !slices.Contains(own, condition.Type)
	})
}
