package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
)

// arrivalLimit bounds the propagation of a weight.
const arrivalLimit = 10 * time.Second

// poller sends requests for one host to a proxy, over one connection, in a loop.
type poller struct {
	client *http.Client
	url    string
	host   string
	limit  time.Duration // of until
}

// newPoller returns a poller of the proxy at an address.
func newPoller(at netip.AddrPort, host string) poller {
	return poller{
		client: &http.Client{
			Timeout:   arrivalLimit,
			Transport: &http.Transport{MaxIdleConnsPerHost: 1, MaxConnsPerHost: 1, DisableCompression: true},
		},
		url: fmt.Sprintf("http://%s/", at), host: host, limit: arrivalLimit,
	}
}

// until polls until an answer comes from the wanted side, and returns the time of that answer.
func (p poller) until(ctx context.Context, want string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	for {
		got, err := p.ask(ctx)
		switch {
		case err != nil:
			return time.Time{}, fmt.Errorf("waiting for a response of %s: %w", want, err)
		case got == want:
			return time.Now(), nil
		}
	}
}

// ask returns the side of an answer.
func (p poller) ask(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, http.NoBody)
	if err != nil {
		return "", err
	}
	request.Host = p.host
	response, err := p.client.Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%w: %s %s", errNotReady, response.Status, body)
	}
	return string(body), err
}

// startPods starts two web servers that answer with their side, at an address that an EndpointSlice may contain.
func (s *environment) startPods(ctx context.Context) error {
	address := netspace.Address().String()
	s.at = map[string]endpoint{}
	for _, side := range sides() {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			return err
		}
		server := &http.Server{
			ReadHeaderTimeout: arrivalLimit,
			Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, side) }),
		}
		go func() { _ = server.Serve(listener) }() // It ends with stop. A failure shows as a response that never comes.
		s.ends = append(s.ends, server.Close)
		at, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return fmt.Errorf("the listener has the address %v", listener.Addr())
		}
		s.at[side] = endpoint{address, int32(at.Port)} //nolint:gosec // a port
	}
	return nil
}
