package transport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"sync/atomic"
)

// ServerName is the Service by which proxies reach the interceptor. [Name] returns its name in certificates.
const ServerName = "keda-add-ons-http-interceptor-kedify-proxy-metric-sink"

// Name returns the DNS name that the certificate of an interceptor in a namespace has.
func Name(namespace string) string { return ServerName + "." + namespace + ".svc" }

// errNoCertificate is the error of handshakes before the first certificate. errNoCA is that of a Secret without CAs.
var (
	errNoCertificate = errors.New("the interceptor has no certificate yet")
	errNoCA          = errors.New("ca.crt has no valid certificate of a CA")
)

// certificate is a certificate with its key, and the CAs that sign the certificates of the interceptor.
type certificate struct {
	pair  tls.Certificate
	roots *x509.CertPool
}

// Certificates has the current certificate of the interceptor, none at first. Its methods are safe for concurrent use.
type Certificates struct {
	// Name is the DNS name that other replicas have in their certificate.
	Name string

	current atomic.Pointer[certificate]
}

// Set replaces the current certificate by that in the data of a Secret: tls.crt, tls.key, and ca.crt with the CAs,
// all in PEM. New connections use it. It returns the CAs, for all proxies. An error changes nothing.
func (c *Certificates) Set(data map[string][]byte) (ca string, err error) {
	pair, err := tls.X509KeyPair(data["tls.crt"], data["tls.key"])
	if err != nil {
		return "", err
	}
	roots, authorities := x509.NewCertPool(), onlyCertificates(data["ca.crt"])
	if !roots.AppendCertsFromPEM(authorities) {
		return "", errNoCA
	}
	c.current.Store(&certificate{pair, roots})
	return string(authorities), nil
}

// onlyCertificates returns the certificates in a PEM text. It omits all else, such as a private key that was stored in
// the wrong place.
func onlyCertificates(text []byte) (certificates []byte) {
	const kind = "CERTIFICATE"
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == kind {
			certificates = append(certificates, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: block.Bytes})...)
		}
	}
	return certificates
}

// serverConfig returns the TLS configuration of one incoming connection. A client may present a certificate, which must
// then be of the same CA.
func (c *Certificates) serverConfig() (*tls.Config, error) {
	current := c.current.Load()
	if current == nil {
		return nil, errNoCertificate
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{current.pair},
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: current.roots,
		SessionTicketsDisabled: true, // Each configuration would have its own keys, so none could be resumed.
	}, nil
}

// HTTPConfig returns the TLS configuration of a port for clients without certificates. Handshakes before the first
// certificate fail.
func (c *Certificates) HTTPConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			current := c.current.Load()
			if current == nil {
				return nil, errNoCertificate
			}
			return &current.pair, nil
		},
	}
}

// clientConfig returns the TLS configuration of one connection to another replica, nil without a certificate.
func (c *Certificates) clientConfig() *tls.Config {
	current := c.current.Load()
	if current == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, ServerName: c.Name, RootCAs: current.roots,
		Certificates: []tls.Certificate{current.pair},
	}
}
