package envoy_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// TestProxyAnswersHealthChecks: load balancers send health checks with their own host, and with the hosts of an app at
// zero and of a ready app. The proxy answers them: no app receives one and none is queued. Requests that only resemble
// a health check are routed normally.
func TestProxyAnswersHealthChecks(t *testing.T) {
	t.Parallel()
	r := startWithReplica(t, "DELTA_GRPC", without(hostInputs(t), "shop"))
	from := func(agent string) http.Header { return http.Header{"User-Agent": {agent}} }
	for _, protocol := range protocols() {
		for _, agent := range []string{"kube-probe/1.34", "ELB-HealthChecker/2.0", "GoogleHC/1.0"} {
			for name, host := range map[string]string{
				"at zero": "shop.example.com", "ready": "a.example.com", "unknown host": "10.0.0.1",
			} {
				got := r.send(t.Context(), protocol, host, "/status?deep=1", from(agent), nil)
				if got.status != http.StatusOK || got.header.Get(extauthz.ReasonHeader) != extauthz.ReasonProbe || got.body != "" {
					t.Errorf("%s, %s, %s: %+v", protocol, agent, name, got)
				}
			}
		}
		for _, agent := range []string{"Mozilla/5.0 kube-probe/1", "kube-probe", "GoogleHC"} {
			if got := r.send(t.Context(), protocol, "a.example.com", "/", from(agent), nil); got.backend() == "" ||
				got.header.Get(extauthz.ReasonHeader) != "" {
				t.Errorf("%s, %s: %+v", protocol, agent, got)
			}
		}
	}
	if count, calls := r.queued("shop"), r.calls(t); count.Waiting != 0 || calls["probe"] != 0 {
		t.Errorf("queue: %+v; calls of the interceptor: %v", count, calls)
	}
}

// TestHealthChecksThroughAnIngressController sends health checks through Traefik, for hosts without a rule, so that
// Traefik's default backend is the proxy.
func TestHealthChecksThroughAnIngressController(t *testing.T) {
	t.Parallel()
	r := startWithReplica(t, "DELTA_GRPC", without(hostInputs(t), "shop"))
	service, slice := proxyService(t, netip.MustParseAddrPort(r.address))
	traefik := startTraefik(t, map[string]runtime.Object{
		"services": service, "endpointslices": slice,
		"ingresses": &networkingv1.Ingress{
			ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: namespace},
			Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{
					Name: service.Name, Port: networkingv1.ServiceBackendPort{Number: 8080},
				},
			}},
		},
	})
	client := &http.Client{Timeout: await.Patience()}
	check := func(host, agent string) error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+traefik+"/", http.NoBody)
		if err != nil {
			return err
		}
		request.Host = host
		request.Header.Set("User-Agent", agent)
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if reason := response.Header.Get(extauthz.ReasonHeader); response.StatusCode != http.StatusOK ||
			reason != extauthz.ReasonProbe {
			return fmt.Errorf("%s for host %s: status %d, reason %q", agent, host, response.StatusCode, reason)
		}
		return nil
	}
	await.True(t, "Traefik forwards to the proxy", func() bool { return check("10.20.30.40", "GoogleHC/1.0") == nil })
	requests := 1
	for range 100 {
		for _, agent := range []string{"kube-probe/1.34", "ELB-HealthChecker/2.0", "GoogleHC/1.0"} {
			for _, host := range []string{"10.20.30.40", "shop.example.com"} {
				if requests++; check(host, agent) != nil {
					t.Fatal(check(host, agent))
				}
			}
		}
	}
	if count := r.queued("shop"); count.Waiting != 0 {
		t.Errorf("queue of the app at zero: %+v", count)
	}
	t.Logf("%d health checks were answered, for unknown hosts and for an app at zero, and none was queued", requests)
}
