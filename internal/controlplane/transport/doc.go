// Package transport serves TLS and plaintext on the same port, with a certificate that changes while the port is open,
// to known addresses only.
//
// Proxies of the agent connect by TLS and verify the interceptor. Those of other installations connect without TLS, on
// the same ports. A [Listener] distinguishes them by the first byte of a connection: a TLS handshake begins with 22
// (RFC 8446, section 5.1), and HTTP/2 begins with the letter P (RFC 9113, section 3.4). [IsSecure] reports which of
// both a call uses.
//
// The replicas of the interceptor verify each other: they present the same certificate as clients.
package transport
