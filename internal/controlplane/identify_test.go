package controlplane_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/identity"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// reviews is an API server that reviews tokens.
type reviews struct {
	count int
	err   error
	isBad bool // Tokens are rejected.
}

// identities returns the Identities of an API server, and what they log.
func (a *reviews) identities() (*controlplane.Identities, *bytes.Buffer) {
	review := func(context.Context, *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
		a.count++
		return &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{
			Authenticated: !a.isBad, Audiences: []string{identity.Audience},
			User: authenticationv1.UserInfo{
				Username: "system:serviceaccount:team:default",
				Extra:    map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/pod-name": {"proxy-1"}},
			},
		}}, a.err
	}
	log := new(bytes.Buffer)
	return &controlplane.Identities{
		Verifier: identity.New(review, time.Now), Logger: slog.New(slog.NewTextHandler(log, nil)),
	}, log
}

// tokenOf returns a token of a subject.
func tokenOf(subject string) string {
	claims := fmt.Sprintf(`{"sub": %q, "exp": %d}`, subject, time.Now().Add(time.Hour).Unix())
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// callWith returns the context of a gRPC call with tokens, with or without TLS.
func callWith(ctx context.Context, isSecure bool, tokens ...string) context.Context {
	caller := &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 40000}}
	if isSecure {
		ctx = server.ConnContext(ctx, tls.Server(nil, new(tls.Config)))
	}
	headers := metadata.MD{}
	for _, token := range tokens {
		headers.Append("authorization", "Bearer "+token)
	}
	return metadata.NewIncomingContext(peer.NewContext(ctx, caller), headers)
}

// requestWith returns an HTTP request with tokens, with or without TLS.
func requestWith(t *testing.T, isSecure bool, tokens ...string) *http.Request {
	t.Helper()
	ctx := t.Context()
	if isSecure {
		ctx = server.ConnContext(ctx, tls.Server(nil, new(tls.Config)))
	}
	// The scheme of a request is the client's, and does not show whether the connection uses TLS.
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://interceptor", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.RemoteAddr = "10.0.0.7:40000"
	for _, token := range tokens {
		request.Header.Add("Authorization", "Bearer "+token)
	}
	return request
}

// TestTokensCountOnlyOverTLS has proxies with and without TLS and tokens. Without TLS no token is reviewed.
func TestTokensCountOnlyOverTLS(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		isSecure bool
		tokens   []string
		fleet    string
		reviews  int
	}{
		"TLS and a token":   {isSecure: true, tokens: []string{tokenOf("a")}, fleet: "team", reviews: 1},
		"TLS, no token":     {isSecure: true},
		"no TLS, a token":   {tokens: []string{tokenOf("a")}},
		"neither":           {},
		"the first of some": {isSecure: true, tokens: []string{tokenOf("a"), "b"}, fleet: "team", reviews: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := new(reviews)
			identities, _ := api.identities()
			fleet, err := identities.Fleet(callWith(t.Context(), test.isSecure, test.tokens...))
			if fleet != test.fleet || err != nil || api.count != test.reviews {
				t.Errorf("xDS: fleet %q, %v after %d reviews", fleet, err, api.count)
			}
			of, proxy, err := identities.Proxy(requestWith(t, test.isSecure, test.tokens...))
			if string(of) != test.fleet || (proxy == "proxy-1") != (test.fleet != "") || err != nil || api.count != test.reviews {
				t.Errorf("metrics: %q, %q, %v after %d reviews", of, proxy, err, api.count)
			}
		})
	}
}

// TestTokensThatAreNotReviewed has answers of the API server to a review. No error and no log contains a token.
func TestTokensThatAreNotReviewed(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(authenticationv1.Resource("tokenreviews"), "", errors.New("no role"))
	for name, test := range map[string]struct {
		api  reviews
		want codes.Code
		logs int
	}{
		"rejected":      {api: reviews{isBad: true}, want: codes.Unauthenticated},
		"no API server": {api: reviews{err: errors.New("connection refused")}, want: codes.Unavailable, logs: 1},
		"no permission": {api: reviews{err: forbidden}, want: codes.OK, logs: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			identities, log := test.api.identities()
			token := tokenOf("a")
			for range 2 {
				fleet, err := identities.Fleet(callWith(t.Context(), true, token))
				if fleet != "" || status.Code(err) != test.want {
					t.Errorf("xDS: fleet %q, %v, want %s", fleet, err, test.want)
				}
				of, proxy, err := identities.Proxy(requestWith(t, true, token))
				if of != "" || proxy != "" || status.Code(err) != test.want {
					t.Errorf("metrics: %q, %q, %v, want %s", of, proxy, err, test.want)
				}
				if err != nil && (strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "refused")) {
					t.Errorf("the error contains the token, or that of the API server: %v", err)
				}
			}
			if lines := strings.Count(log.String(), "\n"); lines != test.logs || strings.Contains(log.String(), token) {
				t.Errorf("%d lines, want %d without the token:\n%s", lines, test.logs, log.String())
			}
		})
	}
}
