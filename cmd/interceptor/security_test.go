package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/ingest"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics/sink"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/xds"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// TestTLSIsOptional: with an empty --interceptor-tls-secret, the interceptor reads no Secret of its own, needs no proof
// of proxies, replicas and the scaler, and serves plaintext only. With one, all of these change together.
func TestTLSIsOptional(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	for name, want := range map[string]bool{"": false, "tls": true} {
		chosen := local(t)
		chosen.interceptorTLSSecret = name
		api, err := newClients(chosen.kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		s := newSecurity(chosen, api, logger)
		discovery, metrics := s.discovery(xds.Options{}), s.sink(sink.Options{})
		peers, loop := s.peers(status.Options{}), s.ingest(ingest.Options{})
		admin := s.admin(server.Port{Handler: http.NotFoundHandler()}, "keda", nil, logger)
		_, hasAdmin := admin.Handler.(*controlplane.Admin)
		page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
		withPage := s.admin(server.Port{Handler: http.NotFoundHandler()}, "keda", page, logger)
		for what, got := range map[string]bool{
			"the ports serve TLS":               s.certificates != nil,
			"proxies prove their fleet":         discovery.Identify != nil,
			"proxies prove their metrics":       metrics.Identify != nil && metrics.ConnContext != nil,
			"replicas connect by TLS":           peers.PeerCredentials != nil && peers.IsReplica != nil,
			"a certificate is loaded":           loop.SetCertificate != nil,
			"proxies verify it for their calls": loop.Translate.Hold.Name == "keda-add-ons-http-interceptor-kedify-proxy-metric-sink.keda.svc",
			"the Secret is watched":             api.sources(chosen).Certificate != nil,
			"the scaler connects by TLS":        admin.TLS != nil,
			"the scaler proves its account":     hasAdmin,
			"the live page needs TLS":           answers(t, withPage.Handler, "/dashboard/api") == http.StatusTeapot,
			"other paths need a token":          answers(t, withPage.Handler, "/demand") == http.StatusUnauthorized,
		} {
			if got != want {
				t.Errorf("--interceptor-tls-secret=%s: %s: %t", name, what, got)
			}
		}
	}
}

// answers returns the status of the response to a request.
func answers(t *testing.T, handler http.Handler, path string) int {
	t.Helper()
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	return response.Code
}
