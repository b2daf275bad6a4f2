package scaler

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"

	"github.com/kedify/argo-rollouts-plugin/internal/server"
	"github.com/kedify/argo-rollouts-plugin/internal/server/grpcserver"
)

// Limits of the gRPC server. Requests are small: they contain the metadata of a trigger. With them, the memory of the
// server stays below the limit of config/scaler, together with 10,000 streams of KEDA.
const (
	// messageLimit is the largest message in bytes, and maxEntries the largest number of its metadata.
	messageLimit, maxEntries = 64 << 10, 256
	// headerLimit limits the headers of a call in bytes.
	headerLimit = 8 << 10
	// connectionWindow limits the unread bytes of a connection. It is the minimum of HTTP/2.
	connectionWindow = 64 << 10
	// received is the memory of all messages of more than 1 KiB that are being received, in bytes, and receivedPerAddress
	// that of one address: each of maxConnections can have its part.
	received, receivedPerAddress = maxConnections * receivedPerAddress, 256 << 10
	// maxConnections limits the connections of the port, and connectionsPerAddress those of one address. KEDA has one.
	maxConnections, connectionsPerAddress = 128, 16
	// maxCalls limits the calls of all addresses at the same time, without streams.
	maxCalls = 1000
	// DefaultMaxStreams is the default limit of concurrent calls of one connection, and of the streams of all addresses.
	// KEDA has one connection with a stream for each trigger.
	DefaultMaxStreams = 14000
)

// ConnectionLimits are the limits of the port for a Server.
func ConnectionLimits() server.ConnectionLimits {
	return server.ConnectionLimits{Total: maxConnections, PerAddress: connectionsPerAddress}
}

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

// NewServer returns a gRPC server for a Service, in a bounded amount of memory. A connection has at most maxStreams calls
// at the same time. All addresses together have as many streams; one with at most three quarters of them loses none to
// others. A panic is the error of its call, and logged with its stack.
func NewServer(maxStreams uint32, observer Observer, logger *slog.Logger) *grpcserver.Server {
	return grpcserver.New(grpcserver.Options{
		AccountOf:  func(peer netip.Addr) string { return peer.String() },
		MaxStreams: int(maxStreams), PerConnection: int(maxStreams), MaxPushes: int(maxStreams),
		MaxCalls: maxCalls, Header: headerLimit, Window: connectionWindow, Intercept: observe(observer),
		Received: grpcserver.NewBudget(received, receivedPerAddress), Logger: logger,
	})
}

// Check returns an error that names the file that cannot be read.
func (t TLS) Check() error {
	if t == (TLS{}) {
		return nil
	}
	_, err := t.config(nil)
	return err
}

// Listener returns a listener that serves TLS with the files, which it reads for each handshake. Without files it
// returns the given one.
func (t TLS) Listener(listener net.Listener) net.Listener {
	if t == (TLS{}) {
		return listener
	}
	return tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: t.config})
}

// methodLimits returns the limits of the methods. The parts of a message are names, a map, and an embedded message.
func methodLimits() map[string]grpcserver.Limits {
	reference := grpcserver.Fields{1: nil, 2: nil, 3: nil}
	limits := func(fields grpcserver.Fields) grpcserver.Limits {
		return grpcserver.Limits{
			Message: messageLimit, Fields: fields, Repeated: maxEntries, IsSingle: true, IsTransient: true,
		}
	}
	return map[string]grpcserver.Limits{
		"IsActive": limits(reference), "StreamIsActive": limits(reference), "GetMetricSpec": limits(reference),
		"GetMetrics": limits(grpcserver.Fields{1: reference, 2: nil}),
	}
}

// config reads the files for one handshake.
func (t TLS) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
	if err != nil {
		return nil, fmt.Errorf("%w: certificate %q with key %q: %w", ErrTLS, t.Certificate, t.Key, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"},
	}
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
