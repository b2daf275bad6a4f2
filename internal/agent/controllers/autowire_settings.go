package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
)

// writeSettings writes annotation AnnotationAutowireSettings of HTTPScaledObjects, as package autowire plans. settings
// has the changed texts by name; an empty text removes the annotation. After an error, the other writes still follow.
func (a *AutowireReconciler) writeSettings(
	ctx context.Context, scaled []httpv1alpha1.HTTPScaledObject, settings map[string]string,
) (failed error) {
	for i := range scaled {
		object := &scaled[i]
		text, isChanged := settings[object.Name]
		if !isChanged {
			continue
		}
		switch err := a.writeSetting(ctx, object, text); {
		case err == nil || apierrors.IsNotFound(err):
		case apierrors.IsConflict(err):
			failed = errors.Join(failed, err)
		default:
			warnRejected(a.Events, object, "write annotation "+httpv1alpha1.AnnotationAutowireSettings, err)
			failed = errors.Join(failed, fmt.Errorf("write annotation %s of HTTPScaledObject %s: %w",
				httpv1alpha1.AnnotationAutowireSettings, client.ObjectKeyFromObject(object), err))
		}
	}
	return failed
}

// writeSetting sets the annotation of an HTTPScaledObject, or removes it if text is empty. A merge patch also overrides
// and removes what a user has written. The UID makes the API server reject it for a new object of the same name.
func (a *AutowireReconciler) writeSetting(
	ctx context.Context, object *httpv1alpha1.HTTPScaledObject, text string,
) error {
	var value *string // null removes it
	if text != "" {
		value = &text
	}
	annotations := map[string]*string{httpv1alpha1.AnnotationAutowireSettings: value}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.UID, "annotations": annotations}})
	if err != nil {
		return err
	}
	written := &httpv1alpha1.HTTPScaledObject{ObjectMeta: named(object)}
	return a.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, body), autowireOwner)
}
