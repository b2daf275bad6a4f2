package envoy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// rawClient is a connection on which a test writes requests byte by byte, as net/http cannot.
type rawClient struct {
	net.Conn

	reader *bufio.Reader
}

// contextDialer is a net.Dialer or a tls.Dialer.
type contextDialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// dial opens a connection. Its reads and writes fail after await.Patience.
func dial(t *testing.T, address string) *rawClient {
	t.Helper()
	return dialBy(t, new(net.Dialer), address)
}

// dialTLS is dial over TLS, with name as SNI, or none if name is empty, and with the protocols of the client (ALPN).
func dialTLS(t *testing.T, address, name string, protocols ...string) *rawClient {
	t.Helper()
	return dialBy(t, &tls.Dialer{Config: &tls.Config{
		ServerName: name, NextProtos: protocols, InsecureSkipVerify: true,
	}}, address)
}

// dialBy opens a connection by a dialer.
func dialBy(t *testing.T, dialer contextDialer, address string) *rawClient {
	t.Helper()
	connection, err := dialer.DialContext(await.Context(t), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	if err := connection.SetDeadline(time.Now().Add(await.Patience())); err != nil {
		t.Fatal(err)
	}
	return &rawClient{connection, bufio.NewReader(connection)}
}

// write writes a request with lines instead of the request line and the header.
func (c *rawClient) write(lines ...string) error {
	_, err := io.WriteString(c, strings.Join(lines, "\r\n")+"\r\n\r\n")
	return err
}

// read reads the response to a request with a method. Header Connection reports whether the connection ends with it.
func (c *rawClient) read(method string) result {
	response, err := http.ReadResponse(c.reader, &http.Request{Method: method})
	if err != nil {
		return result{err: err}
	}
	defer response.Body.Close()
	if response.Close {
		response.Header.Set("Connection", "close")
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		return result{status: response.StatusCode, header: response.Header}
	}
	text, err := io.ReadAll(response.Body)
	return result{response.StatusCode, response.Header, string(text), response.Trailer, err}
}

// send writes a request and reads its response.
func (c *rawClient) send(lines ...string) result {
	if err := c.write(lines...); err != nil {
		return result{err: err}
	}
	method, _, _ := strings.Cut(lines[0], " ")
	return c.read(method)
}

// states returns the states of an app in which a request reaches it on different ways: directly, from the queue, and
// from the queue of the fallback listener.
func states() []string { return []string{"ready", "at zero", "via fallback"} }

// enter brings app shop, which is ready, into one of the states.
func (r *replica) enter(t *testing.T, state string, all resolve.Inputs) {
	t.Helper()
	switch state {
	case "at zero":
		r.await(t, r.publishInputs(t, without(all, "shop")))
	case "via fallback":
		r.lag(t, all, "shop")
	}
}

// sendIn sends requests on connections of their own while app shop is in one of the states, and then makes it ready.
func (r *replica) sendIn(t *testing.T, state string, all resolve.Inputs, requests [][]string) []result {
	t.Helper()
	return r.sendBy(t, state, all, requests, func() *rawClient { return dial(t, r.address) })
}

// sendBy is sendIn with connections that a function opens.
func (r *replica) sendBy(
	t *testing.T, state string, all resolve.Inputs, requests [][]string, open func() *rawClient,
) []result {
	t.Helper()
	senders := make([]func() result, len(requests))
	for i, lines := range requests {
		client := open()
		senders[i] = func() result { return client.send(lines...) }
	}
	return r.sendAll(t, state, all, senders)
}

// sendAll is sendIn with functions that send one request each.
func (r *replica) sendAll(t *testing.T, state string, all resolve.Inputs, senders []func() result) []result {
	t.Helper()
	r.enter(t, state, all)
	results := make([]chan result, len(senders))
	for i, send := range senders {
		results[i] = make(chan result, 1)
		go func() { results[i] <- send() }()
	}
	if state != "ready" {
		early := 0
		await.True(t, "each request is queued or answered", func() bool {
			early = 0
			for _, answer := range results {
				early += len(answer)
			}
			return early+r.queued("shop").Waiting == len(senders)
		})
		r.await(t, r.publishInputs(t, all))
	}
	answers := make([]result, len(senders))
	for i := range results {
		answers[i] = <-results[i]
	}
	return answers
}
