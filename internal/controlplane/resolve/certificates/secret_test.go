package certificates_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/certificates"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// withValue returns a Secret with one value changed; nil removes it.
func withValue(secret *corev1.Secret, key string, value []byte) *corev1.Secret {
	changed := secret.DeepCopy()
	if changed.Data[key] = value; value == nil {
		delete(changed.Data, key)
	}
	return changed
}

func TestParse(t *testing.T) {
	t.Parallel()
	signer := func(key crypto.Signer, err error) crypto.Signer {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	made := func(key crypto.Signer) *corev1.Secret {
		return kit.NewTLSSecretWithKey(t, "apps", "tls", 1, key, host)
	}
	valid, other := kit.NewTLSSecret(t, "apps", "tls", 1, host), kit.NewTLSSecret(t, "apps", "tls", 2, host)
	for name, c := range map[string]struct {
		secret *corev1.Secret
		wrong  string // "" for a valid Secret
	}{
		"an ECDSA key": {secret: valid},
		"an RSA key":   {secret: made(long)},
		"any type":     {secret: &corev1.Secret{Data: valid.Data, Type: corev1.SecretTypeOpaque}},
		"a chain": {secret: withValue(valid, corev1.TLSCertKey,
			slices.Concat(valid.Data[corev1.TLSCertKey], other.Data[corev1.TLSCertKey]))},
		"no certificate": {withValue(valid, corev1.TLSCertKey, nil), "tls.crt is empty or missing"},
		"no key":         {withValue(valid, corev1.TLSPrivateKeyKey, []byte{}), "tls.key is empty or missing"},
		"no PEM": {
			withValue(valid, corev1.TLSCertKey, []byte("x")),
			"failed to find any PEM data in certificate input",
		},
		"another key": {
			withValue(valid, corev1.TLSPrivateKeyKey, other.Data[corev1.TLSPrivateKeyKey]),
			"private key does not match public key",
		},
		"a broken chain": {
			withValue(valid, corev1.TLSCertKey,
				append(slices.Clone(valid.Data[corev1.TLSCertKey]),
					"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...)),
			"certificate 2 of tls.crt",
		},
		"too many bytes": {
			withValue(valid, corev1.TLSCertKey, bytes.Repeat(valid.Data[corev1.TLSCertKey], 200)),
			"exceed the limit of 65536",
		},
		"a short RSA key":   {made(short), "the RSA key has 1024 bits: Envoy accepts 2048 to 8192"},
		"an unusual curve":  {made(p224), "the ECDSA key uses curve P-224"},
		"another algorithm": {made(signer(edwards, err)), "Envoy accepts RSA and ECDSA keys"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := certificates.Parse(c.secret)
			if (read.Certificate != nil) != (c.wrong == "") || !strings.Contains(read.Invalid, c.wrong) ||
				read.Unreadable != "" {
				t.Errorf("Read: certificate %v, wrong %q, want %q", read.Certificate, read.Invalid, c.wrong)
			}
			if c.wrong != "" && !strings.Contains(read.Invalid, "kubectl create secret tls") {
				t.Errorf("there is no fix in %q", read.Invalid)
			}
			if key := c.secret.Data[corev1.TLSPrivateKeyKey]; len(key) > 0 && strings.Contains(read.Invalid, string(key)) {
				t.Error("the message contains the private key")
			}
		})
	}
}
