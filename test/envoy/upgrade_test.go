package envoy_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"
)

// TestOtherUpgradesAreIgnored: a request that offers an upgrade is answered as if it had none, except for a WebSocket.
func TestOtherUpgradesAreIgnored(t *testing.T) {
	t.Parallel()
	const request = "GET / HTTP/1.1\r\nHost: shop.example.com"
	ignored := [][]string{
		{request, "Connection: Upgrade", "Upgrade: TLS/1.2"},             // Apache HttpClient 5.4
		{request, "Connection: Upgrade, keep-alive", "Upgrade: TLS/1.2"}, // and as it sends it
		{request, "CONNECTION: keep-alive, UPGRADE", "UPGRADE: tls/1.2"},
		{request, "Connection: Upgrade", "Upgrade: foo/1"},
		{request, "Connection: Upgrade", "Upgrade: TLS/1.2,foo/1 , bar"},
		{request, "Connection: Upgrade", "Upgrade: TLS/1.2", "Upgrade: foo/1"},
		{request, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"},
		{request, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c, foo/1", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"},
		{request, "Connection: Upgrade", "Upgrade: websockets"},
		{request, "Connection: Upgrade", "Upgrade: web"},
		{request, "Connection: Upgrade", "Upgrade: websocket/13"},
		{"POST / HTTP/1.1\r\nHost: shop.example.com", "Connection: Upgrade", "Upgrade: TLS/1.2", "Content-Length: 0"},
		{"GET /offer HTTP/1.1\r\nHost: shop.example.com", "Connection: Upgrade", "Upgrade: TLS/1.2"},
		{"GET /offer HTTP/1.1\r\nHost: shop.example.com"},
		{"GET / HTTP/1.1\r\nHost: SHOP.example.com.:80", "Connection: Upgrade", "Upgrade: TLS/1.2"},
	}
	for _, state := range states() {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			all := hostInputs(t)
			r := startWithReplica(t, "DELTA_GRPC", all)
			for i, got := range r.sendIn(t, state, all, ignored) {
				var seen echoed
				_ = json.Unmarshal([]byte(got.body), &seen)
				if got.backend() != "shop" || got.header.Get("Connection") == "close" || got.header.Get("Upgrade") != "" ||
					seen.Header.Get("Upgrade") != "" || seen.Header.Get("Connection") != "" {
					t.Errorf("%q: %+v", ignored[i], got)
				}
			}
		})
	}
}

// TestConnectionSurvivesAnIgnoredUpgrade sends several requests with an upgrade on one connection.
func TestConnectionSurvivesAnIgnoredUpgrade(t *testing.T) {
	t.Parallel()
	r := startWithReplica(t, "DELTA_GRPC", hostInputs(t))
	client := dial(t, r.address)
	for range 3 {
		got := client.send("GET / HTTP/1.1", "Host: shop.example.com", "Connection: Upgrade", "Upgrade: TLS/1.2")
		if got.backend() != "shop" {
			t.Fatalf("%+v", got)
		}
	}
}

// TestWebSocketUpgrades: a WebSocket is opened in any letter case, and in a list with other protocols.
func TestWebSocketUpgrades(t *testing.T) {
	t.Parallel()
	const request, connection = "GET /websocket HTTP/1.1\r\nHost: shop.example.com", "Connection: keep-alive, Upgrade"
	upgrades := [][]string{
		{request, connection, "Upgrade: websocket"},
		{request, connection, "Upgrade: WebSocket"},
		{request, connection, "Upgrade: WEBSOCKET"},
		{request, connection, "Upgrade: TLS/1.2, websocket"},
		{request, connection, "Upgrade: websocket,foo/1"},
	}
	for _, state := range states() {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			all := hostInputs(t)
			r := startWithReplica(t, "DELTA_GRPC", all)
			for _, lines := range upgrades {
				r.enter(t, state, all)
				client := dial(t, r.address)
				if err := client.write(lines...); err != nil {
					t.Fatal(err)
				}
				if state != "ready" {
					r.awaitQueued(t, "shop", 1)
					r.await(t, r.publishInputs(t, all))
				}
				if got := client.read(http.MethodGet); got.status != http.StatusSwitchingProtocols {
					t.Errorf("%q: %+v", lines, got)
					continue
				}
				_, _ = io.WriteString(client, "hello\n")
				if line, err := client.reader.ReadString('\n'); line != "hello\n" {
					t.Errorf("%q: the echo is %q, %v", lines, line, err)
				}
			}
		})
	}
}
