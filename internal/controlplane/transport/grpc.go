package transport

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Credentials returns the credentials of clients of other replicas. They use TLS if there is a certificate.
func (c *Certificates) Credentials() credentials.TransportCredentials {
	return grpcCredentials{insecure.NewCredentials(), c}
}

// stateKey is the key of the TLS connection in the context of a request.
type stateKey struct{}

// ConnContext implements http.Server.ConnContext for the connections of a [Listener]. The field TLS of a request
// depends on the scheme that the client has sent, so it does not report whether the connection uses TLS.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if secure, isSecure := conn.(*tls.Conn); isSecure {
		return context.WithValue(ctx, stateKey{}, secure.ConnectionState())
	}
	return ctx
}

// IsSecure reports whether a request of a server with [ConnContext] uses TLS.
func IsSecure(ctx context.Context) bool {
	_, isSecure := stateOf(ctx)
	return isSecure
}

// IsReplica reports whether the caller has presented the interceptor's certificate. Without a certificate of this
// replica it is true for every caller.
func (c *Certificates) IsReplica(ctx context.Context) bool {
	if c.current.Load() == nil {
		return true
	}
	state, isSecure := stateOf(ctx)
	return isSecure && len(state.VerifiedChains) > 0 && state.VerifiedChains[0][0].VerifyHostname(c.Name) == nil
}

// stateOf returns the TLS connection of a request, and false without TLS.
func stateOf(ctx context.Context) (tls.ConnectionState, bool) {
	state, isSecure := ctx.Value(stateKey{}).(tls.ConnectionState)
	return state, isSecure
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
