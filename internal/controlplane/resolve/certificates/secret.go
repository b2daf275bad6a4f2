package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

const (
	// minRSABits is the shortest RSA key that Envoy takes, and maxRSABits the longest that clients take which are written in
	// Go (crypto/tls).
	minRSABits, maxRSABits = 2048, 8192
	// maxBytes bounds certificates and key together. A chain of four with RSA keys has 10 kB, and every proxy keeps one for each name.
	maxBytes = 64 << 10
)

// errUnusable is what every error of parse is by errors.Is.
var errUnusable = errors.New("unusable certificate")

// Secret is what is known of a Secret.
type Secret struct {
	// Certificate is what it has, nil if that is of no use.
	Certificate *model.Certificate
	// leaf is the first certificate, which tells for which hosts it is.
	leaf *x509.Certificate
	// Wrong says why Certificate is nil: what is wrong, and what to do. "" where there is no such Secret.
	Wrong string
	// Unreadable says why nothing is known of the Secret, and what to do; "" when it was read, be it that it is not there.
	Unreadable string
}

// Equal says whether two Secrets are the same in every part.
func (s *Secret) Equal(other *Secret) bool {
	return s.Wrong == other.Wrong && s.Unreadable == other.Unreadable && s.Certificate.Equal(other.Certificate)
}

// Read reads a Secret. Nothing of it is kept but a copy of the certificates and the key.
func Read(from *corev1.Secret) *Secret {
	key := model.Key{Namespace: from.Namespace, Name: from.Name}
	chain, private := from.Data[corev1.TLSCertKey], from.Data[corev1.TLSPrivateKeyKey]
	leaf, err := parse(chain, private)
	if err != nil {
		return &Secret{Wrong: fmt.Sprintf("%v; put the certificate with its chain into %s and its private key into %s, both in PEM, as `kubectl create secret tls` does",
			err, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)}
	}
	return &Secret{leaf: leaf, Certificate: model.NewCertificate(key, slices.Clone(chain), slices.Clone(private), leaf.NotAfter)}
}

// parse returns the first certificate of a chain in PEM, to which the key belongs. What it takes, Envoy takes.
func parse(chain, private []byte) (*x509.Certificate, error) {
	switch {
	case len(chain) == 0:
		return nil, fmt.Errorf("%w: %s is empty or missing", errUnusable, corev1.TLSCertKey)
	case len(private) == 0:
		return nil, fmt.Errorf("%w: %s is empty or missing", errUnusable, corev1.TLSPrivateKeyKey)
	case len(chain)+len(private) > maxBytes:
		return nil, fmt.Errorf("%w: %d bytes of certificates and key are more than %d", errUnusable, len(chain)+len(private), maxBytes)
	}
	pair, err := tls.X509KeyPair(chain, private)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnusable, err) // It tells what kind of thing is wrong, and nothing of the key.
	}
	for i, der := range pair.Certificate {
		if _, err := x509.ParseCertificate(der); err != nil {
			return nil, fmt.Errorf("%w: certificate %d of %s: %w", errUnusable, i+1, corev1.TLSCertKey, err)
		}
	}
	return pair.Leaf, checkKey(pair.PrivateKey)
}

// checkKey refuses keys that Envoy refuses (v1.40: ECDSA on three curves, and RSA; nothing else).
func checkKey(key any) error {
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		if curve := key.Curve; curve != elliptic.P256() && curve != elliptic.P384() && curve != elliptic.P521() {
			return fmt.Errorf("%w: the ECDSA key is on the curve %s; proxies take P-256, P-384 and P-521", errUnusable, curve.Params().Name)
		}
	case *rsa.PrivateKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("%w: the RSA key has %d bits; proxies take %d to %d", errUnusable, bits, minRSABits, maxRSABits)
		}
	default:
		return fmt.Errorf("%w: proxies take RSA and ECDSA keys, and this is another kind", errUnusable)
	}
	return nil
}

// covers says whether the certificate is for a host. For a wildcard it has to have the same one.
func (s *Secret) covers(host model.Host) bool {
	if host.IsExact() {
		return s.leaf.VerifyHostname(string(host)) == nil
	}
	return slices.Contains(s.leaf.DNSNames, string(host))
}

// expires is when the certificate ends, in UTC.
func (s *Secret) expires() time.Time { return s.leaf.NotAfter.UTC() }
