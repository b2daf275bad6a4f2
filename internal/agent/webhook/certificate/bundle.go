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
	// validity is how long a certificate is good, and renewal how long before its end it is replaced.
	validity, renewal = 365 * 24 * time.Hour, 30 * 24 * time.Hour
	// backdate is how much a certificate is older than it is, for clocks that are slow.
	backdate = time.Hour
	// authority is the common name of the authority, which lives as long as its only certificate.
	authority = "kedify-http-agent"
	// authorityKey is the key of the Secret with the authority's certificate.
	authorityKey = "ca.crt"
)

// bundle is what the Secret holds, in PEM.
type bundle struct {
	// authority is the certificate to trust.
	authority []byte
	// certificate and key are the server's.
	certificate, key []byte
}

// bundleOf reads the Secret's content.
func bundleOf(content map[string][]byte) bundle {
	return bundle{content[authorityKey], content[corev1.TLSCertKey], content[corev1.TLSPrivateKeyKey]}
}

// content is what goes into the Secret.
func (b bundle) content() map[string][]byte {
	return map[string][]byte{
		authorityKey: b.authority, corev1.TLSCertKey: b.certificate, corev1.TLSPrivateKeyKey: b.key,
	}
}

// valid says whether the certificate is good for all names at a time and for the renewal after it.
func (b bundle) valid(names []string, now time.Time) bool {
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		for _, at := range []time.Time{now, now.Add(renewal)} {
			good, err := rotator.ValidCert(b.authority, b.certificate, b.key, name, &usage, at)
			if !good || err != nil {
				return false
			}
		}
	}
	return true
}

// pair is the certificate as a server takes it.
func (b bundle) pair() (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(b.certificate, b.key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the webhook: %w", err)
	}
	return &pair, nil
}

// newBundle makes a certificate for names, and an authority for it whose key is forgotten.
func newBundle(names []string, now time.Time) (bundle, error) {
	maker := rotator.CertRotator{
		CAName: authority, CAOrganization: authority, DNSName: names[0], ExtraDNSNames: names[1:],
		ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	begin, end := now.Add(-backdate), now.Add(validity)
	issuer, err := maker.CreateCACert(begin, end)
	if err != nil {
		return bundle{}, fmt.Errorf("make an authority: %w", err)
	}
	certificate, key, err := maker.CreateCertPEM(issuer, begin, end)
	if err != nil {
		return bundle{}, fmt.Errorf("make a certificate: %w", err)
	}
	return bundle{issuer.CertPEM, certificate, key}, nil
}

// trust is what a webhook trusts, in PEM, that trusted other authorities before: the bundle's, and the one
// before it, by which other replicas may still serve for a moment.
func (b bundle) trust(before []byte, now time.Time) []byte {
	for len(before) > 0 {
		block, rest := pem.Decode(before)
		if block == nil {
			break
		}
		text := pem.EncodeToMemory(block)
		parsed, err := x509.ParseCertificate(block.Bytes)
		if err == nil && now.Before(parsed.NotAfter) && !bytes.Equal(text, b.authority) {
			return slices.Concat(b.authority, text)
		}
		before = rest
	}
	return b.authority
}
