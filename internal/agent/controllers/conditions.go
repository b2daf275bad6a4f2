package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/crd"
)

// conditionRetryInterval is the time after which a condition that the installed CRD does not accept is written again,
// and the longest time for which the schema of the CRD is used.
const conditionRetryInterval = time.Minute

// errUndeclared means that the schema of the installed CRD does not accept a condition.
var errUndeclared = errors.New("the installed CustomResourceDefinition does not accept the condition: " +
	"install config/crd")

// NewStatusSchema returns the schema of the status of HTTPScaledObjects in the cluster of a manager.
func NewStatusSchema(mgr manager.Manager) (*crd.Published, error) {
	api, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("client for the schema of HTTPScaledObjects: %w", err)
	}
	kind := httpv1alpha1.SchemeGroupVersion.WithKind(httpv1alpha1.Kind)
	return crd.NewPublished(api.RESTClient(), kind, "status"), nil
}

// conditionWriter writes the conditions of one field owner on HTTPScaledObjects, and on InterceptorRoutes, for which the
// schema is unknown. With the CRDs of the KEDA HTTP add-on before v0.12 and of Kedify's chart, which accept other
// conditions only, the API server rejects the whole write.
type conditionWriter struct {
	api    client.Client
	owner  client.FieldOwner
	now    time.Time
	schema *crd.Published // nil if it is unknown
}

// write replaces the conditions of the field owner on an object, with its generation. A condition whose status does not change keeps its
// time. The error wraps errUndeclared if the schema of the CRD does not accept the conditions. Without conditions,
// write removes those of the field owner, which every schema with conditions accepts.
func (w conditionWriter) write(
	ctx context.Context, object *httpv1alpha1.HTTPScaledObject, conditions []metav1.Condition,
) error {
	body := fieldsOf(object)
	body.Status = &fieldsStatus{Conditions: []metav1.Condition{}} // the API server rejects null
	for _, condition := range conditions {
		condition.ObservedGeneration = object.Generation
		condition.LastTransitionTime = metav1.NewTime(w.now)
		before := meta.FindStatusCondition(object.Status.Conditions, condition.Type)
		if before != nil && before.Status == condition.Status {
			condition.LastTransitionTime = before.LastTransitionTime
		}
		body.Status.Conditions = append(body.Status.Conditions, condition)
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(body.Status)
	if err != nil {
		return err
	}
	patch, err := applyPatch(body)
	if err != nil {
		return err
	}
	if w.isUndeclared(status) {
		return errUndeclared
	}
	var written client.Object = &httpv1alpha1.HTTPScaledObject{ObjectMeta: named(object)}
	if isRoute(object) {
		written = &httpv1beta1.InterceptorRoute{ObjectMeta: named(object)}
	}
	err = w.api.Status().Patch(ctx, written, patch, w.owner, client.ForceOwnership)
	if w.schema == nil || !crd.MayBeUndeclared(err) {
		return err
	}
	_, unread := w.schema.Refresh(ctx)
	if w.isUndeclared(status) {
		return fmt.Errorf("%w: %w", errUndeclared, err)
	}
	return errors.Join(err, unread)
}

// isUndeclared reports whether the schema does not accept a status. It is false if the schema is unknown, or was read
// longer than conditionRetryInterval ago.
func (w conditionWriter) isUndeclared(status map[string]any) bool {
	if w.schema == nil {
		return false
	}
	last, age := w.schema.Last()
	return last != nil && age < conditionRetryInterval && !last.Declares(status)
}

// isDeferred reports whether a write of a condition is repeated after conditionRetryInterval instead of immediately:
// the CRD does not accept the condition or has no status subresource. The API server returns the same error for the
// latter as for an object that was just deleted.
func isDeferred(err error) bool { return errors.Is(err, errUndeclared) || apierrors.IsNotFound(err) }

// earlier returns the shorter of two delays. A delay of zero means that no retry is due.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
