package controllers

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/apis"
)

// tlsPolicies reads the BackendTLSPolicies of a namespace, in the version that the API server serves.
func (a *AutowireReconciler) tlsPolicies(ctx context.Context, name string) ([]apis.BackendTLSPolicy, error) {
	var policies apis.BackendTLSPolicyList
	var alpha apis.AlphaBackendTLSPolicyList
	if a.IsInstalled(apis.BackendTLSPolicyKind()) {
		err := a.Client.List(ctx, &policies, client.InNamespace(name))
		return policies.Items, err
	}
	if !a.IsInstalled(apis.AlphaBackendTLSPolicyKind()) {
		return nil, nil
	}
	err := a.Client.List(ctx, &alpha, client.InNamespace(name))
	for i := range alpha.Items {
		policies.Items = append(policies.Items, alpha.Items[i].BackendTLSPolicy)
	}
	return policies.Items, err
}

// ingressNamespaces returns requests for all namespaces with an Ingress. A change of an IngressClass affects them.
func (a *AutowireReconciler) ingressNamespaces(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	var ingresses networkingv1.IngressList
	if err := a.Client.List(ctx, &ingresses, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list Ingresses of a changed IngressClass failed")
	}
	names := map[string]bool{}
	for i := range ingresses.Items {
		if name := ingresses.Items[i].Namespace; !names[name] {
			names[name] = true
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
	}
	return requests
}
