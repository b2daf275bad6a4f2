package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	httpv1beta1 "github.com/kedify/argo-rollouts-plugin/api/http/v1beta1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
)

// fieldOwner is the field manager of the agent's writes.
const fieldOwner = client.FieldOwner(httpv1alpha1.ManagedByAgent)

const (
	// maxEvent is the maximum length of an Event's message, in bytes (k8s.io/kubernetes, ValidateEventUpdate).
	maxEvent = 1024
	// maxAnnotation is the maximum length of the annotation that the agent writes on a ScaledObject, in bytes.
	maxAnnotation = 4096
)

// fields is a server-side apply configuration. Fields that are missing here are not managed by the agent.
type fields struct {
	metav1.TypeMeta `json:",inline"`

	Metadata fieldsMeta                         `json:"metadata"`
	Spec     *httpv1alpha1.HTTPScaledObjectSpec `json:"spec,omitempty"`
	Status   *fieldsStatus                      `json:"status,omitempty"`
}

// fieldsMeta is the metadata that the agent applies. With a UID, the write fails if the object was replaced by
// another one.
type fieldsMeta struct {
	Name            string                  `json:"name"`
	Namespace       string                  `json:"namespace"`
	UID             types.UID               `json:"uid,omitempty"`
	Labels          map[string]string       `json:"labels,omitempty"`
	Annotations     map[string]string       `json:"annotations,omitempty"`
	OwnerReferences []metav1.OwnerReference `json:"ownerReferences,omitempty"`
}

// fieldsStatus is the status that the agent applies.
type fieldsStatus struct {
	Conditions []metav1.Condition `json:"conditions"`
}

// fieldsOf returns the fields that identify an object.
func fieldsOf(object *httpv1alpha1.HTTPScaledObject) fields {
	version, kind := httpv1alpha1.SchemeGroupVersion, httpv1alpha1.Kind
	if isRoute(object) {
		version, kind = httpv1beta1.SchemeGroupVersion, httpv1beta1.Kind
	}
	return fields{
		TypeMeta: metav1.TypeMeta{APIVersion: version.String(), Kind: kind},
		Metadata: fieldsMeta{Name: object.Name, Namespace: object.Namespace, UID: object.UID},
	}
}

// named returns the name and namespace of an object.
func named(object client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// apply writes an object and returns the result. If current is set, the agent manages the object, and its fields
// override those of other writers. Otherwise the object is new: if someone creates another one at the same time,
// the write fails with a conflict and takes over nothing.
func (r *ScaledObjectReconciler) apply(
	ctx context.Context, current, want *httpv1alpha1.HTTPScaledObject,
) (*httpv1alpha1.HTTPScaledObject, error) {
	if current != nil {
		if err := r.removeSurplus(ctx, current, want); err != nil {
			return nil, err
		}
	}
	body := fieldsOf(want)
	body.Metadata.Labels, body.Metadata.Annotations = want.Labels, want.Annotations
	body.Metadata.OwnerReferences = want.OwnerReferences
	body.Spec = &want.Spec
	patch, err := applyPatch(body)
	if err != nil {
		return nil, err
	}
	options := []client.PatchOption{fieldOwner}
	if current != nil {
		options = append(options, client.ForceOwnership)
	}
	written := &httpv1alpha1.HTTPScaledObject{ObjectMeta: named(want)}
	return written, r.Client.Patch(ctx, written, patch, options...)
}

// removeSurplus removes fields that others have added to the agent's part of an object.
func (r *ScaledObjectReconciler) removeSurplus(
	ctx context.Context, current, want *httpv1alpha1.HTTPScaledObject,
) error {
	surplus, err := desired.Surplus(current, want)
	if err != nil || surplus == nil {
		return err
	}
	text, err := json.Marshal(surplus)
	if err != nil {
		return err
	}
	written := &httpv1alpha1.HTTPScaledObject{ObjectMeta: named(current)}
	return r.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, text), fieldOwner, rejectUnknownFields)
}

// rejectUnknownFields makes a merge patch fail if the installed CustomResourceDefinition lacks one of its fields, as
// server-side apply does. Otherwise the API server would drop the field: a condition on a header without its pattern
// matches more requests.
const rejectUnknownFields = client.FieldValidation(metav1.FieldValidationStrict)

// applyPatch returns a server-side apply patch.
func applyPatch(body fields) (client.Patch, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return client.RawPatch(types.ApplyPatchType, text), nil
}

// errWired means that an object cannot be deleted yet, because backends still point to the proxies.
var errWired = errors.New("backends still point to the proxies")

// deleteObject deletes an object, unless it was replaced or changed, because then it may belong to someone else.
// It first waits until the AutowireReconciler has restored the backends and removed its condition. The status of
// that condition does not matter: some backends may be wired while others are not. Without the object, the proxies
// answer 404.
func (r *ScaledObjectReconciler) deleteObject(ctx context.Context, object *httpv1alpha1.HTTPScaledObject) error {
	if meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired) != nil {
		return errWired
	}
	if name := object.Annotations[httpv1alpha1.AnnotationAutowireService]; name != "" && r.ReadsServices {
		switch state, err := r.forwardState(ctx, object.Namespace, name, true); {
		case err != nil:
			return err
		case state.IsTakenOver: // clients still reach the proxies
			return errWired
		}
	}
	err := r.Client.Delete(ctx, object, client.Preconditions{
		UID: &object.UID, ResourceVersion: &object.ResourceVersion,
	})
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("delete HTTPScaledObject %s/%s: %w", object.Namespace, object.Name, err)
	}
	return nil
}

// convertTriggers changes triggers that KEDA cannot read into ones that it can, unless the ScaledObject has
// changed since it was read. Afterwards the agent manages no trigger.
func (r *ScaledObjectReconciler) convertTriggers(ctx context.Context, scaled *apis.ScaledObject) error {
	patch := desired.Convert(scaled, nil, r.ScalerAddress)
	if len(patch) == 0 {
		return r.releaseStored(ctx, scaled)
	}
	written, err := r.patchVersion(ctx, scaled, patch)
	switch {
	case err == nil:
		r.Events.Event(scaled, corev1.EventTypeNormal, httpv1alpha1.ReasonConverted,
			"Converted triggers of type "+desired.UnconvertedTypes(scaled)+" to external-push")
		return r.releaseTriggers(ctx, written)
	case apierrors.IsConflict(err):
	case isOutdated(ctx, r.APIReader, scaled):
		return errOutdated
	default:
		warnRejected(r.Events, scaled, "convert the triggers of type "+desired.UnconvertedTypes(scaled)+" to external-push", err)
	}
	return err
}

// patchVersion applies a JSON patch to the version of a ScaledObject that was read, and returns the result.
func (r *ScaledObjectReconciler) patchVersion(
	ctx context.Context, scaled *apis.ScaledObject, patch []desired.Operation,
) (*apis.ScaledObject, error) {
	// The API server compares the patched resourceVersion with the stored one.
	text, err := json.Marshal(append(patch, desired.Operation{
		Op: "replace", Path: "/metadata/resourceVersion", Value: scaled.ResourceVersion,
	}))
	if err != nil {
		return nil, err
	}
	written := &apis.ScaledObject{ObjectMeta: named(scaled)}
	return written, r.Client.Patch(ctx, written, client.RawPatch(types.JSONPatchType, text), fieldOwner)
}

// releaseTriggers removes the agent from the managers of the triggers of a ScaledObject, so that their author can apply
// them again without a conflict.
func (r *ScaledObjectReconciler) releaseTriggers(ctx context.Context, scaled *apis.ScaledObject) error {
	patch := desired.ReleaseTriggers(scaled.ManagedFields)
	if len(patch) == 0 {
		return nil
	}
	_, err := r.patchVersion(ctx, scaled, patch)
	if err != nil && !apierrors.IsConflict(err) && isOutdated(ctx, r.APIReader, scaled) {
		return errOutdated
	}
	if err != nil {
		return fmt.Errorf("release the triggers of ScaledObject %s/%s: %w", scaled.Namespace, scaled.Name, err)
	}
	return nil
}

// releaseStored is releaseTriggers for a ScaledObject of the cache, which has the agent's managed fields only. The
// agent manages triggers if it ended after a conversion, or if it had an earlier version.
func (r *ScaledObjectReconciler) releaseStored(ctx context.Context, scaled *apis.ScaledObject) error {
	if len(desired.TriggerManagers(scaled.ManagedFields)) == 0 {
		return nil
	}
	stored := new(apis.ScaledObject)
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(scaled), stored); err != nil {
		return client.IgnoreNotFound(err)
	}
	return r.releaseTriggers(ctx, stored)
}

// errOutdated means that an object was deleted or changed after it was read, so nothing was written. The write is
// repeated after retryAfter, because the predicates of the watch drop changes of the status.
var errOutdated = errors.New("the object has changed since it was read")

// isOutdated reports whether an object was deleted or changed. The API server rejects a JSON patch of another
// version as invalid.
func isOutdated(ctx context.Context, reader client.Reader, object client.Object) bool {
	stored, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return false
	}
	err := reader.Get(ctx, client.ObjectKeyFromObject(object), stored)
	return apierrors.IsNotFound(err) || err == nil && stored.GetResourceVersion() != object.GetResourceVersion()
}

// reportProblems reports validation errors to the ScaledObject's owner, in an annotation, and in Events if they
// differ from those in the annotation.
func (r *ScaledObjectReconciler) reportProblems(
	ctx context.Context, scaled *apis.ScaledObject, problems []desired.Problem,
) error {
	text := truncate.Text(desired.JoinProblems(problems), maxAnnotation)
	if text == scaled.Annotations[httpv1alpha1.AnnotationTriggerProblems] {
		return nil
	}
	var value *string // null removes it
	if text != "" {
		value = &text
	}
	annotations := map[string]*string{httpv1alpha1.AnnotationTriggerProblems: value}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	written := &apis.ScaledObject{ObjectMeta: named(scaled)}
	err = r.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch), fieldOwner)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	for _, problem := range problems {
		r.warn(scaled, problem.Reason, problem.Message)
	}
	return nil
}
