package envoy_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/envoysettings"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestSettingsFromAConfigMap: an app fails every second request, so half of the requests fail, but none with retries.
// The change closes no client connection and needs no new listener. Connection settings are applied, too.
func TestSettingsFromAConfigMap(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	failing := &backend{name: "shop", server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		if requests.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))}
	t.Cleanup(failing.server.Close)
	objects := newInputs(t, []*backend{failing}, kit.NewScaledObject(namespace, "shop", "shop", 1, "shop.example.com"))
	first := translated(t, objects, translate.DefaultOptions())
	s := serve(t, "DELTA_GRPC", first)
	s.await(t, first)
	failures := func() (failed int) {
		for range 40 {
			if status, _ := s.request(t, "HTTP/1.1", "shop.example.com", "/", nil); status != http.StatusOK {
				failed++
			}
		}
		return failed
	}
	if got := failures(); got != 20 {
		t.Errorf("without settings %d of 40 requests failed, want 20", got)
	}
	updates := s.stat(t, "listener_manager.lds.update_success")
	for _, data := range []map[string]string{
		{envoysettings.KeyRoute: `{retry_policy: {retry_on: 5xx, num_retries: 2, retry_back_off: {base_interval: 0.001s}}}`},
		{
			envoysettings.KeyRoute: `{timeout: 10s, ` +
				`retry_policy: {retry_on: retriable-status-codes, retriable_status_codes: [503]}}`,
			envoysettings.KeyCluster: `{connect_timeout: 1s, lb_policy: ROUND_ROBIN, ` +
				`round_robin_lb_config: {slow_start_config: {slow_start_window: 60s, min_weight_percent: {value: 1}}}}`,
		},
	} {
		parsed := envoysettings.Parse(data)
		settings, conflicts := parsed.Settings()
		if len(parsed.Problems)+len(conflicts) > 0 {
			t.Fatal(parsed.Problems, conflicts)
		}
		objects.EnvoySettings = resolve.SettingsByNamespace{namespace: settings}
		resources := translated(t, objects, translate.DefaultOptions())
		s.publish(t, resources)
		s.await(t, resources)
		requests.Store(0)
		got := failures()
		t.Logf("with %v %d of 40 requests failed", data, got)
		if got != 0 {
			t.Errorf("with %v %d of 40 requests failed", data, got)
		}
	}
	if now := s.stat(t, "listener_manager.lds.update_success"); now != updates {
		t.Errorf("the listeners were updated %d times", now-updates)
	}
}
