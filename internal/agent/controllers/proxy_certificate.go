package controllers

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
)

// hasPlaintext reports whether a Pod that may be a proxy of the namespace runs without a token for the interceptor. It
// reads Pods only if the plan depends on it.
func (p *ProxyReconciler) hasPlaintext(ctx context.Context, state *proxies.Namespace) (bool, error) {
	if !state.IsNeeded || !state.NeedsPods() {
		return false, nil
	}
	var pods corev1.PodList
	ofProxy := client.MatchingLabels{"app": proxies.Service}
	if err := p.APIReader.List(ctx, &pods, client.InNamespace(state.Name), ofProxy); err != nil {
		return false, fmt.Errorf("list the proxies of namespace %s: %w", state.Name, err)
	}
	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		hasEnded := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		return !hasEnded && !proxies.HasToken(pod.Spec)
	}), nil
}

// withBootstrap returns the requests for the namespaces that have a ConfigMap with a bootstrap.
func (p *ProxyReconciler) withBootstrap(ctx context.Context, _ client.Object) []reconcile.Request {
	var configMaps corev1.ConfigMapList
	if err := p.Client.List(ctx, &configMaps, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list the bootstraps of proxies")
	}
	var requests []reconcile.Request
	for _, configMap := range configMaps.Items {
		requests = append(requests, p.requests(configMap.Namespace)...)
	}
	return requests
}
