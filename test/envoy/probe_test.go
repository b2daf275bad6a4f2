package envoy_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/holding/extauthz"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// probeAgents returns User-Agents of health checks.
func probeAgents() []string {
	return []string{"kube-probe/1.34", "ELB-HealthChecker/2.0", "GoogleHC/1.0"}
}

// isProbeAnswer reports whether the proxy has answered a health check. No cache may store the answer, and it contains
// no internal name.
func isProbeAnswer(got result) bool {
	for name := range got.header {
		if strings.HasPrefix(name, "X-Envoy-") {
			return false
		}
	}
	return got.status == http.StatusOK && got.header.Get(extauthz.ReasonHeader) == extauthz.ReasonProbe &&
		got.header.Get("Cache-Control") == "no-store" && got.body == ""
}

// TestHealthChecksByUserAgent: the proxy answers health checks of load balancers for hosts without an object, for an app
// at zero, and on the path that an object names for this. None is queued. Otherwise the app answers.
func TestHealthChecksByUserAgent(t *testing.T) {
	t.Parallel()
	all := hostInputs(t)
	for _, object := range all.ScaledObjects {
		if object.Name == "narrow" {
			object.Annotations = map[string]string{
				httpv1alpha1.AnnotationHealthcheckPath:     "/healthz",
				httpv1alpha1.AnnotationHealthcheckResponse: httpv1alpha1.HealthcheckStatic,
			}
		}
	}
	r := startWithReplica(t, "DELTA_GRPC", without(all, "shop", "app"))
	from := func(agent string) http.Header { return http.Header{"User-Agent": {agent}} }
	for _, protocol := range protocols() {
		for _, agent := range probeAgents() {
			for _, c := range []struct{ host, path, want string }{
				{"10.0.0.1", "/status?deep=1", "proxy"},
				{"unknown.example.org", "/", "proxy"},
				{"[2001:db8::2]:8080", "/", "proxy"},
				{"shop.example.com", "/status?deep=1", "proxy"},
				{"SHOP.example.com.:80", "/", "proxy"},
				{"paths.example.com", "/app/status", "proxy"},
				{"a.eu.example.com", "/healthz?deep=1", "proxy"},
				{"paths.example.com", "/private", "404"},
				{"headers.example.com", "/", "404"},
				{"a.example.com", "/private/admin", "wide"},
				{"A.example.com.", "/", "wide"},
				{"a.eu.example.com", "/healthz/deep", "narrow"},
				{"a.eu.example.com", "/", "narrow"},
			} {
				got := r.send(t.Context(), protocol, c.host, c.path, from(agent), nil)
				isExpected := got.backend() == c.want && got.header.Get(extauthz.ReasonHeader) == ""
				switch c.want {
				case "proxy":
					isExpected = isProbeAnswer(got)
				case "404":
					isExpected = got.status == http.StatusNotFound && got.body == translate.NotFoundBody
				}
				if !isExpected {
					t.Errorf("%s, %s for %s%s: %+v, want an answer by %s", protocol, agent, c.host, c.path, got, c.want)
				}
			}
		}
		for _, agent := range []string{"Mozilla/5.0 kube-probe/1", "kube-probe", "GoogleHC", "xGoogleHC/1"} {
			if got := r.send(t.Context(), protocol, "10.0.0.1", "/", from(agent), nil); got.status != http.StatusNotFound {
				t.Errorf("%s, %s: %+v", protocol, agent, got)
			}
		}
		got := r.send(t.Context(), protocol, "10.0.0.1", "/", from(probeAgents()[0]), strings.NewReader("body"))
		if !isProbeAnswer(got) {
			t.Errorf("%s, with a body: %+v", protocol, got)
		}
	}
	if counts, _ := r.checks.Counts(); len(counts) != 0 || len(r.calls(t)) != 0 {
		t.Errorf("queues: %+v; calls of the interceptor: %v", counts, r.calls(t))
	}
}

// TestHealthChecksViaFallback sends health checks through outdated routes to an app without endpoints.
func TestHealthChecksViaFallback(t *testing.T) {
	t.Parallel()
	all := hostInputs(t)
	r := startWithReplica(t, "DELTA_GRPC", all)
	r.lag(t, all, "shop")
	for _, protocol := range protocols() {
		for _, agent := range probeAgents() {
			got := r.send(t.Context(), protocol, "shop.example.com", "/", http.Header{"User-Agent": {agent}}, nil)
			if !isProbeAnswer(got) {
				t.Errorf("%s, %s: %+v", protocol, agent, got)
			}
		}
	}
	waiting := r.startWith(t, "HTTP/1.1", "shop.example.com", "/", http.Header{"User-Agent": {"kube-probes/1"}})
	r.awaitQueued(t, "shop", 1)
	r.publishInputs(t, all)
	if got := <-waiting; got.backend() != "shop" {
		t.Errorf("a request: %+v", got)
	}
	if calls := r.calls(t); len(calls) != 1 || calls["served"] != 1 {
		t.Errorf("calls of the interceptor: %v, want one", calls)
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
		for _, agent := range probeAgents() {
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
