package model

import (
	"bytes"
	"log/slog"
	"time"
)

// Nameless stands for a host in a handshake in which the client names none. It is none that ParseHost returns, and none
// that a client can name.
const Nameless Host = "(none)"

// Certificate is what a host proves with who it is: a certificate with its chain, and the private key. Texts of it, in logs and
// elsewhere, name the Secret and nothing else.
type Certificate struct {
	// Secret is the Secret that it comes from.
	Secret Key
	// Chain are the certificates in PEM, the host's own first. Everybody who connects gets them.
	Chain []byte `json:"-"`
	// Expires is when the host's own one ends.
	Expires time.Time `json:"-"`

	// key is a function because the fmt package prints nothing of what one returns.
	key func() []byte
}

// NewCertificate returns a Certificate. privateKey is in PEM and belongs to the first of chain.
func NewCertificate(secret Key, chain, privateKey []byte, expires time.Time) *Certificate {
	return &Certificate{Secret: secret, Chain: chain, Expires: expires, key: func() []byte { return privateKey }}
}

// PrivateKey returns the key, in PEM. It is for the proxies of the fleet that serves the host, and for nobody else.
func (c *Certificate) PrivateKey() []byte { return c.key() }

// String names the Secret.
func (c *Certificate) String() string { return "certificate of Secret " + c.Secret.String() }

// GoString is String.
func (c *Certificate) GoString() string { return c.String() }

// MarshalText writes a Certificate as String does. It never fails.
func (c *Certificate) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// LogValue is String, for slog.
func (c *Certificate) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Equal says whether two Certificates, of which both may be nil, are the same in every part.
func (c *Certificate) Equal(other *Certificate) bool {
	if c == nil || other == nil {
		return c == other
	}
	return c.Secret == other.Secret && bytes.Equal(c.Chain, other.Chain) && bytes.Equal(c.key(), other.key())
}
