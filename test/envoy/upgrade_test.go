package envoy_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
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
		{request, "Connection: Upgrade", "Upgrade: h2c"},
		{request, "Connection: Upgrade", "Upgrade: HTTP/2.0, SHTTP/1.3, IRC/6.9, RTA/x11"}, // RFC 9110, section 7.8
		{request, "Connection: Upgrade", "Upgrade: SPDY/3.1"},                              // kubectl exec
		{request, "Connection: Upgrade", "Upgrade: tcp"},                                   // docker attach
		{request, "Connection: Upgrade", "Upgrade: foo/1,,bar,"},
		{request, "Connection: Upgrade", "Upgrade:"},
		{request, "Connection: Upgrade"},
		{request, "Upgrade: TLS/1.2"}, // without Connection it is no offer
		{request, "Upgrade: websocket"},
		{request, "Connection: keep-alive", "Upgrade: websocket"},
		{request, "Connection: Upgrade", "Upgrade: websockets"},
		{request, "Connection: Upgrade", "Upgrade: web"},
		{request, "Connection: Upgrade", "Upgrade: websocket/13"},
		{"POST / HTTP/1.1\r\nHost: shop.example.com", "Connection: Upgrade", "Upgrade: TLS/1.2", "Content-Length: 0"},
		{"OPTIONS / HTTP/1.1\r\nHost: shop.example.com", "Connection: Upgrade", "Upgrade: TLS/1.3"},
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

// TestUpgradesOverHTTP2: a WebSocket is opened by an extended CONNECT (RFC 8441), and no other protocol is. A request with
// the headers of HTTP/1.1 is malformed (RFC 9113, section 8.2.2). Neither affects other requests.
func TestUpgradesOverHTTP2(t *testing.T) {
	t.Parallel()
	r := startWithReplica(t, "DELTA_GRPC", hostInputs(t))
	connect := func(protocol string) []string {
		return []string{
			":method", "CONNECT", ":protocol", protocol, ":scheme", "http", ":path", "/websocket",
			":authority", "shop.example.com",
		}
	}
	get := []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "shop.example.com"}
	for name, c := range map[string]struct {
		fields []string
		isOpen bool
	}{
		"a WebSocket":             {connect("websocket"), true},
		"another protocol":        {connect("foo/1"), false},
		"UDP":                     {connect("connect-udp"), false},
		"headers of HTTP/1.1":     {append(slices.Clone(get), "connection", "upgrade", "upgrade", "foo/1"), false},
		"the header Upgrade":      {append(slices.Clone(get), "upgrade", "websocket"), false},
		"a WebSocket of HTTP/1.1": {append(slices.Clone(get), "connection", "upgrade", "upgrade", "websocket"), false},
	} {
		client := dial(t, r.address)
		client.openStream(t, c.fields...)
		kind, payload, err := client.readFrame()
		if err != nil && (c.isOpen || !errors.Is(err, io.EOF)) { // a malformed request may end the connection
			t.Fatalf("%s: %v", name, err)
		}
		const headersFrame, status200 = 1, 0x88 // RFC 9113, section 6; RFC 7541, appendix A, index 8
		if isOpen := kind == headersFrame && len(payload) > 0 && payload[0] == status200; isOpen != c.isOpen {
			t.Errorf("%s: frame %d % x", name, kind, payload)
		}
		if c.isOpen {
			client.writeFrame(t, 0, 0, 1, []byte("hello\n"))
			if kind, payload, err := client.readFrame(); kind != 0 || string(payload) != "hello\n" {
				t.Errorf("%s: the echo is frame %d %q, %v", name, kind, payload, err)
			}
		}
		if got := r.send(t.Context(), "HTTP/2", "shop.example.com", "/", nil, nil); got.backend() != "shop" {
			t.Errorf("after %s: %+v", name, got)
		}
	}
}

// openStream begins a connection over HTTP/2, and sends a header with fields, given as names and values, on stream 1. It
// leaves the stream open.
func (c *rawClient) openStream(t *testing.T, fields ...string) {
	t.Helper()
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	var block []byte
	for pair := range slices.Chunk(fields, 2) { // literals without indexing: RFC 7541, section 6.2.2
		block = append(block, 0, byte(len(pair[0])))
		block = append(append(block, pair[0]...), byte(len(pair[1])))
		block = append(block, pair[1]...)
	}
	const settings, headers, endHeaders = 4, 1, 4
	c.writeFrame(t, settings, 0, 0, nil)
	c.writeFrame(t, headers, endHeaders, 1, block)
}

// writeFrame writes a frame of HTTP/2 (RFC 9113, section 4.1).
func (c *rawClient) writeFrame(t *testing.T, kind, flags, stream byte, payload []byte) {
	t.Helper()
	frame := append([]byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, flags, 0, 0, 0, stream}, payload...)
	if _, err := c.Write(frame); err != nil {
		t.Fatal(err)
	}
}

// readFrame returns the kind and the payload of the next frame of a stream, or of GOAWAY.
func (c *rawClient) readFrame() (kind byte, payload []byte, err error) {
	const goAway, windowUpdate = 7, 8
	for {
		var head [9]byte
		if _, err := io.ReadFull(c.reader, head[:]); err != nil {
			return 0, nil, err
		}
		payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c.reader, payload); err != nil {
			return 0, nil, err
		}
		if kind = head[3]; kind == goAway || head[8] == 1 && kind != windowUpdate {
			return kind, payload, nil
		}
	}
}
