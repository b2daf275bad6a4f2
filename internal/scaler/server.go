package scaler

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

// Limits of the gRPC server. Requests are small: they contain the metadata of a trigger.
const (
	receiveLimit = 1 << 20 // bytes per message: etcd stores no larger ScaledObject
	// streamWindow and connectionWindow are the flow control windows in bytes. They are fixed because requests are
	// small: to adapt them, gRPC would send a ping with each request.
	streamWindow, connectionWindow = 64 << 10, 1 << 20
	// pingFloor is the shortest allowed pause between pings of a client. KEDA's client sends none.
	pingFloor    = 10 * time.Second
	pingInterval = 30 * time.Second
	pingTimeout  = 10 * time.Second
	// connectionTimeout bounds the handshakes of a connection.
	connectionTimeout = 10 * time.Second
	// DefaultMaxStreams is the default limit of concurrent calls on one connection. KEDA has one connection with a
	// stream for each trigger.
	DefaultMaxStreams = 20000
)

// ErrTLS means that a TLS file is unreadable or invalid.
var ErrTLS = errors.New("invalid TLS files")

// TLS contains the paths of the PEM files of a server. They are read at each handshake, so that a renewed certificate
// applies from the next connection on.
type TLS struct {
	// Certificate and Key belong to the server. If they are empty, the server does not use TLS.
	Certificate, Key string
	// ClientCA contains the certificate authorities of clients. If it is set, every client needs a certificate.
	ClientCA string
}

// ServerOptions returns the options of a gRPC server for a Service: limits, keepalive in both directions and TLS. The
// error names the file that cannot be read. A panic is the error of its call, and logged with its stack.
func ServerOptions(
	maxStreams uint32, files TLS, observer Observer, logger *slog.Logger,
) ([]grpc.ServerOption, error) {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(receiveLimit),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connectionWindow),
		grpc.ConnectionTimeout(connectionTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: pingFloor, PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingInterval, Timeout: pingTimeout}),
		grpc.ChainUnaryInterceptor(observe(observer), recovered(logger)),
		grpc.ChainStreamInterceptor(recoveredStream(logger)),
	}
	if files == (TLS{}) {
		return options, nil
	}
	if _, err := files.config(nil); err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: files.config}
	return append(options, grpc.Creds(credentials.NewTLS(config))), nil
}

// recovered turns a panic into the error of its call.
func recovered(logger *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		var response any
		err := server.Recovered(func() (err error) {
			response, err = handle(ctx, request)
			return err
		})
		return response, internalError(logger, err)
	}
}

// recoveredStream turns a panic into the error of its stream.
func recoveredStream(logger *slog.Logger) grpc.StreamServerInterceptor {
	return func(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		return internalError(logger, server.Recovered(func() error { return handle(service, stream) }))
	}
}

// internalError logs a panic and returns the gRPC error for it. It returns other errors as they are.
func internalError(logger *slog.Logger, err error) error {
	failure := (*server.PanicError)(nil)
	if !errors.As(err, &failure) {
		return err
	}
	logger.Error("a call panicked", "panic", failure.Value, "stack", string(failure.Stack))
	return status.Error(codes.Internal, failure.Error())
}

// config reads the files for one handshake.
func (t TLS) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
	if err != nil {
		return nil, fmt.Errorf("%w: certificate %q with key %q: %w", ErrTLS, t.Certificate, t.Key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}
	if t.ClientCA == "" {
		return config, nil
	}
	authorities, err := os.ReadFile(t.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("%w: client CA: %w", ErrTLS, err)
	}
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%w: client CA: %q contains no certificate", ErrTLS, t.ClientCA)
	}
	return config, nil
}
