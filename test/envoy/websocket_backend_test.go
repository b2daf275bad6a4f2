package envoy_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestWebSocketsToEachProtocol opens WebSockets to apps of each protocol, from clients of both protocols in clear text
// and over TLS, also while the app is at zero.
func TestWebSocketsToEachProtocol(t *testing.T) {
	t.Parallel()
	for _, protocol := range appProtocols() {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			var app *backend
			if protocol == model.HTTP2 {
				app = startRawBackend(t, "shop", acceptSockets)
			} else {
				app = startBackendFor(t, "shop", protocol)
			}
			all := shopInputs(t, app, protocol)
			r := startSecureReplica(t, all)
			r.openSockets(t, all, "/websocket", nil, func(name string, socket socket) {
				if got, err := socket.echo(t, "hello\n"); got != "hello\n" {
					t.Errorf("%s: the echo is %q, %v", name, got, err)
				}
			})
		})
	}
}

// TestWebSocketToAnAppWithoutRFC8441: an app for HTTP/2 without RFC 8441, such as a server of net/http, rejects a
// WebSocket. The client receives an error, and other requests on the proxy's connection to the app continue.
func TestWebSocketToAnAppWithoutRFC8441(t *testing.T) {
	t.Parallel()
	app := startBackend(t, "shop")
	r := startSecureReplica(t, shopInputs(t, app, model.HTTP2))
	held := r.startWith(t, "HTTP/2", "shop.example.com", "/held", nil)
	<-app.arrived
	for range 10 { // so that each worker of the proxy has had one
		client := dial(t, r.address)
		got := client.send("GET /websocket HTTP/1.1", "Host: shop.example.com", "Connection: Upgrade", "Upgrade: websocket")
		if !isReset(got) {
			t.Errorf("%+v", got)
		}
	}
	close(app.release)
	if got := <-held; got.backend() != "shop" {
		t.Errorf("the request that was active: %+v", got)
	}
}

// acceptSockets serves a connection over HTTP/2 (RFC 8441). It accepts each WebSocket, and sends its data back.
func acceptSockets(connection net.Conn) {
	if _, err := io.ReadFull(connection, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	framer := http2.NewFramer(connection, connection)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	err := framer.WriteSettings(http2.Setting{ID: http2.SettingEnableConnectProtocol, Val: 1})
	for err == nil {
		var frame http2.Frame
		if frame, err = framer.ReadFrame(); err == nil {
			err = answerFrame(framer, frame)
		}
	}
}

// answerFrame answers one frame of a client.
func answerFrame(framer *http2.Framer, frame http2.Frame) error {
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if !frame.IsAck() {
			return framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		return framer.WritePing(true, frame.Data)
	case *http2.DataFrame:
		return framer.WriteData(frame.StreamID, frame.StreamEnded(), frame.Data())
	case *http2.MetaHeadersFrame:
		status := http.StatusBadRequest
		if frame.PseudoValue("method") == http.MethodConnect && frame.PseudoValue("protocol") == "websocket" {
			status = http.StatusOK
		}
		var block bytes.Buffer
		field := hpack.HeaderField{Name: ":status", Value: strconv.Itoa(status)}
		if err := hpack.NewEncoder(&block).WriteField(field); err != nil {
			return err
		}
		return framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: frame.StreamID, BlockFragment: block.Bytes(), EndHeaders: true,
		})
	}
	return nil
}

// socket is a WebSocket of a client over HTTP/1.1 or HTTP/2.
type socket struct {
	*rawClient

	isHTTP2 bool
}

// openSockets opens a WebSocket in each state, over each protocol, with and without TLS, and calls use with each.
func (r *replica) openSockets(
	t *testing.T, all resolve.Inputs, path string, header []string, use func(name string, socket socket),
) {
	t.Helper()
	for _, state := range states() {
		for _, isSecure := range []bool{false, true} {
			for _, protocol := range protocols() {
				name := fmt.Sprintf("%s, %s over %s", state, protocol, schemeOf(isSecure))
				r.enter(t, state, all)
				socket := r.beginSocket(t, protocol, isSecure, path, header...)
				if state != "ready" {
					r.awaitQueued(t, "shop", 1)
					r.await(t, r.publishInputs(t, all))
				}
				if err := socket.open(); err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				use(name, socket)
			}
		}
	}
}

// beginSocket requests a WebSocket of app shop, with the lines of a header.
func (r *replica) beginSocket(t *testing.T, protocol string, isSecure bool, path string, header ...string) socket {
	t.Helper()
	if protocol == "HTTP/2" {
		client := r.dialShop(t, isSecure, "h2")
		fields := []string{
			":method", "CONNECT", ":protocol", "websocket", ":scheme", schemeOf(isSecure), ":path", path, ":authority",
			"shop.example.com",
		}
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			fields = append(fields, strings.ToLower(name), value)
		}
		client.openStream(t, fields...)
		return socket{client, true}
	}
	client := r.dialShop(t, isSecure, "http/1.1")
	err := client.write(append([]string{
		"GET " + path + " HTTP/1.1", "Host: shop.example.com", "Connection: Upgrade", "Upgrade: websocket",
	}, header...)...)
	if err != nil {
		t.Fatal(err)
	}
	return socket{client, false}
}

// open reads the response to the request. It returns an error unless that opens the WebSocket.
func (s socket) open() error {
	if !s.isHTTP2 {
		if got := s.read(http.MethodGet); got.status != http.StatusSwitchingProtocols {
			return fmt.Errorf("%+v", got)
		}
		return nil
	}
	const headersFrame, status200 = 1, 0x88 // RFC 9113, section 6; RFC 7541, appendix A, index 8
	kind, payload, err := s.readFrame()
	if err == nil && (kind != headersFrame || len(payload) == 0 || payload[0] != status200) {
		err = fmt.Errorf("frame %d % x", kind, payload)
	}
	return err
}

// echo sends a line and returns what comes back.
func (s socket) echo(t *testing.T, line string) (string, error) {
	t.Helper()
	if s.isHTTP2 {
		s.writeFrame(t, 0, 0, 1, []byte(line))
	} else if _, err := io.WriteString(s, line); err != nil {
		return "", err
	}
	return s.readLine()
}

// readLine returns the next line from the app.
func (s socket) readLine() (string, error) {
	if s.isHTTP2 {
		_, payload, err := s.readFrame()
		return string(payload), err
	}
	return s.reader.ReadString('\n')
}
