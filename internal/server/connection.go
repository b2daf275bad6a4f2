package server

import (
	"context"
	"crypto/tls"
	"net"
)

// stateKey is the key of the TLS connection in the context of a request.
type stateKey struct{}

// ConnContext implements http.Server.ConnContext for listeners that return a *tls.Conn for a connection with TLS. The
// field TLS of a request depends on the scheme that the client has sent, so it does not report whether the connection
// uses TLS.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if secure, isSecure := conn.(*tls.Conn); isSecure {
		return context.WithValue(ctx, stateKey{}, secure.ConnectionState())
	}
	return ctx
}

// TLSState returns the TLS connection of a request of a server with [ConnContext], and false without TLS.
func TLSState(ctx context.Context) (tls.ConnectionState, bool) {
	state, isSecure := ctx.Value(stateKey{}).(tls.ConnectionState)
	return state, isSecure
}
