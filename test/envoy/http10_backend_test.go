package envoy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
)

// TestHTTP10ToEachProtocol: requests over HTTP/1.0, and requests whose upgrade is ignored, reach apps of each protocol,
// in clear text and over TLS, with a server name (SNI) and without one as older clients send none.
func TestHTTP10ToEachProtocol(t *testing.T) {
	t.Parallel()
	const host = "Host: shop.example.com"
	requests := [][]string{
		{"GET / HTTP/1.0", host},
		{"GET / HTTP/1.0", host, "Connection: keep-alive"},
		{"GET http://shop.example.com/ HTTP/1.0"},
		{"POST / HTTP/1.0", host, "Content-Length: 6\r\n\r\nab"}, // write adds four bytes
		{"GET / HTTP/1.0", host, "Connection: Upgrade", "Upgrade: TLS/1.2"},
		{"HEAD / HTTP/1.0", host},
		{"GET / HTTP/1.1", host, "Connection: Upgrade", "Upgrade: TLS/1.2"},
		{"GET / HTTP/1.1", host, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAA"},
	}
	for _, protocol := range appProtocols() {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			all := shopInputs(t, startBackendFor(t, "shop", protocol), protocol)
			r := startSecureReplica(t, all)
			for name, open := range map[string]func() *rawClient{
				"clear text":  func() *rawClient { return dial(t, r.address) },
				"TLS":         func() *rawClient { return dialTLS(t, r.tlsAddress(t), "shop.example.com") },
				"without SNI": func() *rawClient { return dialTLS(t, r.tlsAddress(t), "", "http/1.1") },
			} {
				proto, scheme := "HTTP/1.1", schemeOf(name != "clear text")
				if protocol == model.HTTP2 {
					proto = "HTTP/2.0"
				}
				for _, state := range states() {
					for i, got := range r.sendBy(t, state, all, requests, open) {
						var seen echoed
						_ = json.Unmarshal([]byte(got.body), &seen)
						isHead := strings.HasPrefix(requests[i][0], http.MethodHead)
						if got.status != http.StatusOK || !isHead && (seen.Backend != "shop" || seen.Proto != proto ||
							seen.Header.Get("X-Forwarded-Proto") != scheme || seen.Header.Get("Upgrade") != "") {
							t.Errorf("%s, %s, %q: %+v", name, state, requests[i], got)
						}
					}
				}
				got := open().send("GET /stream HTTP/1.0", host, "Connection: keep-alive")
				if got.body != strings.Repeat("chunk\n", 4) || got.err != nil {
					t.Errorf("%s, a response in parts: %+v", name, got)
				}
			}
		})
	}
}

// TestAppAnswersInHTTP10: clients of all protocols receive the responses of an app that answers in HTTP/1.0, as the
// http.server of Python does. The proxy uses no connection that the app closes.
func TestAppAnswersInHTTP10(t *testing.T) {
	t.Parallel()
	const host = "shop.example.com"
	app := startRawBackend(t, "shop", answerInHTTP10)
	resources := translated(t, newInputs(t, []*backend{app}, kit.NewScaledObject(namespace, "shop", "shop", 1, host)),
		translate.DefaultOptions())
	s := serve(t, "DELTA_GRPC", resources)
	s.await(t, resources)
	for path, want := range map[string]result{
		"/length": {status: http.StatusOK, body: "hello"},
		"/close":  {status: http.StatusOK, body: "hello"},
		"/kept":   {status: http.StatusOK, body: "hello"},
		"/empty":  {status: http.StatusNoContent},
		"/moved":  {status: http.StatusMovedPermanently, body: "moved"},
		"/failed": {status: http.StatusServiceUnavailable, body: "busy"},
	} {
		for _, protocol := range append(protocols(), "HTTP/1.0") {
			for range 10 {
				var got result
				if protocol == "HTTP/1.0" {
					got = dial(t, s.address).send("GET "+path+" HTTP/1.0", "Host: "+host)
				} else {
					got = s.send(t.Context(), protocol, host, path, nil, nil)
				}
				if got.status != want.status || got.body != want.body || got.err != nil ||
					got.header.Get(translate.ReasonHeader) != "" {
					t.Errorf("%s over %s: %+v", path, protocol, got)
				}
			}
		}
	}
	for _, protocol := range protocols() {
		got := s.send(t.Context(), protocol, host, "/length", nil, strings.NewReader(strings.Repeat("x", 1<<20)))
		if got.status != http.StatusOK || got.body != "hello" {
			t.Errorf("an upload over %s: %+v", protocol, got)
		}
	}
}

// answerInHTTP10 serves the requests of a connection. It closes the connection after the response, except for /kept.
func answerInHTTP10(connection net.Conn) {
	reader := bufio.NewReader(connection)
	for {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return
		}
		answer := map[string]string{
			"/close":  "200 OK\r\n\r\nhello",
			"/empty":  "204 No Content\r\n\r\n",
			"/moved":  "301 Moved Permanently\r\nLocation: /length\r\nContent-Length: 5\r\n\r\nmoved",
			"/failed": "503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy",
			"/kept":   "200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
			"/length": "200 OK\r\nServer: SimpleHTTP/0.6 Python/3.13\r\nContent-Length: 5\r\n\r\nhello",
		}[request.URL.Path]
		if _, err := fmt.Fprint(connection, "HTTP/1.0 "+answer); err != nil || request.URL.Path != "/kept" {
			return
		}
	}
}
