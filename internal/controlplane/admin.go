package controlplane

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/identity"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// ScalerAccount is the name of the ServiceAccount whose tokens the admin port accepts.
const ScalerAccount = "kedify-http-scaler"

// Admin serves Next to Pods of ScalerAccount in Namespace: the pages contain the objects and the demand of all
// namespaces. Its port must use TLS, because others could read the tokens.
type Admin struct {
	// Verifier verifies the tokens. It is not that of the proxies: any Pod may connect to this port, and the limits of
	// reviews are for all peers together.
	Verifier *identity.Verifier
	// Namespace is that of the interceptor.
	Namespace string
	// Next serves the pages.
	Next http.Handler
	// Logger receives the reasons why callers are rejected.
	Logger *slog.Logger

	rejected server.PeerLog
}

// ServeHTTP implements http.Handler.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	peer, _ := server.PeerAddress(r.RemoteAddr)
	pod, err := a.Verifier.Verify(r.Context(), peer, r.Header.Get(authorization))
	code := http.StatusOK
	switch {
	case errors.Is(err, identity.ErrInvalid):
		code = http.StatusUnauthorized
	case err != nil:
		code = http.StatusServiceUnavailable
	case pod == identity.Pod{}:
		code, err = http.StatusUnauthorized, errNoToken
	case pod.Namespace != a.Namespace || pod.Account != ScalerAccount:
		code, err = http.StatusForbidden, errNotScaler
	}
	if err == nil {
		a.Next.ServeHTTP(w, r)
		return
	}
	a.Logger.Log(r.Context(), a.rejected.Level(peer, ""), "caller of the admin port rejected",
		"peer", r.RemoteAddr, "reason", err)
	if code == http.StatusServiceUnavailable { // The error may name the API server.
		err = identity.ErrUnavailable
	}
	http.Error(w, err.Error(), code)
}

// Errors of callers of the admin port.
var (
	errNoToken = errors.New("this port needs a token of ServiceAccount " + ScalerAccount + " for the audience " +
		identity.Audience)
	errNotScaler = errors.New("only ServiceAccount " + ScalerAccount + " of the interceptor's namespace may read this port")
)
