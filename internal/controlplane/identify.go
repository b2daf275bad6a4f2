package controlplane

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/identity"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/transport"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// authorization is the header with a proxy's token.
const authorization = "authorization"

// Identities identifies proxies by their tokens. A token without TLS counts for nothing: others may have read it.
type Identities struct {
	// Verifier verifies the tokens.
	Verifier *identity.Verifier
	// Logger receives the reasons why a token was not reviewed. If the interceptor may not have tokens reviewed, the
	// address of a proxy counts, as without a token.
	Logger *slog.Logger

	forbidden   sync.Once
	unavailable server.PeerLog
}

// Fleet implements xds.Options.Identify.
func (i *Identities) Fleet(ctx context.Context) (string, error) {
	if !transport.IsSecure(ctx) {
		return "", nil
	}
	received, _ := metadata.FromIncomingContext(ctx)
	var from netip.Addr // stays invalid without a peer, which no address of a proxy equals
	if caller, isKnown := peer.FromContext(ctx); isKnown && caller.Addr != nil {
		from, _ = server.PeerAddress(caller.Addr.String())
	}
	pod, err := i.verify(ctx, from, received.Get(authorization))
	return pod.Namespace, err
}

// Proxy implements sink.Options.Identify.
func (i *Identities) Proxy(r *http.Request) (model.Fleet, string, error) {
	if !transport.IsSecure(r.Context()) {
		return "", "", nil
	}
	from, _ := server.PeerAddress(r.RemoteAddr)
	pod, err := i.verify(r.Context(), from, r.Header.Values(authorization))
	return model.Fleet(pod.Namespace), pod.Name, err
}

// verify returns the Pod of the Authorization headers of a peer, the zero Pod if they prove nothing. The error is a
// gRPC status; a proxy retries.
func (i *Identities) verify(ctx context.Context, from netip.Addr, headers []string) (identity.Pod, error) {
	if len(headers) == 0 {
		return identity.Pod{}, nil
	}
	pod, err := i.Verifier.Verify(ctx, from, headers[0])
	if errors.Is(err, identity.ErrForbidden) {
		i.forbidden.Do(func() {
			i.Logger.ErrorContext(ctx, "tokens of proxies cannot be reviewed: proxies are identified by their addresses and "+
				"receive no private keys: apply config/interceptor", "error", err)
		})
		return identity.Pod{}, nil
	}
	switch {
	case err == nil:
		return pod, nil
	case errors.Is(err, identity.ErrInvalid):
		return identity.Pod{}, status.Error(codes.Unauthenticated, err.Error())
	default: // The error may name the API server, so the proxy does not receive it.
		i.Logger.Log(ctx, i.unavailable.Level(from, ""), "the token of a proxy was not reviewed", "error", err)
		return identity.Pod{}, status.Error(codes.Unavailable, identity.ErrUnavailable.Error())
	}
}
