package httpso_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
	"github.com/kedify/argo-rollouts-plugin/test/kit/routertest"
)

// leasePath is the API path of the interceptors' Lease.
const leasePath = "/apis/coordination.k8s.io/v1/namespaces/keda/leases/kedify-http-interceptor"

// watching returns a router with a running watch on an in-memory API server, for tests in a synctest bubble.
func watching(t *testing.T, api *routertest.APIServer) *httpso.Router {
	t.Helper()
	client := httpso.NewClient(func() (*rest.Config, error) { return api.Config(), nil })
	log := slog.New(slog.DiscardHandler)
	go client.Watch(t.Context(), log)
	synctest.Wait()
	return httpso.New(client, lease, log)
}

// renew renews the Lease once.
func renew(api *routertest.APIServer) {
	api.PutOther(leasePath, map[string]any{"spec": map[string]any{
		"holderIdentity": "interceptor-a",
		"renewTime":      time.Now().Format(metav1.RFC3339Micro),
	}})
}

// noLease deletes the Lease.
func noLease(api *routertest.APIServer) { api.DeleteOther(leasePath) }

// crash renews the Lease for the last time, long ago.
func crash(api *routertest.APIServer) {
	api.PutOther(leasePath, map[string]any{"spec": map[string]any{
		"holderIdentity": "interceptor-a",
		"renewTime":      "1999-12-31T23:59:59.000000Z",
	}})
}

// shutDown releases the Lease.
func shutDown(api *routertest.APIServer) {
	api.PutOther(leasePath, map[string]any{"spec": map[string]any{
		"holderIdentity": "",
		"renewTime":      "2000-01-01T00:00:00.000000Z",
	}})
}

// uninstall marks the Lease like kubectl http-canary uninstall.
func uninstall(api *routertest.APIServer) {
	api.PutOther(leasePath, map[string]any{"spec": map[string]any{
		"holderIdentity": "uninstalled",
		"renewTime":      "1999-12-31T23:59:59.000000Z",
	}})
}

// beat renews the Lease until the test ends.
func beat(t *testing.T, api *routertest.APIServer) {
	t.Helper()
	renew(api)
	go func() {
		for {
			select {
			case <-time.After(httpv1alpha1.LeaseRenewInterval):
				renew(api)
			case <-t.Context().Done():
				return
			}
		}
	}()
}

// ackedReport returns a report that all of ready proxies have ACKed text.
func ackedReport(text string, ready int32) *httpv1alpha1.DataPlaneStatus {
	return &httpv1alpha1.DataPlaneStatus{
		AnnotationHash: split.Hash(text, ""), Proxies: httpv1alpha1.ProxyCounts{Ready: ready, Acked: ready},
		Effective: ready > 0, ReportedBy: "interceptor-a",
	}
}

// requests counts the requests for one HTTPScaledObject.
func requests(api *routertest.APIServer) int {
	count := 0
	for _, method := range []string{http.MethodGet, http.MethodPatch} {
		for _, request := range api.Requests(method) {
			if request.Path == "/apis/http.keda.sh/v1alpha1/namespaces/shop/httpscaledobjects/web" {
				count++
			}
		}
	}
	return count
}

// reported returns the HTTPScaledObject shop/web with an annotation and a report.
func reported(text string, report *httpv1alpha1.DataPlaneStatus) *httpv1alpha1.HTTPScaledObject {
	object := routertest.ScaledObject(weighted(text))
	if text == "" {
		object.Annotations = nil
	}
	object.Status.DataPlane = report
	return object
}

// deadlined returns a context with the deadline of the controller's calls.
func deadlined(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
	t.Cleanup(cancel)
	return ctx
}
