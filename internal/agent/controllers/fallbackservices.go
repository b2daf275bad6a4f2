package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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

// endpointsController is the value of label LabelManagedBy of the EndpointSlices that Kubernetes maintains for a selector
// (k8s.io/kubernetes, pkg/controller/endpointslice).
const endpointsController = "endpointslice-controller.k8s.io"

// otherEndpoints describes, for each of some Services, an EndpointSlice that Kubernetes does not maintain. It reads them
// without a cache. See autowire.Namespace.OtherEndpoints.
func (a *AutowireReconciler) otherEndpoints(
	ctx context.Context, namespace string, services []string,
) (others map[string]string, err error) {
	others = map[string]string{}
	for _, service := range services {
		found, err := endpointSlices(ctx, a.APIReader, namespace, service)
		if err != nil {
			return nil, err
		}
		for i := range found {
			manager := found[i].Labels[discoveryv1.LabelManagedBy]
			if manager == endpointsController {
				continue // remains of a selector, which is reused
			}
			others[service] = "Kubernetes does not maintain its EndpointSlice " + found[i].Name
			if manager != "" {
				others[service] += fmt.Sprintf(" (managed by %s)", manager)
			}
			break
		}
	}
	return others, nil
}
