package envoy_test

import (
	"net/http"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/hold/checks"
)

// TestHealthChecksAreTheProxys has load balancers ask by a host of their own and by an app's, of an app at zero and of one that is there: the
// proxy answers, no app does, and nothing is held. What only looks like one is a request as any other.
func TestHealthChecksAreTheProxys(t *testing.T) {
	t.Parallel()
	r := startHolding(t, "DELTA_GRPC", without(hostsWorld(t), "shop"))
	from := func(agent string) http.Header { return http.Header{"User-Agent": {agent}} }
	for _, protocol := range spoken() {
		for _, agent := range []string{"kube-probe/1.34", "ELB-HealthChecker/2.0", "GoogleHC/1.0"} {
			for name, host := range map[string]string{"at zero": "shop.example.com", "there": "a.example.com", "nobody's": "10.0.0.1"} {
				got := r.ask(t.Context(), protocol, host, "/status?deep=1", from(agent), nil)
				if got.status != http.StatusOK || got.header.Get(checks.ReasonHeader) != checks.ReasonProbe || got.body != "" {
					t.Errorf("%s, %s, %s: %+v", protocol, agent, name, got)
				}
			}
		}
		for _, agent := range []string{"Mozilla/5.0 kube-probe/1", "kube-probe", "GoogleHC"} {
			if got := r.ask(t.Context(), protocol, "a.example.com", "/", from(agent), nil); got.by() == "" || got.header.Get(checks.ReasonHeader) != "" {
				t.Errorf("%s, %s: %+v", protocol, agent, got)
			}
		}
	}
	if count, calls := r.held("shop"), r.calls(t); count.Waiting != 0 || calls["probe"] != 0 {
		t.Errorf("%+v, and the interceptor was asked: %v", count, calls)
	}
}
