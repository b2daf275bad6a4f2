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
	// minRSABits is the minimum length of an RSA key that Envoy accepts, and maxRSABits the maximum that clients with
	// Go's crypto/tls accept.
	minRSABits, maxRSABits = 2048, 8192
	// maxBytes is the maximum size of certificates and key together. A chain of four with RSA keys has 10 kB, and
	// every proxy stores one for each name.
	maxBytes = 64 << 10
)

// errUnusable is wrapped by every error of parse.
var errUnusable = errors.New("unusable certificate")

// Secret contains the fields of a Kubernetes Secret that are read.
type Secret struct {
	// Certificate is the certificate with its key, nil if it is invalid.
	Certificate *model.Certificate
	// leaf is the first certificate of the chain, which contains the host names.
	leaf *x509.Certificate
	// Invalid is why Certificate is nil, and the fix. It is "" if the Secret does not exist.
	Invalid string
	// Unreadable is why the Secret is unknown, and the fix. It is "" after a successful read, even if the Secret does
	// not exist.
	Unreadable string
}

// Equal reports whether two Secrets are equal.
func (s *Secret) Equal(other *Secret) bool {
	return s.Invalid == other.Invalid && s.Unreadable == other.Unreadable && s.Certificate.Equal(other.Certificate)
}

// Parse parses a Secret. The result refers only to copies of the certificates and the key.
func Parse(source *corev1.Secret) *Secret {
	key := model.Key{Namespace: source.Namespace, Name: source.Name}
	chain, private := source.Data[corev1.TLSCertKey], source.Data[corev1.TLSPrivateKeyKey]
	leaf, err := parse(chain, private)
	if err != nil {
		return &Secret{Invalid: fmt.Sprintf("%v: put the certificate with its chain into %s and its private key into %s, "+
			"both in PEM, as `kubectl create secret tls` does",
			err, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)}
	}
	return &Secret{
		leaf:        leaf,
		Certificate: model.NewCertificate(key, slices.Clone(chain), slices.Clone(private), leaf.NotAfter),
	}
}

// parse returns the first certificate of a PEM chain, which must match the key. Envoy accepts everything that parse
// accepts.
func parse(chain, private []byte) (*x509.Certificate, error) {
	switch {
	case len(chain) == 0:
		return nil, fmt.Errorf("%w: %s is empty or missing", errUnusable, corev1.TLSCertKey)
	case len(private) == 0:
		return nil, fmt.Errorf("%w: %s is empty or missing", errUnusable, corev1.TLSPrivateKeyKey)
	case len(chain)+len(private) > maxBytes:
		return nil, fmt.Errorf("%w: %d bytes of certificates and key exceed the limit of %d", errUnusable,
			len(chain)+len(private), maxBytes)
	}
	pair, err := tls.X509KeyPair(chain, private)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnusable, err) // The error contains nothing of the key.
	}
	for i, der := range pair.Certificate {
		if _, err := x509.ParseCertificate(der); err != nil {
			return nil, fmt.Errorf("%w: certificate %d of %s: %w", errUnusable, i+1, corev1.TLSCertKey, err)
		}
	}
	return pair.Leaf, checkKey(pair.PrivateKey)
}

// checkKey returns an error for a key that Envoy rejects. Envoy 1.40 accepts RSA and ECDSA on three curves.
func checkKey(key any) error {
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		if curve := key.Curve; curve != elliptic.P256() && curve != elliptic.P384() && curve != elliptic.P521() {
			return fmt.Errorf("%w: the ECDSA key uses curve %s: Envoy accepts P-256, P-384 and P-521", errUnusable,
				curve.Params().Name)
		}
	case *rsa.PrivateKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("%w: the RSA key has %d bits: Envoy accepts %d to %d", errUnusable, bits, minRSABits, maxRSABits)
		}
	default:
		return fmt.Errorf("%w: unsupported key type: Envoy accepts RSA and ECDSA keys", errUnusable)
	}
	return nil
}

// covers reports whether the certificate is valid for a host. For a wildcard host it must contain the same wildcard.
func (s *Secret) covers(host model.Host) bool {
	if host.IsExact() {
		return s.leaf.VerifyHostname(string(host)) == nil
	}
	return slices.Contains(s.leaf.DNSNames, string(host))
}

// expires returns the end of the certificate in UTC.
func (s *Secret) expires() time.Time { return s.leaf.NotAfter.UTC() }
