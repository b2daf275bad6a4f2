package scaler_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/kedify/argo-rollouts-plugin/internal/scaler"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	a := authority{certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.key, a.pem = a.sign(t, a.certificate)
	return a
}

// sign creates a key and a certificate for it; an authority without a key signs its own.
func (a authority) sign(t *testing.T, certificate *x509.Certificate) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	raw, err := x509.CreateCertificate(rand.Reader, certificate, a.certificate, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// issue creates a certificate for the host scaler, and its key, both as PEM.
func (a authority) issue(t *testing.T, serial int64) (certificate, key []byte) {
	t.Helper()
	secret, certificate := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{"scaler"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	raw, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// write writes a file into a folder.
func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTLS connects as KEDA does with the keys caCert, tlsClientCert and tlsClientKey of a
// TriggerAuthentication.
func TestTLS(t *testing.T) {
	servers, clients := newAuthority(t, "servers"), newAuthority(t, "clients")
	folder := t.TempDir()
	files := scaler.TLS{
		Certificate: filepath.Join(folder, "tls.crt"), Key: filepath.Join(folder, "tls.key"),
		ClientCA: filepath.Join(folder, "ca.crt"),
	}
	renew := func(serial int64) {
		certificate, key := servers.issue(t, serial)
		write(t, files.Certificate, certificate)
		write(t, files.Key, key)
	}
	renew(1)
	write(t, files.ClientCA, clients.pem)
	address := serveTLS(t, files)

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(servers.pem)
	certificate, err := tls.X509KeyPair(clients.issue(t, 7))
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := tls.X509KeyPair(servers.issue(t, 8))
	if err != nil {
		t.Fatal(err)
	}
	var serial int64 // of the server's certificate, as the client has last seen it
	config := func(own ...tls.Certificate) *tls.Config {
		return &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: "scaler", Certificates: own,
			VerifyConnection: func(seen tls.ConnectionState) error {
				serial = seen.PeerCertificates[0].SerialNumber.Int64()
				return nil
			},
		}
	}
	if err := call(t, address, config(certificate)); err != nil || serial != 1 {
		t.Errorf("a client with a certificate: %v; the server's has number %d", err, serial)
	}
	if err := call(t, address, config()); status.Code(err) != codes.Unavailable {
		t.Errorf("a client without a certificate: %v", err)
	}
	if err := call(t, address, config(stranger)); status.Code(err) != codes.Unavailable {
		t.Errorf("a client with a certificate of another authority: %v", err)
	}
	renew(2)
	if err := call(t, address, config(certificate)); err != nil || serial != 2 {
		t.Errorf("after the certificate was renewed: %v; the server's has number %d", err, serial)
	}
}

// serveTLS starts a server and returns its address.
func serveTLS(t *testing.T, files scaler.TLS) string {
	t.Helper()
	metrics, err := scaler.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	server := scaler.NewServer(10, metrics, slog.New(slog.DiscardHandler))
	scaler.NewService(newFakeSource(), newFakeSource(), metrics, slog.New(slog.DiscardHandler)).Register(server)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := files.Check(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(files.Listener(listener)) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return address
}

// call makes a call that needs no demand, over its own connection.
func call(t *testing.T, address string, config *tls.Config) error {
	t.Helper()
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	_, err = externalscaler.NewExternalScalerClient(connection).GetMetricSpec(t.Context(), reference(nil))
	return err
}

func TestInvalidTLSFiles(t *testing.T) {
	folder := t.TempDir()
	certificate, key := newAuthority(t, "servers").issue(t, 1)
	good := scaler.TLS{Certificate: filepath.Join(folder, "tls.crt"), Key: filepath.Join(folder, "tls.key")}
	write(t, good.Certificate, certificate)
	write(t, good.Key, key)
	empty := filepath.Join(folder, "empty.crt")
	write(t, empty, nil)
	with := func(change func(*scaler.TLS)) scaler.TLS {
		files := good
		change(&files)
		return files
	}
	for name, test := range map[string]struct {
		files   scaler.TLS
		wantErr string
	}{
		"good":                      {files: good},
		"no key":                    {with(func(f *scaler.TLS) { f.Key = "" }), "key"},
		"no certificate":            {scaler.TLS{ClientCA: good.Certificate}, "certificate"},
		"the certificate is absent": {with(func(f *scaler.TLS) { f.Certificate += "x" }), "tls.crtx"},
		"the key is no key":         {with(func(f *scaler.TLS) { f.Key = f.Certificate }), "key"},
		"no authorities":            {with(func(f *scaler.TLS) { f.ClientCA = empty }), "empty.crt"},
	} {
		err := test.files.Check()
		if errors.Is(err, scaler.ErrTLS) != (test.wantErr != "") ||
			err != nil && !strings.Contains(err.Error(), test.wantErr) {
			t.Errorf("%s: error %v, want something with %q", name, err, test.wantErr)
		}
	}
}
