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

// NewServerCertificate returns the data of a Secret with a certificate of a DNS name, for servers and clients, and the
// new CA that signs it.
func NewServerCertificate(tb testing.TB, name string) map[string][]byte {
	tb.Helper()
	data, err := CreateServerCertificate(name)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// CreateServerCertificate is NewServerCertificate for programs that are no tests.
func CreateServerCertificate(name string) (map[string][]byte, error) {
	data := map[string][]byte{}
	encode := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{ // Its subject is not that of the CA. Otherwise it would not name the CA's key (RFC 5280).
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, DNSNames: []string{name},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	data["ca.crt"] = encode("CERTIFICATE", der)
	if authority, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if der, err = x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), authorityKey); err != nil {
		return nil, err
	}
	data[corev1.TLSCertKey] = encode("CERTIFICATE", der)
	if der, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		return nil, err
	}
	data[corev1.TLSPrivateKeyKey] = encode("PRIVATE KEY", der)
	return data, nil
}
