package envoy_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// tooLargeField is the size of a field above Envoy's limit for HTTP/2, also if each byte is compressed to five bits.
const tooLargeField = 600 << 10

// TestTooLargeFieldEndsTheConnection: a request over HTTP/2 with a field above Envoy's limit ends the connection of the
// client, with the other requests on it. Other connections and the app's own are not affected.
func TestTooLargeFieldEndsTheConnection(t *testing.T) {
	t.Parallel()
	for _, host := range hostsOfProtocols() {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			s := startTwoProtocols(t)
			shared, other := s.newConnection(t), s.newConnection(t)
			onShared, onOther := s.beginOn(t, shared, host, "/silent", nil), s.beginOn(t, other, host, "/silent", nil)
			await.True(t, "both requests are active", func() bool {
				return s.stat(t, "http.kedify-proxy.downstream_rq_active") == 2
			})
			got := <-s.beginOn(t, shared, host, "/", manyFields(1, tooLargeField))
			if got.err == nil {
				t.Errorf("a field of %d bytes: %d", tooLargeField, got.status)
			}
			t.Logf("the request with the field: %v", got.err)
			got = <-onShared
			if got.err == nil {
				t.Errorf("a request on the same connection: %d", got.status)
			}
			t.Logf("a request on the same connection: %v", got.err)
			if got := <-s.beginOn(t, other, host, "/", nil); got.backend() == "" {
				t.Errorf("a request on another connection: %+v", got)
			}
			if len(onOther) > 0 {
				t.Errorf("the request that was active on another connection: %+v", <-onOther)
			}
			if got := s.send(t.Context(), "HTTP/2", host, "/", nil, nil); got.backend() == "" {
				t.Errorf("the next request: %+v", got)
			}
		})
	}
}

// TestTooLargeFieldOfAnApp: a response over HTTP/2 with a field above Envoy's limit becomes an error, and ends the
// proxy's connection to the app, with the other requests on it. The next request is served.
func TestTooLargeFieldOfAnApp(t *testing.T) {
	t.Parallel()
	s := startTwoProtocols(t)
	const host = "http2.example.com"
	for _, protocol := range protocols() {
		got := s.send(t.Context(), protocol, host, fmt.Sprintf("/headers?count=1&size=%d", tooLargeField), nil, nil)
		if !isReset(got) {
			t.Errorf("over %s: %d %v, %v", protocol, got.status, got.header, got.err)
		}
		if got := s.send(t.Context(), protocol, host, "/", nil, nil); got.backend() != "http2" {
			t.Errorf("the next request over %s: %+v", protocol, got)
		}
	}
	client := s.newConnection(t) // All requests of a connection have the same worker, and the same connection to the app.
	active := s.beginOn(t, client, host, "/silent", nil)
	await.True(t, "a request is active", func() bool {
		return s.stat(t, "cluster.apps/http2/http2.upstream_rq_active") == 1
	})
	large := <-s.beginOn(t, client, host, fmt.Sprintf("/headers?count=1&size=%d", tooLargeField), nil)
	if other := <-active; !isReset(large) || !isReset(other) {
		t.Errorf("%d %v, %v; the other request: %d %v, %v", large.status, large.header, large.err, other.status,
			other.header, other.err)
	}
}

// isReset reports whether a response is that of the proxy for a violation of HTTP/2 by the app.
func isReset(got result) bool {
	return got.status == http.StatusBadGateway && got.header.Get(translate.ReasonHeader) == translate.ReasonReset
}

// newConnection opens a connection of a client for several requests over HTTP/2.
func (s *served) newConnection(t *testing.T) *http.ClientConn {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	connection, err := transport.NewClientConn(t.Context(), "http", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// beginOn sends a GET request on a connection, and returns a channel with its result.
func (s *served) beginOn(
	t *testing.T, connection *http.ClientConn, host, path string, header http.Header,
) <-chan result {
	t.Helper()
	request, err := http.NewRequestWithContext(await.Context(t), http.MethodGet, "http://"+s.address+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	if header != nil {
		request.Header = header
	}
	answer := make(chan result, 1)
	go func() { answer <- roundTrip(request, connection) }()
	return answer
}
