package translate

import (
	"fmt"
	"slices"
	"unicode"

	rulesv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// clientLimits returns the limits of requests of clients.
func clientLimits() headerLimits { return headerLimits{sizeKB: maxHeadersKB, count: maxHeaderCount} }

// fallbackLimits returns the limits of requests in the fallback listener.
func fallbackLimits() headerLimits {
	return headerLimits{sizeKB: maxHeadersKB + moreFallbackKB, count: maxHeaderCount + moreFallbackHeaders}
}

// headerLimits are the limits of the header section of a message: its size in KiB, counted as the names and values
// with the path, and its number of fields. A request above a limit is answered with 431 or, over HTTP/2, reset; a
// response above a limit becomes a 502 or 503.
type headerLimits struct{ sizeKB, count uint32 }

// The proxy accepts what an Ingress controller or a Go server in its place would accept.
//
//   - Size: Go servers and Traefik accept 1 MiB (net/http.DefaultMaxHeaderBytes), ingress-nginx 32 KiB
//     (large_client_header_buffers 4 8k), and HAProxy 15 KiB (tune.bufsize less tune.maxrewrite). Envoy's default is
//     60 KiB, and 80 KiB for responses over HTTP/1.1. Chrome accepts responses up to 256 KiB, and Firefox up to
//     384 KiB. The limit bounds the memory of a request: with 256 of them, an HTTP/2 connection can occupy at most
//     256 MiB. Above 95 % of its heap the proxy rejects requests (overload_manager in the bootstrap).
//   - Number: Node.js accepts 2000 (maxHeadersCount), HAProxy 101 (tune.http.maxhdr), and Apache 100
//     (LimitRequestFields). Go servers do not count fields. Envoy's default is 100. Without this limit, compressed
//     fields of a few bytes would fill the size, each with an entry in Envoy's map.
//
// Requests in the fallback listener contain some more headers, which the first listener has added.
const (
	maxHeadersKB, maxHeaderCount        = 1024, 2000
	moreFallbackKB, moreFallbackHeaders = 64, 100
)

const (
	// maxConcurrentStreams is the maximum number of active requests per HTTP/2 connection, and streamWindow the flow
	// control window of each in bytes, see http2Options.
	maxConcurrentStreams, streamWindow = 256, 64 << 10
	// maxHeaderFieldKB is the maximum size of one HTTP/2 header field, compressed, in KiB. Envoy allows no more.
	maxHeaderFieldKB = 256
	// webSocket is the only upgrade that the proxy passes on.
	webSocket = "websocket"
	// noHost is the Host of an HTTP/1.0 request without one, which HTTP/1.0 allows. No host has a name below .invalid
	// (RFC 2606, section 2): the request reaches the object for all hosts, or is answered as one for an unknown host.
	noHost = "no-host.invalid"
	// envoyPrefix is the prefix of the names of headers by which a client can control Envoy.
	envoyPrefix = "x-envoy-"
	// noClient is an address that no client has: the limited broadcast address (RFC 919).
	noClient, noClientBits = "255.255.255.255", 32
)

// commonManager returns what both listeners have in common.
//
//   - No client is internal, even if it is a Pod of the cluster: Envoy applies the x-envoy-* headers of internal
//     clients. Without a range of addresses, Envoy would use the private ones.
//   - Only WebSockets are upgraded. Any other upgrade is ignored (RFC 9110, section 7.8). Otherwise Envoy would
//     answer 403, for example to clients that offer TLS (RFC 2817) with each request. WebSocket over HTTP/2 comes as
//     an extended CONNECT (RFC 8441).
func commonManager(statPrefix string, limits headerLimits) *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		CodecType:                 hcmv3.HttpConnectionManager_AUTO,
		StatPrefix:                statPrefix,
		RouteSpecifier:            scopedRoutes(),
		UpgradeConfigs:            []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: webSocket}},
		HttpProtocolOptions:       http1Options(),
		Http2ProtocolOptions:      http2Options(),
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{MaxHeadersCount: wrapperspb.UInt32(limits.count)},
		MaxRequestHeadersKb:       wrapperspb.UInt32(limits.sizeKB),
		StreamIdleTimeout:         durationpb.New(streamIdleTimeout),
		InternalAddressConfig: &hcmv3.HttpConnectionManager_InternalAddressConfig{
			CidrRanges: []*corev3.CidrRange{{AddressPrefix: noClient, PrefixLen: wrapperspb.UInt32(noClientBits)}},
		},
		PreserveExternalRequestId:  true,
		NormalizePath:              wrapperspb.Bool(true),
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		LocalReplyConfig:           localReplyConfig(),
	}
}

// http1Options returns the HTTP/1 options of downstream connections. Envoy's defaults reject what applications behind
// other proxies receive: HTTP/1.0, methods that it does not know, and other upgrades than webSocket. It also drops
// trailers by default.
func http1Options() *corev3.Http1ProtocolOptions {
	return &corev3.Http1ProtocolOptions{
		AcceptHttp_10:         true,
		DefaultHostForHttp_10: noHost,
		AllowCustomMethods:    true,
		EnableTrailers:        true,
		// Envoy compares each protocol of the list in the header Upgrade.
		IgnoreHttp_11Upgrade: []*matcherv3.StringMatcher{{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{
				Regex: anyTextBut(webSocket),
			}},
		}},
	}
}

// http2Options returns the HTTP/2 options of downstream connections.
//
// By default Envoy has windows of 16 MiB per stream and 24 MiB per connection. A stalled upload is then buffered
// completely, and two of them exhaust the connection's window, which blocks all other uploads of the connection. With
// a small stream window an upload waits at its sender. The connection window is twice the sum of all stream windows,
// so that no stream blocks another one: Envoy reopens the connection window when half of it was read, so stalled
// streams can occupy one half.
func http2Options() *corev3.Http2ProtocolOptions {
	return &corev3.Http2ProtocolOptions{
		AllowConnect:                true,
		MaxConcurrentStreams:        wrapperspb.UInt32(maxConcurrentStreams),
		InitialStreamWindowSize:     wrapperspb.UInt32(streamWindow),
		InitialConnectionWindowSize: wrapperspb.UInt32(2 * maxConcurrentStreams * streamWindow),
		MaxHeaderFieldSizeKb:        wrapperspb.UInt32(maxHeaderFieldKB),
	}
}

// clientHeaders returns the changes of the request headers of a client. They remove each header by which a client
// could control Envoy: timeouts, retries, and names of statistics, which Envoy would keep forever. Envoy itself
// removes only the headers that it lists, and only later. x-envoy-upstream-stream-duration-ms is not one of them.
func clientHeaders() []*rulesv3.HeaderMutation {
	return []*rulesv3.HeaderMutation{{Action: &rulesv3.HeaderMutation_RemoveOnMatch_{
		RemoveOnMatch: &rulesv3.HeaderMutation_RemoveOnMatch{KeyMatcher: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: envoyPrefix},
		}},
	}}}
}

// anyTextBut returns a regular expression (RE2) that matches every text, even the empty one, except word, which it
// does not match in any letter case. Word has ASCII letters only. RE2 has no negation, so the expression lists all
// differences: the text ends within the word, it has another character at some position, or it continues after the
// word.
func anyTextBut(word string) string {
	expression := `\C+` // any byte
	for _, letter := range slices.Backward([]rune(word)) {
		both := string(unicode.ToLower(letter)) + string(unicode.ToUpper(letter))
		expression = fmt.Sprintf(`(?:[^%s]\C*|[%s]%s)?`, both, both, expression)
	}
	return expression
}
