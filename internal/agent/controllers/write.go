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
	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
)

// fieldOwner is the field manager of all that the agent writes.
const fieldOwner = client.FieldOwner(httpv1alpha1.ManagedByAgent)

const (
	// maxEvent is the longest message of an Event, in bytes (k8s.io/kubernetes, ValidateEventUpdate).
	maxEvent = 1024
	// maxAnnotation is the longest text that the agent writes on a ScaledObject, in bytes.
	maxAnnotation = 4096
)

// fields are what the agent applies of an object. What is left out here is not the agent's.
type fields struct {
	metav1.TypeMeta `json:",inline"`

	Metadata fieldsMeta                         `json:"metadata"`
	Spec     *httpv1alpha1.HTTPScaledObjectSpec `json:"spec,omitempty"`
	Status   *fieldsStatus                      `json:"status,omitempty"`
}

// fieldsMeta is the metadata that the agent applies. With a UID the write fails where the object is
// another one by then.
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

// fieldsOf are the fields that identify an object.
func fieldsOf(object *httpv1alpha1.HTTPScaledObject) fields {
	return fields{
		TypeMeta: metav1.TypeMeta{
			APIVersion: httpv1alpha1.SchemeGroupVersion.String(), Kind: httpv1alpha1.Kind,
		},
		Metadata: fieldsMeta{Name: object.Name, Namespace: object.Namespace, UID: object.UID},
	}
}

// named is the metadata that names an object.
func named(object client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// apply writes an object and returns what has become of it. With found it is there and the agent's: then
// its fields win over those that others wrote. Without it is new: should somebody have created another at
// this moment, the write fails with a conflict and takes nothing over.
func (r *Reconciler) apply(
	ctx context.Context, found, want *httpv1alpha1.HTTPScaledObject,
) (*httpv1alpha1.HTTPScaledObject, error) {
	if found != nil {
		if err := r.takeBack(ctx, found, want); err != nil {
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
	if found != nil {
		options = append(options, client.ForceOwnership)
	}
	written := &httpv1alpha1.HTTPScaledObject{ObjectMeta: named(want)}
	return written, r.Client.Patch(ctx, written, patch, options...)
}

// takeBack takes away what others have added to the agent's fields of an object.
func (r *Reconciler) takeBack(ctx context.Context, found, want *httpv1alpha1.HTTPScaledObject) error {
	surplus, err := desired.Surplus(found, want)
	if err != nil || surplus == nil {
		return err
	}
	text, err := json.Marshal(surplus)
	if err != nil {
		return err
	}
	written := &httpv1alpha1.HTTPScaledObject{ObjectMeta: named(found)}
	return r.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, text), fieldOwner)
}

// applyPatch is a server-side apply of fields.
func applyPatch(body fields) (client.Patch, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return client.RawPatch(types.ApplyPatchType, text), nil
}

// errWired says that an object must wait for its end: its requests are still sent to the proxies.
var errWired = errors.New("an Ingress or HTTPRoute is still wired for it")

// remove deletes an object, unless it is another one by now, or a later version: that may be somebody
// else's. Before that the Autowirer has restored what it wired and taken its condition away, whatever that says: some of
// it may be wired while the rest is not. Without the object the proxies answer 404.
func (r *Reconciler) remove(ctx context.Context, object *httpv1alpha1.HTTPScaledObject) error {
	if meta.FindStatusCondition(object.Status.Conditions, httpv1alpha1.ConditionAutowired) != nil {
		return errWired
	}
	err := r.Client.Delete(ctx, object, client.Preconditions{
		UID: &object.UID, ResourceVersion: &object.ResourceVersion,
	})
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("delete HTTPScaledObject %s/%s: %w", object.Namespace, object.Name, err)
	}
	return nil
}

// convert turns the triggers that KEDA cannot read into ones that it can, unless the ScaledObject
// has changed since it was read.
func (r *Reconciler) convert(ctx context.Context, scaled *apis.ScaledObject) error {
	patch := desired.Convert(scaled, nil, r.ScalerAddress)
	if len(patch) == 0 {
		return nil
	}
	// A resource version in what is written is compared with the stored one.
	patch = append(patch, desired.Operation{
		Op: "replace", Path: "/metadata/resourceVersion", Value: scaled.ResourceVersion,
	})
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	written := &apis.ScaledObject{ObjectMeta: named(scaled)}
	err = r.Client.Patch(ctx, written, client.RawPatch(types.JSONPatchType, text), fieldOwner)
	switch {
	case err == nil:
		r.Events.Event(scaled, corev1.EventTypeNormal, httpv1alpha1.ReasonConverted,
			"Triggers of type kedify-http have become external-push, which KEDA understands")
	case !apierrors.IsConflict(err) && !outdated(ctx, r.Stored, scaled):
		r.warn(scaled, httpv1alpha1.ReasonRefused,
			"triggers of type kedify-http cannot become external-push: "+err.Error())
	default:
		return nil // the version that is stored now comes by the watch
	}
	return err
}

// outdated says whether an object is gone or another version by now. A JSON patch of another version fails as an
// invalid one does.
func outdated(ctx context.Context, reader client.Reader, object client.Object) bool {
	stored, is := object.DeepCopyObject().(client.Object)
	if !is {
		return false
	}
	err := reader.Get(ctx, client.ObjectKeyFromObject(object), stored)
	return apierrors.IsNotFound(err) || err == nil && stored.GetResourceVersion() != object.GetResourceVersion()
}

// report tells the ScaledObject's owner about mistakes: by an annotation that lasts, and by Events
// when the mistakes are others than those that the annotation has.
func (r *Reconciler) report(
	ctx context.Context, scaled *apis.ScaledObject, problems []desired.Problem,
) error {
	text := truncate.Text(desired.Text(problems), maxAnnotation)
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
