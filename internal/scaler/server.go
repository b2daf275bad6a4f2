package scaler

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// Limits of the gRPC server. What it is asked is small: a trigger's metadata.
const (
	receiveLimit = 1 << 20 // bytes of a message: etcd keeps no ScaledObject that is larger
	// streamWindow and connectionWindow are what a client may send before it is answered, in bytes. Questions are small, so their
	// size is fixed: to find out a better one, gRPC would send a ping with each question.
	streamWindow, connectionWindow = 64 << 10, 1 << 20
	// pingFloor is the shortest pause between a client's pings; KEDA's client sends none of its
	// own.
	pingFloor    = 10 * time.Second
	pingInterval = 30 * time.Second
	pingTimeout  = 10 * time.Second
	// connectionTimeout bounds the handshakes of a connection.
	connectionTimeout = 10 * time.Second
	// DefaultMaxStreams is the highest number of calls on one connection at a time, where nothing
	// else is said. KEDA has one connection with a stream for each trigger.
	DefaultMaxStreams = 20000
)

// ErrTLS says that the files for TLS cannot be used.
var ErrTLS = errors.New("TLS files")

// TLS names the PEM files of a server. They are read anew at each handshake, so that a renewed
// certificate counts from the next connection on.
type TLS struct {
	// Certificate and Key are the server's; without them there is no TLS.
	Certificate, Key string
	// ClientCA are the authorities of which every client has to have a certificate, if it is set.
	ClientCA string
}

// ServerOptions are the settings of a gRPC server for a Service: limits, keepalive in both
// directions and TLS. An error says which file cannot be read.
func ServerOptions(maxStreams uint32, files TLS, observer Observer) ([]grpc.ServerOption, error) {
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
		grpc.ChainUnaryInterceptor(observe(observer)),
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
		return nil, fmt.Errorf("%w: authorities of clients: %w", ErrTLS, err)
	}
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%w: no certificate in %q", ErrTLS, t.ClientCA)
	}
	return config, nil
}
