// Package pki creates the keys, certificates and kubeconfigs of one embedded cluster. They exist as long as the
// cluster's run directory: each start creates new ones, so nothing has to be rotated or revoked.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is the validity of the certificates of a throw-away cluster.
const validity = 365 * 24 * time.Hour

// clockSkew is subtracted from the start of the validity, so that a small correction of the clock during the start does
// no harm.
const clockSkew = 10 * time.Minute

// Authority is a certificate authority that signs the certificates of the
// cluster's components.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	now  time.Time
}

// Identity is a certificate with its key, both in PEM form.
type Identity struct {
	// CertPEM is the certificate.
	CertPEM []byte
	// KeyPEM is the private key (PKCS #8).
	KeyPEM []byte
}

// Subject identifies the holder of a certificate. Kubernetes reads the common name as the user and the organizations as
// the user's groups (https://kubernetes.io/docs/reference/access-authn-authz/authentication/).
type Subject struct {
	// CommonName is the user name.
	CommonName string
	// Groups are the user's groups.
	Groups []string
	// Names are the DNS names of a serving certificate.
	Names []string
	// IPs are the addresses of a serving certificate.
	IPs []net.IP
}

// NewAuthority creates a self-signed authority that is valid from now on.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create the key of authority %s: %w", name, err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(validity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate of authority %s: %w", name, err)
	}
	return &Authority{cert: cert, key: key, now: now}, nil
}

// CertPEM is the authority's own certificate.
func (a *Authority) CertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Identity returns the authority's certificate with its key, for the
// controller manager, which signs certificates of the cluster itself.
func (a *Authority) Identity() (Identity, error) {
	keyPEM, err := encodeKey(a.key)
	if err != nil {
		return Identity{}, err
	}
	return Identity{CertPEM: a.CertPEM(), KeyPEM: keyPEM}, nil
}

// Issue signs a certificate for both client and server use.
func (a *Authority) Issue(s Subject) (Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("create the key of %s: %w", s.CommonName, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return Identity{}, fmt.Errorf("generate a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.CommonName, Organization: s.Groups},
		NotBefore:    a.now.Add(-clockSkew),
		NotAfter:     a.now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:     s.Names,
		IPAddresses:  s.IPs,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Identity{}, fmt.Errorf("sign the certificate of %s: %w", s.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Identity{}, err
	}
	return Identity{CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), KeyPEM: keyPEM}, nil
}

// ServiceAccountKey creates the key that signs service account tokens, and its public key, both in PEM form.
func ServiceAccountKey() (private, public []byte, err error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, fmt.Errorf("create the service account key: %w", err)
	}
	private, err = encodeKey(key)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("encode the service account key: %w", err)
	}
	return private, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// Write stores the identity as NAME.crt and NAME.key below dir.
func (i Identity) Write(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), i.CertPEM, 0o644); err != nil {
		return fmt.Errorf("write the certificate of %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".key"), i.KeyPEM, 0o600); err != nil {
		return fmt.Errorf("write the key of %s: %w", name, err)
	}
	return nil
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
