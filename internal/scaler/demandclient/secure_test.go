package demandclient_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/demandclient"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// secureInterceptor serves a report by TLS, to callers with a token. It returns its address, and the CA.
func secureInterceptor(t *testing.T, name string, token *atomic.Value) (address, ca string) {
	t.Helper()
	text := report(t, 10, "1", "2")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if want, _ := token.Load().(string); r.Header.Get("Authorization") != "Bearer "+want {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, text+"\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	data := kit.NewServerCertificate(t, name)
	pair, err := tls.X509KeyPair(data["tls.crt"], data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), string(data["ca.crt"])
}

// TestDemandByTLS has an interceptor with TLS. Its demand is unknown without its CA, without a token, and with another
// name in the certificate, and known as soon as these are right.
func TestDemandByTLS(t *testing.T) {
	t.Parallel()
	const name = "admin.keda.svc"
	var token atomic.Value
	token.Store("first")
	address, ca := secureInterceptor(t, name, &token)
	_, otherCA := secureInterceptor(t, name, &token)
	for what, test := range map[string]struct {
		name, ca, token string
		isKnown         bool
	}{
		"all right":    {name, ca, "first\n", true},
		"no CA":        {name, "", "first", false},
		"another CA":   {name, otherCA, "first", false},
		"another name": {"other.keda.svc", ca, "first", false},
		"no token":     {name, ca, "", false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "token")
			if test.token != "" {
				if err := os.WriteFile(file, []byte(test.token), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			security := &demandclient.Security{Name: test.name, TokenFile: file}
			security.SetCA(test.ca)
			reader := demandclient.New(security, slog.New(slog.DiscardHandler))
			reader.SetReplicas([]endpoints.Pod{{Name: "a", Address: address}})
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { reader.Run(ctx) })
			t.Cleanup(func() {
				stop()
				running.Wait()
			})
			if test.isKnown {
				awaitDemand(t, reader, 10, "")
				return
			}
			await.True(t, "the first attempt", reader.HasAsked)
			if value, err := reader.Demand(shop); err == nil || !strings.Contains(err.Error(), "no report from interceptor a") {
				t.Errorf("%+v, %v", value, err)
			}
			security.Name = name
			security.SetCA(ca)
			if err := os.WriteFile(file, []byte("first"), 0o600); err != nil {
				t.Fatal(err)
			}
			awaitDemand(t, reader, 10, "")
		})
	}
}
