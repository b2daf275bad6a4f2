package envoyadmin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// ErrUnreachable means that the address of the admin interface is not known yet.
var ErrUnreachable = errors.New("the address of Envoy's admin interface is not known yet")

// usualTimeout is the time limit of one request on a machine of normal speed. Envoy responds within milliseconds, even
// with thousands of routes.
const usualTimeout = 2 * time.Second

// Client reads an admin interface. Use NewClient; the zero value is invalid.
type Client struct {
	address func() string
	http    *http.Client
}

// NewClient returns a client for the admin interface. The function returns its address (host and port) at the time of
// each request; an empty address means that there is none yet. Each request has the given time limit. The client
// connects with dial, or with a net.Dialer if dial is nil.
func NewClient(
	within time.Duration, dial func(ctx context.Context, network, address string) (net.Conn, error), address func() string,
) *Client {
	c := NewClientOver(&http.Transport{DialContext: dial}, address)
	c.http.Timeout = within
	return c
}

// NewClientOver is NewClient with another transport and the time limit for a machine of normal speed.
func NewClientOver(transport http.RoundTripper, address func() string) *Client {
	//testbounds:allow requests repeat until the caller gives up
	return &Client{address: address, http: &http.Client{Timeout: usualTimeout, Transport: transport}}
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Routes returns the routes to clusters with a name prefix.
func (c *Client) Routes(ctx context.Context, prefix string) ([]Route, error) {
	text, err := c.get(ctx, RoutesPath)
	if err != nil {
		return nil, err
	}
	return ParseRoutes(text, prefix)
}

// Counters returns the counters.
func (c *Client) Counters(ctx context.Context) (Counters, error) {
	text, err := c.get(ctx, StatsPath)
	if err != nil {
		return Counters{}, err
	}
	return ParseCounters(text)
}

// Dump returns the complete configuration as text.
func (c *Client) Dump(ctx context.Context) (string, error) {
	text, err := c.get(ctx, DumpPath)
	return string(text), err
}

func (c *Client) get(ctx context.Context, path string) ([]byte, error) {
	address := c.address()
	if address == "" {
		return nil, ErrUnreachable
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("build the request for Envoy's admin interface: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask Envoy's admin interface: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // read to its end, or failed
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read %s from Envoy's admin interface: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("envoy's admin interface answered %s with %s", path, response.Status)
	}
	return text, nil
}
