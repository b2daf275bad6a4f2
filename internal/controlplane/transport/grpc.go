package transport

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
)

// Credentials returns the credentials of a gRPC server on a [Listener], and of clients of other replicas. A client uses
// TLS if there is a certificate.
func (c *Certificates) Credentials() credentials.TransportCredentials {
	return grpcCredentials{insecure.NewCredentials(), c}
}

// secureKey is the key of the context of an HTTP connection with TLS.
type secureKey struct{}

// ConnContext implements http.Server.ConnContext for the connections of a [Listener]. The field TLS of a request
// depends on the scheme that the client has sent, so it does not report whether the connection uses TLS.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if _, isSecure := conn.(*tls.Conn); isSecure {
		return context.WithValue(ctx, secureKey{}, true)
	}
	return ctx
}

// IsSecure reports whether a gRPC call, or an HTTP request of a server with [ConnContext], uses TLS.
func IsSecure(ctx context.Context) bool {
	_, isSecure := infoOf(ctx)
	return isSecure || ctx.Value(secureKey{}) != nil
}

// IsReplica reports whether the caller has presented the interceptor's certificate. Without a certificate of this
// replica it is true for every caller.
func (c *Certificates) IsReplica(ctx context.Context) bool {
	if c.current.Load() == nil {
		return true
	}
	info, isSecure := infoOf(ctx)
	return isSecure && len(info.State.VerifiedChains) > 0 &&
		info.State.VerifiedChains[0][0].VerifyHostname(c.Name) == nil
}

// infoOf returns the TLS connection of a call, and false without TLS.
func infoOf(ctx context.Context) (credentials.TLSInfo, bool) {
	caller, isKnown := peer.FromContext(ctx)
	if !isKnown {
		return credentials.TLSInfo{}, false
	}
	info, isSecure := caller.AuthInfo.(credentials.TLSInfo)
	return info, isSecure
}

// grpcCredentials implement both kinds of connections. The embedded ones are those without TLS.
type grpcCredentials struct {
	credentials.TransportCredentials

	certificates *Certificates
}

// ServerHandshake implements credentials.TransportCredentials for the connections of a Listener.
func (c grpcCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, isSecure := conn.(*tls.Conn)
	if !isSecure {
		return c.TransportCredentials.ServerHandshake(conn)
	}
	return conn, credentials.TLSInfo{
		State:          secure.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
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
