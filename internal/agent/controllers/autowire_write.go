package controllers

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
)

// write applies a change, unless the object has changed since it was read.
func (a *AutowireReconciler) write(ctx context.Context, object client.Object, change autowire.Change) error {
	version, err := a.version(ctx, object, change)
	if err != nil {
		return err
	}
	text, err := json.Marshal(change.At(version))
	if err != nil {
		return err
	}
	err = a.Client.Patch(ctx, object, client.RawPatch(types.JSONPatchType, text), fieldOwner)
	switch {
	case err == nil && change.Reason != "":
		a.Events.Event(object, eventType(change), change.Reason, truncate.Text(change.Message, maxEvent))
	case apierrors.IsInvalid(err) && isOutdated(ctx, a.APIReader, object):
		return errOutdated
	case err != nil:
		warnRejected(a.Events, object, "write the backends", err)
	}
	return err
}

// eventType returns the type of the Event about a change: a Warning if another writer has changed the backends.
func eventType(change autowire.Change) string {
	if change.Reason == httpv1alpha1.ReasonBackendRevertedByOther {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// version returns what a change needs of the version of an object that was read: the metadata in the API server if it
// releases the object, because the cache lacks the other field managers.
func (a *AutowireReconciler) version(
	ctx context.Context, object client.Object, change autowire.Change,
) (metav1.Object, error) {
	if !change.Releases {
		return object, nil
	}
	kind, err := apiutil.GVKForObject(object, a.Client.Scheme())
	if err != nil {
		return nil, err
	}
	stored := new(metav1.PartialObjectMetadata)
	stored.SetGroupVersionKind(kind)
	switch err := a.APIReader.Get(ctx, client.ObjectKeyFromObject(object), stored); {
	case err != nil:
		return nil, err
	case stored.ResourceVersion != object.GetResourceVersion():
		return nil, errOutdated
	}
	return stored, nil
}
