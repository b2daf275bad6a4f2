package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// freshFor is how long a DNS answer is cached. A Service that is deleted and created again gets another address.
	freshFor = time.Second
	// lookupTimeout bounds a DNS query.
	lookupTimeout = 2 * time.Second
)

// Lookup returns the addresses of a host, as net.Resolver.LookupHost does.
type Lookup func(ctx context.Context, host string) ([]string, error)

// Target is a host and port. Its address is looked up once in a while, not for each connection: a lost query delays a
// connection and does not fail it.
type Target struct {
	host, port string
	lookup     Lookup
	now        func() time.Time

	mu      sync.Mutex
	address string
	found   time.Time
}

// NewTarget returns the target of a "host:port".
func NewTarget(hostPort string, lookup Lookup) (*Target, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, fmt.Errorf("forward target: %w", err)
	}
	return &Target{host: host, port: port, lookup: lookup, now: time.Now}, nil
}

// Dial connects to the target.
func (t *Target) Dial(ctx context.Context) (net.Conn, error) {
	address, err := t.resolve(ctx)
	if err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(address, t.port))
}

// resolve returns the cached address, if that is fresh or if the lookup fails. A host that the DNS does not know has
// none.
func (t *Target) resolve(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.address != "" && t.now().Sub(t.found) < freshFor {
		return t.address, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := t.lookup(ctx, t.host)
	var unknown *net.DNSError
	switch {
	case err == nil && len(found) > 0:
		t.address = found[0]
	case t.address == "" || errors.As(err, &unknown) && unknown.IsNotFound:
		t.address = ""
		return "", fmt.Errorf("look up %s: %w", t.host, err)
	}
	t.found = t.now()
	return t.address, nil
}
