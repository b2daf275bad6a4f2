package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
)

const (
	// validity is the lifetime of a certificate. renewal is how long before its expiry it is replaced.
	validity, renewal = 365 * 24 * time.Hour, 30 * 24 * time.Hour
	// backdate is how far notBefore lies in the past, for clients with slow clocks.
	backdate = time.Hour
	// webhookCA and interceptorCA are the common names of the CAs. A CA signs a single certificate and expires with it.
	webhookCA, interceptorCA = "kedify-http-agent", "kedify-http-interceptor"
	// caKey is the Secret's key of the CA certificate.
	caKey = "ca.crt"
)

// bundle is the content of the Secret, in PEM.
type bundle struct {
	// ca is the CA certificate.
	ca []byte
	// certificate and key are the server's.
	certificate, key []byte
}

// bundleOf reads the data of the Secret.
func bundleOf(content map[string][]byte) bundle {
	return bundle{content[caKey], content[corev1.TLSCertKey], content[corev1.TLSPrivateKeyKey]}
}

// content returns the data of the Secret.
func (b bundle) content() map[string][]byte {
	return map[string][]byte{
		caKey: b.ca, corev1.TLSCertKey: b.certificate, corev1.TLSPrivateKeyKey: b.key,
	}
}

// isValid reports whether the certificate is valid for all names now and for the renewal period.
func (b bundle) isValid(names []string, now time.Time) bool {
	return b.isValidAt(names, now) && b.isValidAt(names, now.Add(renewal))
}

// isValidAt reports whether the certificate is valid for all names at a time.
func (b bundle) isValidAt(names []string, at time.Time) bool {
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		isValid, err := rotator.ValidCert(b.ca, b.certificate, b.key, name, &usage, at)
		if !isValid || err != nil {
			return false
		}
	}
	return true
}

// keyPair returns the certificate of the webhook.
func (b bundle) keyPair() (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(b.certificate, b.key)
	if err != nil {
		return nil, fmt.Errorf("load the webhook's certificate: %w", err)
	}
	return &pair, nil
}

// newBundle creates a certificate for names and a CA with a common name for it. The CA's private key is not stored.
func newBundle(ca string, names []string, now time.Time, usages ...x509.ExtKeyUsage) (bundle, error) {
	creator := rotator.CertRotator{
		CAName: ca, CAOrganization: ca, DNSName: names[0], ExtraDNSNames: names[1:], ExtKeyUsages: &usages,
	}
	begin, end := now.Add(-backdate), now.Add(validity)
	issuer, err := creator.CreateCACert(begin, end)
	if err != nil {
		return bundle{}, fmt.Errorf("create the CA: %w", err)
	}
	certificate, key, err := creator.CreateCertPEM(issuer, begin, end)
	if err != nil {
		return bundle{}, fmt.Errorf("create the certificate: %w", err)
	}
	return bundle{issuer.CertPEM, certificate, key}, nil
}

// caBundle returns the new CA bundle of clients, in PEM: the bundle's CA, and the first other unexpired CA in
// before. Other replicas may still serve a certificate of the previous CA for a short time.
func (b bundle) caBundle(before []byte, now time.Time) []byte {
	for _, text := range unexpired(before, now) {
		if !bytes.Equal(text, b.ca) {
			return slices.Concat(b.ca, text)
		}
	}
	return b.ca
}

// unexpired returns the unexpired certificates in a PEM text, each in PEM without headers.
func unexpired(text []byte, now time.Time) (certificates [][]byte) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		parsed, err := x509.ParseCertificate(block.Bytes)
		if err == nil && now.Before(parsed.NotAfter) {
			certificates = append(certificates, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
		}
	}
	return certificates
}
