package model

import (
	"bytes"
	"log/slog"
	"time"
)

// NoServerName is the Host of a TLS handshake without a server name (SNI). ParseHost never returns it, and no client
// can send it.
const NoServerName Host = "(none)"

// Certificate is the TLS certificate of a host: a chain and the private key. Its text, in logs and elsewhere, is only
// the name of the Secret.
type Certificate struct {
	// Secret is the Secret that contains it.
	Secret Key
	// Chain is the certificate chain in PEM, the leaf first. It is public.
	Chain []byte `json:"-"`
	// Expires is when the leaf certificate expires.
	Expires time.Time `json:"-"`

	// key is a function because package fmt does not print the results of functions.
	key func() []byte
}

// NewCertificate returns a Certificate. privateKey is in PEM and belongs to the first certificate of chain.
func NewCertificate(secret Key, chain, privateKey []byte, expires time.Time) *Certificate {
	return &Certificate{Secret: secret, Chain: chain, Expires: expires, key: func() []byte { return privateKey }}
}

// PrivateKey returns the key in PEM. It must be sent only to proxies of the fleet that serves the host.
func (c *Certificate) PrivateKey() []byte { return c.key() }

// String returns a text with the name of the Secret.
func (c *Certificate) String() string { return "certificate of Secret " + c.Secret.String() }

// GoString returns String.
func (c *Certificate) GoString() string { return c.String() }

// MarshalText returns String. It never fails.
func (c *Certificate) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// LogValue returns String, for slog.
func (c *Certificate) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Equal reports whether two Certificates, either of which may be nil, are equal.
func (c *Certificate) Equal(other *Certificate) bool {
	if c == nil || other == nil {
		return c == other
	}
	return c.Secret == other.Secret && bytes.Equal(c.Chain, other.Chain) && bytes.Equal(c.key(), other.key())
}
