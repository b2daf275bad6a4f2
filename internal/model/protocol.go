package model

import "strings"

// ProtocolOf returns the protocol that a Service port selects for its endpoints, in any letter case. It is that of
// appProtocol: the values of Kubernetes (KEP-3726), those of Contour and Envoy Gateway with the same meaning, and
// common names; any other value selects HTTP/1.1. Without appProtocol it is that of the port's name, by Istio's rule.
// If that selects neither HTTP/2 nor TLS, the result is empty: HTTP/1.1, unless another port of the application selects
// a protocol.
func ProtocolOf(appProtocol, portName string) Protocol {
	if appProtocol != "" {
		return appProtocolOf(appProtocol)
	}
	if protocol := namedProtocol(strings.ToLower(portName)); protocol != HTTP1 {
		return protocol
	}
	return ""
}

// appProtocolOf returns the protocol of an appProtocol.
func appProtocolOf(appProtocol string) Protocol {
	switch name := strings.ToLower(appProtocol); name {
	case "kubernetes.io/h2c", "projectcontour.io/h2c", "gateway.envoyproxy.io/h2c":
		return HTTP2
	case "kubernetes.io/wss", "projectcontour.io/tls", "projectcontour.io/h2", "gateway.envoyproxy.io/wss",
		"wss", "h2", "grpcs": // HTTP/2 over TLS is not supported; many servers for it support HTTP/1.1, too.
		return HTTPS
	default: // kubernetes.io/ws is HTTP/1.1: a WebSocket begins with a request.
		return namedProtocol(name)
	}
}

// namedProtocol returns the protocol of a name in lower case that is a protocol, or begins with one and a hyphen
// (https://istio.io/latest/docs/ops/configuration/traffic-management/protocol-selection/). h2c is an addition to
// Istio's names. Unlike Istio, the proxy does not convert gRPC-Web to gRPC, and browsers send it over HTTP/1.1.
func namedProtocol(name string) Protocol {
	if name == "grpc-web" || strings.HasPrefix(name, "grpc-web-") || strings.Contains(name, "/") {
		return HTTP1
	}
	switch protocol, _, _ := strings.Cut(name, "-"); protocol {
	case "h2c", "http2", "grpc":
		return HTTP2
	case "https", "tls":
		return HTTPS
	default: // Such as http, ws and tcp.
		return HTTP1
	}
}
