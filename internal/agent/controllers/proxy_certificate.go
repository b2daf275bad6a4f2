package controllers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

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
