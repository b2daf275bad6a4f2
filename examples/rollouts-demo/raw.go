package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync"
	"time"
)

// rawAddresses are the addresses of the servers without HTTP; an empty one is disabled.
type rawAddresses struct {
	// tcp and tls answer each connection, the latter with a self-signed certificate. udp answers each datagram.
	tcp, tls, udp string
}

// writeTimeout bounds one answer.
const writeTimeout = 5 * time.Second

// raw answers with the colour and a line end, and nothing else: it shows the destination of a route for connections or
// datagrams, without requests.
type raw struct {
	answer  []byte
	open    []io.Closer
	serving sync.WaitGroup
}

// serveRaw opens the ports and serves them until close is called.
func serveRaw(ctx context.Context, addresses rawAddresses, color string) (*raw, error) {
	r := &raw{answer: []byte(color + "\n")}
	err := errors.Join(r.serveTCP(ctx, addresses.tcp), r.serveTLS(ctx, addresses.tls), r.serveUDP(ctx, addresses.udp))
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// close closes all of them, and returns after the last answer.
func (r *raw) close() error {
	var failures []error
	for _, port := range r.open {
		failures = append(failures, port.Close())
	}
	r.serving.Wait()
	return errors.Join(failures...)
}

func (r *raw) serveTCP(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("open the TCP port: %w", err)
	}
	r.accept(listener)
	return nil
}

func (r *raw) serveTLS(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	certificate, err := selfSigned()
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("open the TLS port: %w", err)
	}
	r.accept(tls.NewListener(listener,
		&tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}))
	return nil
}

// accept answers every connection until the listener is closed.
func (r *raw) accept(listener net.Listener) {
	r.open = append(r.open, listener)
	r.serving.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return // the listener is closed
			}
			r.serving.Go(func() {
				defer connection.Close()
				_ = connection.SetDeadline(time.Now().Add(writeTimeout)) // on a fresh connection: it can't fail
				_, _ = connection.Write(r.answer)                        // the client may have disconnected
			})
		}
	})
}

func (r *raw) serveUDP(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	port, err := new(net.ListenConfig).ListenPacket(ctx, "udp", address)
	if err != nil {
		return fmt.Errorf("open the UDP port: %w", err)
	}
	r.open = append(r.open, port)
	r.serving.Go(func() {
		datagram := make([]byte, 1)
		for {
			_, from, err := port.ReadFrom(datagram)
			if err != nil {
				return // the port is closed
			}
			_, _ = port.WriteTo(r.answer, from) // the client may have disconnected
		}
	})
	return nil
}

// selfSigned creates a certificate for any server name that a client sends: clients here check where a connection
// leads, not the server's identity.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("create a key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("create a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, nil
}
