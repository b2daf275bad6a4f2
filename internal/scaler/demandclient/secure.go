package demandclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
)

// errNoCA means that the CAs of the interceptor are not known yet.
var errNoCA = errors.New("there is no certificate of the interceptor's CA yet: the agent publishes it")

// Security is how a Reader connects to replicas: by TLS, with a token. Set its fields before the first connection. SetCA
// is safe for concurrent use.
type Security struct {
	// Name is the DNS name in the interceptor's certificate.
	Name string
	// TokenFile is the file with the token, which is read for each connection.
	TokenFile string

	roots atomic.Pointer[x509.CertPool]
}

// SetCA sets the CAs in PEM that sign the interceptor's certificate, for new connections. A text without one changes
// nothing.
func (s *Security) SetCA(text string) {
	if roots := x509.NewCertPool(); roots.AppendCertsFromPEM([]byte(text)) {
		s.roots.Store(roots)
	}
}

// dial connects to a replica.
func (s *Security) dial(ctx context.Context, network, address string) (net.Conn, error) {
	roots := s.roots.Load()
	if roots == nil {
		return nil, errNoCA
	}
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: s.Name, MinVersion: tls.VersionTLS13}}
	return dialer.DialContext(ctx, network, address)
}

// authorize adds the token to a request.
func (s *Security) authorize(request *http.Request) error {
	token, err := os.ReadFile(s.TokenFile)
	if err != nil {
		return fmt.Errorf("read the token for the interceptor: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return nil
}
