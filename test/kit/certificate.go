package kit

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NewTLSSecret returns a Secret of type kubernetes.io/tls with a self-signed certificate for hosts, with the given
// serial number.
func NewTLSSecret(tb testing.TB, namespace, name string, serial int64, hosts ...string) *corev1.Secret {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return NewTLSSecretWithKey(tb, namespace, name, serial, key, hosts...)
}

// NewTLSSecretWithKey is NewTLSSecret with a key of any kind.
func NewTLSSecretWithKey(
	tb testing.TB, namespace, name string, serial int64, key crypto.Signer, hosts ...string,
) *corev1.Secret {
	tb.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: hosts, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Type:       corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
			corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		},
	}
}
