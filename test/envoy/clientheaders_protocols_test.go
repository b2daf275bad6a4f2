package envoy_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/test/kit"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// controlRequest is a request by which a client tries to control Envoy: the lines of its header and of its trailer.
type controlRequest struct{ header, trailer []string }

// controlRequests returns a request for each way in which a client can send controlHeaders: with and without
// X-Forwarded-*, several times, with underscores, and in a trailer.
func controlRequests() []controlRequest {
	all := controlHeaders()
	var requests []controlRequest
	for _, client := range []string{"", "8.8.8.8", "10.1.2.3", "fd00::1", "10.1.2.3, 8.8.8.8"} {
		var forwarded []string
		if client != "" {
			forwarded = []string{"X-Forwarded-For: " + client, "X-Forwarded-Proto: ftp", "X-Forwarded-Port: 1"}
		}
		lines := append(slices.Clone(all), forwarded...)
		requests = append(requests, controlRequest{header: lines}, controlRequest{header: append(lines, lines...)})
	}
	for _, header := range all {
		requests = append(requests, controlRequest{header: []string{header}},
			controlRequest{header: []string{header, header}})
	}
	var underscores, mixed []string
	for _, header := range all {
		name, value, _ := strings.Cut(header, ": ")
		rest := strings.ReplaceAll(name[len("x-envoy-"):], "-", "_")
		underscores = append(underscores, "x_envoy_"+rest+": "+value)
		mixed = append(mixed, "x-envoy_"+rest+": "+value)
	}
	return append(requests, controlRequest{header: underscores}, controlRequest{header: mixed},
		controlRequest{header: []string{"TE: trailers"}, trailer: all},
		controlRequest{header: append([]string{"TE: trailers"}, all...), trailer: all})
}

// http1ControlRequests returns further requests that only HTTP/1.1 can express: with uppercase letters in names, spaces
// around values, and headers that apply to one connection (RFC 9110, section 7.6.1).
func http1ControlRequests() []controlRequest {
	all := controlHeaders()
	var requests []controlRequest
	var upper []string
	for _, header := range all {
		name, value, _ := strings.Cut(header, ": ")
		upper = append(upper, "x-EnVoY-"+strings.ToUpper(name[len("x-envoy-"):])+":\t"+value+" ")
		requests = append(requests, controlRequest{header: []string{"Connection: " + name, header}},
			controlRequest{header: []string{header, "Connection: keep-alive, " + strings.ToLower(name)}})
	}
	requests = append(requests, controlRequest{header: upper},
		controlRequest{header: []string{"Connection: close, TE", "TE: trailers"}, trailer: all})
	for _, nominated := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Request-Id", "X-Kedify-Scope"} {
		requests = append(requests, controlRequest{header: append([]string{"Connection: " + nominated}, all...)},
			controlRequest{header: append([]string{"Connection: close, " + strings.ToLower(nominated)}, all...)})
	}
	return requests
}

// path returns the path of the app that shows the effect of the request.
func (c controlRequest) path() string {
	if len(c.trailer) > 0 {
		return "/received"
	}
	return "/slow"
}

// lines returns the lines of the request in HTTP/1.1.
func (c controlRequest) lines() []string {
	lines := append([]string{"POST " + c.path() + " HTTP/1.1", "Host: shop.example.com"}, c.header...)
	if len(c.trailer) == 0 {
		return append(lines, "Content-Length: 0")
	}
	lines = append(lines, "Transfer-Encoding: chunked", "Trailer: X-Envoy-Internal", "", "1", "a", "0")
	return append(lines, c.trailer...)
}

// send sends the request with a client for HTTP/2.
func (c controlRequest) send(ctx context.Context, client http.RoundTripper, scheme string) result {
	ctx, cancel := context.WithTimeout(ctx, await.Patience())
	defer cancel()
	body := io.NopCloser(strings.NewReader("a")) // of unknown length, so that trailers are possible
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://shop.example.com"+c.path(), body)
	if err != nil {
		return result{err: err}
	}
	request.Trailer = http.Header{}
	for target, lines := range map[*http.Header][]string{&request.Header: c.header, &request.Trailer: c.trailer} {
		for _, line := range lines {
			name, value, _ := strings.Cut(line, ": ")
			target.Add(name, value)
		}
	}
	return roundTrip(request, client)
}

// http2Client returns a client that sends all requests to one address over HTTP/2, in clear text or over TLS (ALPN).
func http2Client(t *testing.T, address string) *http.Transport {
	t.Helper()
	client := &http.Transport{
		Protocols:       new(http.Protocols),
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
	}
	client.Protocols.SetHTTP2(true)
	client.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// TestClientsCannotControlEnvoyInAnyProtocol is TestClientsCannotControlEnvoy for each protocol of clients, and each
// form of the headers. Names with underscores may reach the app, because Envoy does not read them.
func TestClientsCannotControlEnvoyInAnyProtocol(t *testing.T) {
	t.Parallel()
	certificates := []*corev1.Secret{kit.NewTLSSecret(t, namespace, "shop-tls", 1, "shop.example.com")}
	for _, hops := range []uint32{0, 1} {
		for _, isSecure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, %d trusted hops", schemeOf(isSecure), hops), func(t *testing.T) {
				t.Parallel()
				all := shopInputs(t, startBackend(t, "shop"), model.HTTP1)
				r := startTrusting(t, hops, all, certificates)
				for _, state := range states() {
					for _, protocol := range protocols() {
						requests, senders := r.controlSenders(t, protocol, isSecure)
						for i, got := range r.sendAll(t, state, all, senders) {
							if problem := controlProblem(requests[i], got, schemeOf(isSecure), hops); problem != "" {
								t.Errorf("%s, %s, %q: %s", state, protocol, requests[i], problem)
							}
						}
					}
				}
				stats, err := r.Admin(t.Context(), "/stats?filter=chosen-by-a-client")
				if err != nil || len(stats) > 0 {
					t.Errorf("statistics with a name from a client: %.300s, %v", stats, err)
				}
			})
		}
	}
}

// controlSenders returns all requests that a protocol can express, and a function that sends each.
func (r *replica) controlSenders(
	t *testing.T, protocol string, isSecure bool,
) (requests []controlRequest, senders []func() result) {
	t.Helper()
	requests = controlRequests()
	if protocol == "HTTP/1.1" {
		requests = append(requests, http1ControlRequests()...)
		for _, request := range requests {
			client := r.dialShop(t, isSecure, "http/1.1")
			senders = append(senders, func() result { return client.send(request.lines()...) })
		}
		return requests, senders
	}
	address := r.address
	if isSecure {
		address = r.tlsAddress(t)
	}
	client := http2Client(t, address)
	for _, request := range requests {
		senders = append(senders, func() result { return request.send(t.Context(), client, schemeOf(isSecure)) })
	}
	return requests, senders
}

// isRejected reports whether the request has the proxy remove headers that it adds itself. Envoy answers it with 400.
func (c controlRequest) isRejected() bool {
	return slices.ContainsFunc(c.header, func(line string) bool {
		line = strings.ToLower(line)
		return strings.HasPrefix(line, "connection: ") && strings.Contains(line, "x-forwarded-")
	})
}

// controlProblem returns which effect a request had; empty for none. The app receives trailers as trailers, because
// Envoy does not read them.
func controlProblem(request controlRequest, got result, scheme string, hops uint32) string {
	if request.isRejected() && got.status == http.StatusBadRequest {
		return ""
	}
	var seen echoed
	if err := json.Unmarshal([]byte(got.body), &seen); err != nil || seen.Backend != "shop" {
		return fmt.Sprintf("%+v", got)
	}
	for name := range seen.Header {
		if strings.HasPrefix(name, "X-Envoy-") && name != "X-Envoy-External-Address" {
			return "the app received " + name
		}
	}
	if (len(seen.Trailer) > 0) != (len(request.trailer) > 0) {
		return fmt.Sprintf("the app received the trailers %v", seen.Trailer)
	}
	if proto := seen.Header.Values("X-Forwarded-Proto"); hops == 0 && (len(proto) != 1 || proto[0] != scheme) {
		return fmt.Sprintf("the app received X-Forwarded-Proto %q", proto)
	}
	if seen.Header.Get("X-Forwarded-For") == "" || seen.Header.Get("X-Request-Id") == "" {
		return fmt.Sprintf("the app received no X-Forwarded-For or no X-Request-Id: %v", seen.Header)
	}
	return ""
}

// TestClientsCannotControlEnvoyByWebSockets: no header x-envoy-* of a WebSocket handshake reaches the app.
func TestClientsCannotControlEnvoyByWebSockets(t *testing.T) {
	t.Parallel()
	all := shopInputs(t, startBackend(t, "shop"), model.HTTP1)
	r := startSecureReplica(t, all)
	r.openSockets(t, all, "/websocket/header", controlHeaders(), func(name string, socket socket) {
		line, err := socket.readLine()
		var header http.Header
		if err == nil {
			err = json.Unmarshal([]byte(line), &header)
		}
		if err != nil || header.Get("X-Forwarded-For") == "" {
			t.Errorf("%s: %q, %v", name, line, err)
		}
		for field := range header {
			if strings.HasPrefix(field, "X-Envoy-") && field != "X-Envoy-External-Address" {
				t.Errorf("%s: the app received %s", name, field)
			}
		}
	})
}

// TestInvalidControlHeadersOverHTTP2: fields that HTTP/2 forbids (RFC 9113, sections 8.2.1 and 8.2.2) reach no app.
func TestInvalidControlHeadersOverHTTP2(t *testing.T) {
	t.Parallel()
	r := startSecureReplica(t, shopInputs(t, startBackend(t, "shop"), model.HTTP1))
	for _, isSecure := range []bool{false, true} {
		for _, field := range [][2]string{
			{"X-Envoy-Internal", "true"},
			{"x-Envoy-upstream-rq-timeout-ms", "50"},
			{"x-envoy-internal ", "true"},
			{"connection", "x-envoy-internal"},
			{"connection", "x-forwarded-for"},
			{":x-envoy-internal", "true"},
		} {
			client := r.dialShop(t, isSecure, "h2")
			client.openStream(t, ":method", "GET", ":scheme", schemeOf(isSecure), ":path", "/", ":authority",
				"shop.example.com", field[0], field[1])
			const headersFrame, status200 = 1, 0x88 // RFC 9113, section 6; RFC 7541, appendix A, index 8
			kind, payload, err := client.readFrame()
			if err == nil && kind == headersFrame && len(payload) > 0 && payload[0] == status200 {
				t.Errorf("%q over %s is answered by the app", field, schemeOf(isSecure))
			}
		}
	}
}
