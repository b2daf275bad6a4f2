package status

import (
	"context"
	"encoding/json"
	"errors"
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
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/interceptorroute"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/crd"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/events"
)

const (
	// FieldManager is the name under which the interceptor applies its fields of a status.
	FieldManager = "kedify-http-interceptor"
	// deniedPause is the time after which a forbidden write is repeated. It is long because a person has to grant the
	// permission.
	deniedPause = 30 * time.Second
)

// apiClient is the Client that writes to the API server.
type apiClient struct {
	scaledObjects, interceptorRoutes, eventsAPI rest.Interface
	schema                                      statusSchema

	mu        sync.Mutex // not held during a request
	forbidden error      // the last rejection of a write of the annotation for lack of permission, at deniedAt
	deniedAt  time.Time
	leftover  sync.Once
}

// NewClient returns a Client. scaledObjects is a REST client of httpv1alpha1.SchemeGroupVersion, interceptorRoutes one
// of httpv1beta1.SchemeGroupVersion, and eventsAPI one of events.k8s.io/v1. The Client needs the permissions to patch
// httpscaledobjects/status, interceptorroutes and interceptorroutes/status, and to create events. If the installed
// CustomResourceDefinition of HTTPScaledObjects lacks a field of the status, it also needs the permission to patch
// httpscaledobjects: it writes such fields to httpv1alpha1.AnnotationStatus, and logs that once with the fix.
func NewClient(scaledObjects, interceptorRoutes, eventsAPI rest.Interface, logger *slog.Logger) Client {
	return &apiClient{
		scaledObjects: scaledObjects, interceptorRoutes: interceptorRoutes, eventsAPI: eventsAPI,
		schema: statusSchema{
			published: crd.NewPublished(scaledObjects, httpv1alpha1.SchemeGroupVersion.WithKind(httpv1alpha1.Kind), "status"),
			logger:    logger,
		},
	}
}

// ApplyStatus uses server-side apply and takes over fields that another field manager owns. Fields that the installed
// CustomResourceDefinition lacks go to an annotation; of an InterceptorRoute these are all except the conditions. The
// annotation is written first, so that the conditions in the status are never newer than the report.
func (c *apiClient) ApplyStatus(
	ctx context.Context, object *httpv1alpha1.HTTPScaledObject,
	status httpv1alpha1.HTTPScaledObjectStatus,
) error {
	status.Conditions = ownConditions(status.Conditions)
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("encode the status of %s: %w", describe(object), err)
	}
	if interceptorroute.IsConverted(object) {
		const conditions = "conditions"
		inStatus := map[string]any{conditions: all[conditions]}
		delete(all, conditions)
		return c.applyBoth(ctx, object, inStatus, all)
	}
	inStatus, annotated := c.schema.split(ctx, all)
	err = c.applyBoth(ctx, object, inStatus, annotated)
	if !crd.MayBeUndeclared(err) || errors.Is(err, ErrGone) || !c.schema.refresh(ctx) {
		return err
	}
	if inStatus, annotated = c.schema.split(ctx, all); len(annotated) == 0 {
		return err // The API server rejected it for another reason.
	}
	return c.applyBoth(ctx, object, inStatus, annotated)
}

// applyBoth applies inStatus to the status and annotated to the annotation. If annotated is empty, it removes the
// annotation after its fields are in the status. If that is forbidden, the annotation stays: httpv1alpha1.StatusOf
// ignores it when the status has a report.
func (c *apiClient) applyBoth(
	ctx context.Context, object *httpv1alpha1.HTTPScaledObject, inStatus, annotated map[string]any,
) error {
	if len(annotated) > 0 {
		err := c.annotate(ctx, object, annotated)
		if apierrors.IsForbidden(err) {
			_, resource := c.resourceOf(object)
			return fmt.Errorf("annotation %s: allow the ServiceAccount to patch %s "+
				"(config/interceptor/rbac.yaml), or install config/crd: %w", httpv1alpha1.AnnotationStatus, resource, err)
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
		c.schema.logger.WarnContext(ctx, "cannot remove an annotation that is no longer read",
			"annotation", httpv1alpha1.AnnotationStatus, "fix", "remove it from all objects: "+
				"kubectl annotate httpscaledobjects -A --all "+httpv1alpha1.AnnotationStatus+"-", "error", err)
	})
	return nil
}

// annotate writes fields of a status to the annotation, or removes the annotation if there are no fields. After a
// forbidden write it returns the same error for deniedPause without a request.
func (c *apiClient) annotate(ctx context.Context, object *httpv1alpha1.HTTPScaledObject, fields map[string]any) error {
	var annotations map[string]string
	if len(fields) > 0 {
		fields["uid"] = object.UID
		text, err := json.Marshal(fields)
		if err != nil {
			return fmt.Errorf("encode the annotation of %s: %w", describe(object), err)
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

// apply applies to an object or one of its subresources. The UID makes the API server reject an annotation of a new
// object of the same name. It ignores the UID in a status (Kubernetes 1.34).
func (c *apiClient) apply(
	ctx context.Context, object *httpv1alpha1.HTTPScaledObject,
	annotations map[string]string, status map[string]any, subresource ...string,
) error {
	client, resource := c.resourceOf(object)
	apiVersion, kind := interceptorroute.KindOf(object).ToAPIVersionAndKind()
	body, err := json.Marshal(struct {
		metav1.PartialObjectMetadata
		Status map[string]any `json:"status,omitempty"`
	}{metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.Namespace, Name: object.Name, UID: object.UID, Annotations: annotations,
		},
	}, status})
	if err != nil {
		return fmt.Errorf("encode %s: %w", describe(object), err)
	}
	err = client.Patch(types.ApplyPatchType).
		Namespace(object.Namespace).
		Resource(resource).
		Name(object.Name).
		SubResource(subresource...).
		Param("fieldManager", FieldManager).
		Param("force", "true").
		Body(body).
		Do(ctx).
		Error()
	if apierrors.IsNotFound(err) && len(subresource) > 0 {
		return fmt.Errorf("%w, or the CustomResourceDefinition has no subresource status (install config/crd): %w",
			ErrGone, err)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || isReplaced(err) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return err
}

// resourceOf returns the client and the resource of an object.
func (c *apiClient) resourceOf(object *httpv1alpha1.HTTPScaledObject) (rest.Interface, string) {
	if interceptorroute.IsConverted(object) {
		return c.interceptorRoutes, httpv1beta1.Resource
	}
	return c.scaledObjects, httpv1alpha1.Resource
}

// describe returns the kind, the namespace and the name of an object.
func describe(object *httpv1alpha1.HTTPScaledObject) string {
	return fmt.Sprintf("%s %s/%s", interceptorroute.KindOf(object).Kind, object.Namespace, object.Name)
}

// isReplaced reports whether a write was rejected because another object has the name now: the UID of an object is
// immutable.
func isReplaced(err error) bool {
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return ok && cause.Field == "metadata.uid"
}

// CreateEvent creates event through events.k8s.io/v1.
func (c *apiClient) CreateEvent(ctx context.Context, event *eventsv1.Event) error {
	return events.Create(ctx, c.eventsAPI, event)
}

// ownConditions returns the conditions that the interceptor owns: server-side apply makes the writer the owner of every
// field that it sends.
func ownConditions(conditions []metav1.Condition) []metav1.Condition {
	owned := append(eventConditions(), httpv1alpha1.ConditionReady, httpv1alpha1.ConditionProgrammed)
	return slices.DeleteFunc(slices.Clone(conditions), func(condition metav1.Condition) bool {
		return !slices.Contains(owned, condition.Type)
	})
}
