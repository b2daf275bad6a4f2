package envoy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// startTwoProtocols starts apps http1.example.com and http2.example.com for the protocols of their names.
func startTwoProtocols(t *testing.T) *served {
	t.Helper()
	inputs := newInputs(t, []*backend{startBackend(t, "http1"), startBackend(t, "http2")},
		kit.NewScaledObject(namespace, "http1", "http1", 1, "http1.example.com"),
		kit.NewScaledObject(namespace, "http2", "http2", 2, "http2.example.com"))
	inputs.Services[1].Ports[0].Protocol = model.HTTP2
	resources := translated(t, inputs, translate.DefaultOptions())
	s := serve(t, "DELTA_GRPC", resources)
	s.await(t, resources)
	return s
}

// hostsOfProtocols returns the hosts of startTwoProtocols.
func hostsOfProtocols() []string { return []string{"http1.example.com", "http2.example.com"} }

// manyFields returns a header with fields of a size.
func manyFields(count, size int) http.Header {
	header := http.Header{}
	for i := range count {
		header.Set(fmt.Sprintf("X-Large-%d", i), strings.Repeat("x", size))
	}
	return header
}

// TestLargeHeaders sends requests and responses with headers that a Go server or an Ingress controller accepts, between
// clients and apps of both protocols.
func TestLargeHeaders(t *testing.T) {
	t.Parallel()
	s := startTwoProtocols(t)
	for _, fields := range []struct{ count, size int }{
		{1, 8 << 10},
		{4, 8 << 10},
		{1, 64 << 10},
		{1, 250 << 10},
		{4, 250 << 10},
		{100, 10 << 10},
		{101, 10},
		{1001, 1},
		{1500, 60},
		{1900, 100},
		{1900, 500},
	} {
		for _, host := range hostsOfProtocols() {
			for _, protocol := range protocols() {
				name := fmt.Sprintf("%d fields of %d bytes over %s to %s", fields.count, fields.size, protocol, host)
				got := s.send(t.Context(), protocol, host, "/", manyFields(fields.count, fields.size), nil)
				var seen echoed
				if err := json.Unmarshal([]byte(got.body), &seen); err != nil ||
					len(seen.Header.Get("X-Large-0")) != fields.size || len(seen.Header) < fields.count {
					t.Errorf("request with %s: %d, %v, %.100q", name, got.status, got.err, got.body)
				}
				got = s.send(t.Context(), protocol, host,
					fmt.Sprintf("/headers?count=%d&size=%d", fields.count, fields.size), nil, nil)
				if got.status != http.StatusOK || len(got.header.Get("X-Large-0")) != fields.size ||
					len(got.header) < fields.count {
					t.Errorf("response with %s: %d, %v, %.100q", name, got.status, got.err, got.body)
				}
			}
		}
	}
}

// TestOneLargeField: over HTTP/1.1 one field may have the whole size. Over HTTP/2 Envoy limits a field to 256 KiB.
func TestOneLargeField(t *testing.T) {
	t.Parallel()
	s := startTwoProtocols(t)
	const size = 1000 << 10
	for _, host := range hostsOfProtocols() {
		if got := s.send(t.Context(), "HTTP/1.1", host, "/", manyFields(1, size), nil); got.backend() == "" {
			t.Errorf("request for %s: %d, %v, %.100q", host, got.status, got.err, got.body)
		}
	}
	for _, protocol := range protocols() {
		got := s.send(t.Context(), protocol, "http1.example.com", fmt.Sprintf("/headers?count=1&size=%d", size), nil, nil)
		if got.status != http.StatusOK || len(got.header.Get("X-Large-0")) != size {
			t.Errorf("response over %s: %d, %v, %.100q", protocol, got.status, got.err, got.body)
		}
	}
}

// TestTooLargeHeaders: memory is bounded. The next request is served.
func TestTooLargeHeaders(t *testing.T) {
	t.Parallel()
	s := startTwoProtocols(t)
	for _, fields := range []struct{ count, size int }{{11, 100 << 10}, {2100, 10}} {
		for _, host := range hostsOfProtocols() {
			name := fmt.Sprintf("%d fields of %d bytes for %s", fields.count, fields.size, host)
			got := s.send(t.Context(), "HTTP/1.1", host, "/", manyFields(fields.count, fields.size), nil)
			if got.status != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("request with %s: %d, %v", name, got.status, got.err)
			}
			got = s.send(t.Context(), "HTTP/2", host, "/", manyFields(fields.count, fields.size), nil)
			if got.backend() != "" {
				t.Errorf("request over HTTP/2 with %s: %d", name, got.status)
			}
			got = s.send(t.Context(), "HTTP/1.1", host,
				fmt.Sprintf("/headers?count=%d&size=%d", fields.count, fields.size), nil, nil)
			if got.status < http.StatusInternalServerError {
				t.Errorf("response with %s: %d, %v", name, got.status, got.err)
			}
			if got := s.send(t.Context(), "HTTP/1.1", host, "/", nil, nil); got.backend() == "" {
				t.Errorf("after %s: %+v", name, got)
			}
		}
	}
}

// TestLargeHeadersInTheQueue: a request at the limit passes the fallback listener, although it has more headers there.
func TestLargeHeadersInTheQueue(t *testing.T) {
	all := hostInputs(t)
	for _, state := range states() {
		t.Run(state, func(t *testing.T) {
			r := startWithReplica(t, "DELTA_GRPC", all)
			lines := [][]string{{"GET / HTTP/1.1", "Host: shop.example.com"}, {"GET / HTTP/1.1", "Host: shop.example.com"}}
			for i := range 1990 {
				lines[0] = append(lines[0], fmt.Sprintf("X-Large-%d: 1", i))
			}
			lines[1] = append(lines[1], "X-Large-0: "+strings.Repeat("x", 1<<20-100))
			for i, got := range r.sendIn(t, state, all, lines) {
				if got.backend() != "shop" {
					t.Errorf("request %d: %d, %v, %.100q", i, got.status, got.err, got.body)
				}
			}
		})
	}
}

// TestHeaderNames: the app receives and sends headers with any name that is a token (RFC 9110, section 5.6.2).
func TestHeaderNames(t *testing.T) {
	t.Parallel()
	s := startTwoProtocols(t)
	names := []string{
		"x_under_score", "X-Mixed_Name", "_leading", "trailing_", "x.dotted.name", "x!#$%&'*+^`|~", "1-digit",
		"x-" + strings.Repeat("long_", 100),
	}
	for _, host := range hostsOfProtocols() {
		for _, protocol := range protocols() {
			got := s.sendRequest(t, protocol, host, func(request *http.Request) {
				for _, name := range names {
					request.Header[name] = []string{"1"}
				}
			})
			var seen echoed
			if err := json.Unmarshal([]byte(got.body), &seen); err != nil {
				t.Errorf("%s to %s: %+v", protocol, host, got)
			}
			for _, name := range names {
				if seen.Header.Get(name) != "1" {
					t.Errorf("%s to %s: the app did not see %q", protocol, host, name)
				}
			}
		}
	}
}

// TestCustomMethods: the app decides about methods.
func TestCustomMethods(t *testing.T) {
	t.Parallel()
	s := startTwoProtocols(t)
	for _, method := range []string{"FOO", "M-SEARCH", "PROPFIND", "REPORT", "QUERY", "BAN", "PATCH", "TRACE", "OPTIONS", "DELETE", "x-own_method"} {
		for _, host := range hostsOfProtocols() {
			for _, protocol := range protocols() {
				got := s.sendMethod(t, protocol, method, host)
				var seen echoed
				if err := json.Unmarshal([]byte(got.body), &seen); err != nil || seen.Method != method {
					t.Errorf("%s over %s to %s: %+v", method, protocol, host, got)
				}
			}
		}
	}
}

// sendMethod sends a request without a body.
func (s *served) sendMethod(t *testing.T, protocol, method, host string) result {
	t.Helper()
	return s.sendRequest(t, protocol, host, func(request *http.Request) {
		request.Method = method
		request.Header.Set("Content-Type", "text/plain") // QUERY requires it
	})
}

// sendRequest sends a GET request for / after a change.
func (s *served) sendRequest(t *testing.T, protocol, host string, change func(*http.Request)) result {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
	transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2")
	connection, err := transport.NewClientConn(t.Context(), "http", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	request, err := http.NewRequestWithContext(await.Context(t), http.MethodGet, "http://"+s.address+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	change(request)
	return roundTrip(request, connection)
}

// TestTrailers: trailers reach the app and the client, with each protocol on both sides.
func TestTrailers(t *testing.T) {
	t.Parallel()
	s := startTwoProtocols(t)
	for _, host := range hostsOfProtocols() {
		for _, protocol := range protocols() {
			got := s.sendRequest(t, protocol, host, func(request *http.Request) {
				request.Method, request.URL.Path = http.MethodPost, "/trailers"
				request.Body, request.ContentLength = io.NopCloser(strings.NewReader("text")), -1
				request.Trailer = http.Header{"X-Sum": {"abc"}}
			})
			if got.body != "text" || got.trailer.Get("X-Sum") != "abc" {
				t.Errorf("%s to %s: %+v", protocol, host, got)
			}
		}
	}
}
