package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/autowire"
	"github.com/kedify/argo-rollouts-plugin/internal/agent/desired"
)

// keepForwarding delays changes of the Service to which the proxies forward, as desired.Changes.KeepForwarding does. It
// reads the EndpointSlices of Services without a cache, and only if an object is for a Service that is taken over, or is
// to forward to another one: the cache has those of the proxies only.
func (r *ScaledObjectReconciler) keepForwarding(
	ctx context.Context, namespace string, changes *desired.Changes, existing []*httpv1alpha1.HTTPScaledObject,
) (isPending bool, err error) {
	if !r.ReadsServices || len(changes.Create)+len(changes.Update) == 0 {
		return false, nil
	}
	takesOver := func(object *httpv1alpha1.HTTPScaledObject) bool {
		return object.Annotations[httpv1alpha1.AnnotationAutowireService] != ""
	}
	forwardsElsewhere := func(want *httpv1alpha1.HTTPScaledObject) bool {
		return slices.ContainsFunc(existing, func(current *httpv1alpha1.HTTPScaledObject) bool {
			return current.Name == want.Name && current.Spec.ScaleTargetRef.Service != want.Spec.ScaleTargetRef.Service
		})
	}
	isConcerned := slices.ContainsFunc(slices.Concat(changes.Create, changes.Update, existing), takesOver) ||
		slices.ContainsFunc(changes.Update, forwardsElsewhere)
	services := map[string]desired.Service{}
	for _, name := range changes.Forwards(existing) {
		if services[name], err = r.forwardState(ctx, namespace, name, isConcerned); err != nil {
			return false, err
		}
	}
	return changes.KeepForwarding(existing, services), nil
}

// forwardState returns the state of a Service to which proxies may forward. It reads the Service's EndpointSlices only if
// readsEndpoints is true; without, a Service that is taken over is recognized by its record only. Kubernetes updates the
// endpoints after the Service: while they contain a proxy, it is still taken over.
func (r *ScaledObjectReconciler) forwardState(
	ctx context.Context, namespace, name string, readsEndpoints bool,
) (state desired.Service, err error) {
	service, err := r.service(ctx, namespace, name)
	if service == nil {
		return state, err
	}
	state.IsTakenOver = hasRestoreRecord(service)
	if !readsEndpoints {
		return state, nil
	}
	var proxies discoveryv1.EndpointSliceList
	err = r.Client.List(ctx, &proxies, client.InNamespace(namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: autowire.ProxyService})
	found, readErr := endpointSlices(ctx, r.APIReader, namespace, name)
	state.HasEndpoints = len(found) > 0
	of := addresses(proxies.Items)
	isProxy := func(address string) bool { return slices.Contains(of, address) }
	state.IsTakenOver = state.IsTakenOver || slices.ContainsFunc(addresses(found), isProxy)
	return state, errors.Join(err, readErr)
}

// service reads a Service from the cache. It returns nil if the Service does not exist.
func (r *ScaledObjectReconciler) service(ctx context.Context, namespace, name string) (*corev1.Service, error) {
	service := new(corev1.Service)
	switch err := r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, service); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // No Service is an answer.
	case err != nil:
		return nil, fmt.Errorf("read Service %s/%s: %w", namespace, name, err)
	}
	return service, nil
}

// addresses returns the addresses of endpoints.
func addresses(found []discoveryv1.EndpointSlice) (all []string) {
	for i := range found {
		for _, endpoint := range found[i].Endpoints {
			all = append(all, endpoint.Addresses...)
		}
	}
	return all
}

// endpointSlices reads the EndpointSlices of a Service, without a cache: it has those of the proxies only.
func endpointSlices(
	ctx context.Context, reader client.Reader, namespace, name string,
) ([]discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	err := reader.List(ctx, &list, client.InNamespace(namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: name})
	if err != nil {
		return nil, fmt.Errorf("read the EndpointSlices of Service %s/%s: %w", namespace, name, err)
	}
	return list.Items, nil
}
