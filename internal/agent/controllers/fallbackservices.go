package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
)

// writeServices applies and deletes fallback Services. failed are the API server's errors by name, except conflicts, and
// err joins all.
func (a *AutowireReconciler) writeServices(
	ctx context.Context, changes []autowire.ServiceChange,
) (failed map[string]string, err error) {
	failed = map[string]string{}
	for _, change := range changes {
		var name string
		var issue error
		if change.Delete != nil {
			name, issue = change.Delete.Name, a.deleteService(ctx, change.Delete)
		} else {
			name, issue = change.Apply.Name, a.applyService(ctx, change.Apply)
		}
		if issue == nil {
			continue
		}
		if err = errors.Join(err, fmt.Errorf("write fallback Service %s: %w", name, issue)); !apierrors.IsConflict(issue) {
			failed[name] = issue.Error()
		}
	}
	return failed, err
}

// deleteService deletes a Service, unless it has changed since it was read.
func (a *AutowireReconciler) deleteService(ctx context.Context, gone *corev1.Service) error {
	err := a.Client.Delete(ctx, gone, client.Preconditions{UID: &gone.UID, ResourceVersion: &gone.ResourceVersion})
	return client.IgnoreNotFound(err)
}

// applyService applies a Service. A new one is applied without force: if someone creates another one of that name at the
// same time, the agent takes over nothing.
func (a *AutowireReconciler) applyService(ctx context.Context, service *corev1.Service) error {
	text, err := json.Marshal(service)
	if err != nil {
		return err
	}
	options := []client.PatchOption{fieldOwner}
	if service.UID != "" {
		options = append(options, client.ForceOwnership)
	}
	return a.Client.Patch(ctx, service.DeepCopy(), client.RawPatch(types.ApplyPatchType, text), options...)
}
