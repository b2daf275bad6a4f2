// Package interceptor simulates the interceptors for benchmarks of the router kedify/http: their Lease, and their
// status reports for an HTTPScaledObject.
package interceptor

import (
	"context"
	"time"

	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
)

const (
	// leases is the REST path of the interceptors' Leases.
	leases = "/apis/coordination.k8s.io/v1/namespaces/" + httpv1alpha1.DefaultInterceptorNamespace + "/leases"
	// name is the holder of the Lease and the field manager of reports.
	name = "bench"
)

// KeepLease creates the interceptors' Lease in an existing namespace, and renews it until ctx ends.
func KeepLease(ctx context.Context, admin rest.Interface) error {
	spec := func() map[string]any {
		now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")
		return map[string]any{"holderIdentity": name, "renewTime": now}
	}
	err := apiserver.Create(ctx, admin, leases, map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"name": httpv1alpha1.DefaultInterceptorLease}, "spec": spec(),
	})
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(httpv1alpha1.LeaseRenewInterval):
				// If renewals fail, VerifyWeight uses the annotation only, and takes less time.
				_ = apiserver.Patch(ctx, admin, leases+"/"+httpv1alpha1.DefaultInterceptorLease, httpso.FieldManager,
					map[string]any{"spec": spec()})
			}
		}
	}()
	return err
}

// Report reports, for the HTTPScaledObject at a REST path, that the given number of Ready proxies has ACKed the absence
// of the annotation.
func Report(ctx context.Context, admin rest.Interface, path string, proxies int32) error {
	report := httpv1alpha1.DataPlaneStatus{
		Proxies: httpv1alpha1.ProxyCounts{Ready: proxies, Acked: proxies}, Effective: proxies > 0, ReportedBy: name,
	}
	change := map[string]any{"status": map[string]any{"dataPlane": report}}
	return apiserver.Patch(ctx, admin, path+"/status", httpso.FieldManager, change)
}
