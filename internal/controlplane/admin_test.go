package controlplane_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/identity"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/transport"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestAdminAnswersTheScalerOnly has callers of the admin port. Only a Pod of the scaler's ServiceAccount reaches the
// pages, and no other answer contains anything of them.
func TestAdminAnswersTheScalerOnly(t *testing.T) {
	t.Parallel()
	const scaler = "system:serviceaccount:keda:kedify-http-scaler"
	forbidden := apierrors.NewForbidden(authenticationv1.Resource("tokenreviews"), "", errors.New("no role"))
	for name, test := range map[string]struct {
		header string
		user   string
		err    error
		want   int
	}{
		"the scaler":                    {header: "Bearer " + tokenOf("a"), user: scaler, want: 200},
		"no token":                      {user: scaler, want: 401},
		"not a token":                   {header: "Bearer x", user: scaler, want: 401},
		"a rejected token":              {header: "Bearer " + tokenOf("a"), want: 401},
		"a proxy of the same namespace": {header: "Bearer " + tokenOf("a"), user: "system:serviceaccount:keda:default", want: 403},
		"the name in another namespace": {header: "Bearer " + tokenOf("a"), user: "system:serviceaccount:team:kedify-http-scaler", want: 403},
		"no API server":                 {header: "Bearer " + tokenOf("a"), user: scaler, err: errors.New("refused"), want: 503},
		"no permission":                 {header: "Bearer " + tokenOf("a"), user: scaler, err: forbidden, want: 503},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			review := func(context.Context, *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
				return &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{
					Authenticated: test.user != "", Audiences: []string{identity.Audience},
					User: authenticationv1.UserInfo{
						Username: test.user,
						Extra:    map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {"scaler-1"}},
					},
				}}, test.err
			}
			admin := &controlplane.Admin{
				Verifier: identity.New(review, time.Now), Namespace: "keda", Logger: slog.New(slog.DiscardHandler),
				Next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "demand") }),
			}
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/demand", http.NoBody)
			if test.header != "" {
				request.Header.Set("Authorization", test.header)
			}
			response := httptest.NewRecorder()
			admin.ServeHTTP(response, request)
			if response.Code != test.want || (response.Body.String() == "demand") != (test.want == 200) {
				t.Errorf("%d %s, want %d", response.Code, response.Body, test.want)
			}
		})
	}
}

// TestAdminPortServesTLSOnly has a port before and after the first certificate, and a client without TLS.
func TestAdminPortServesTLSOnly(t *testing.T) {
	t.Parallel()
	certificates := &transport.Certificates{Name: "admin.keda.svc"}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "demand")
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	server.Listener = tls.NewListener(server.Listener, certificates.HTTPConfig())
	server.Start()
	defer server.Close()
	data := kit.NewServerCertificate(t, certificates.Name)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data["ca.crt"])
	get := func(scheme string) (string, error) {
		client := &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: certificates.Name, MinVersion: tls.VersionTLS13},
			DisableKeepAlives: true,
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+server.Listener.Addr().String(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.RoundTrip(request)
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		return string(text), err
	}
	if text, err := get("https"); err == nil {
		t.Errorf("before the first certificate: %q", text)
	}
	if _, err := certificates.Set(data); err != nil {
		t.Fatal(err)
	}
	if text, err := get("https"); text != "demand" || err != nil {
		t.Errorf("with a certificate: %q, %v", text, err)
	}
	if text, err := get("http"); err == nil && text == "demand" {
		t.Error("the port answers without TLS")
	}
}
