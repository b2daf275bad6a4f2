package transport

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// Credentials returns the credentials of clients of other replicas. They use TLS if there is a certificate.
func (c *Certificates) Credentials() credentials.TransportCredentials {
	return grpcCredentials{insecure.NewCredentials(), c}
}

// IsSecure reports whether a request of a server with [server.ConnContext] uses TLS.
func IsSecure(ctx context.Context) bool {
	_, isSecure := server.TLSState(ctx)
	return isSecure
}

// IsReplica reports whether the caller has presented the interceptor's certificate. Without a certificate of this
// replica it is true for every caller.
func (c *Certificates) IsReplica(ctx context.Context) bool {
	if c.current.Load() == nil {
		return true
	}
	state, isSecure := server.TLSState(ctx)
	return isSecure && len(state.VerifiedChains) > 0 && state.VerifiedChains[0][0].VerifyHostname(c.Name) == nil
}

// grpcCredentials use TLS if there is a certificate. The embedded ones are those without TLS.
type grpcCredentials struct {
	credentials.TransportCredentials

	certificates *Certificates
}

// ClientHandshake implements credentials.TransportCredentials.
func (c grpcCredentials) ClientHandshake(
	ctx context.Context, authority string, conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	if config := c.certificates.clientConfig(); config != nil {
		return credentials.NewTLS(config).ClientHandshake(ctx, config.ServerName, conn)
	}
	return c.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (c grpcCredentials) Clone() credentials.TransportCredentials {
	return grpcCredentials{c.TransportCredentials.Clone(), c.certificates}
}
