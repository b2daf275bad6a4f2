// Package xds serves Envoy proxies their configuration: an aggregated discovery
// service (ADS) in both of its forms, delta (incremental) and state of the
// world.
//
// The caller publishes the whole desired world with [Server.Publish]. What each
// connected proxy is sent, and when, is decided by one state machine per stream,
// the session: values in (a discovery request, a new world, the time), responses
// out. It has no goroutine, clock or logger of its own, so every rule below is
// tested without a network. The gRPC service around it is a thin shell.
//
// # Make before break
//
// Envoy answers 503 for a route that names a cluster which is unknown or still
// warming, and it does not warm routes: the server has to keep the order. Per
// stream:
//
//   - A new or changed cluster goes first, its endpoints follow. A route
//     configuration is withheld until the proxy has ACKed every cluster that it
//     names, and their endpoints. Meanwhile the proxy keeps its previous routes.
//   - A cluster that left the world stays on the stream, with its endpoints,
//     until the proxy can no longer hold routes that name it, plus a grace for
//     requests under way.
//   - Envoy warms a changed cluster again and waits for endpoints even when they
//     are the same. In delta it doesn't ask for them, so they are sent again
//     behind the cluster.
//   - A change of endpoints alone goes out at once.
//
// One gap is the protocol's: in state of the world a proxy that reconnects
// doesn't say which clusters it has, and the first list removes those that left
// the world while it was away, before it can get the routes that no longer name
// them. In delta it says so, and they stay until then.
//
// The rules of the wire are those of the xDS protocol description,
// https://www.envoyproxy.io/docs/envoy/v1.40.0/api-docs/xds_protocol.
//
// # The book
//
// For every stream and resource the server knows what was sent, ACKed and
// NACKed: see [Server.Book]. A NACK takes back the ACK of every resource of that
// response, because Envoy may have dropped good ones beside the bad one. What was
// refused is not sent again until it changes or the proxy asks for it.
//
// Versions are content hashes: equal resources have equal versions on every
// replica and after every restart, so a proxy that reconnects in delta with what
// it already has is sent only the rest.
package xds
