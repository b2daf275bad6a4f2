// Package xds serves Envoy proxies their configuration: an aggregated discovery
// service (ADS) in both of its forms, delta (incremental) and state of the
// world.
//
// The caller publishes the whole desired world with [Server.Publish], and how it
// changes with [Server.Amend]. What each
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
//   - A new or changed cluster goes first, its endpoints follow. A virtual host is
//     withheld until the proxy has ACKed every cluster that it names, and their
//     endpoints. Meanwhile the proxy keeps its previous form, and the other virtual
//     hosts of the route configuration go on.
//   - A cluster that left the world stays on the stream, with its endpoints,
//     until the proxy can no longer hold routes that name it, plus a grace for
//     requests under way.
//   - Envoy warms a changed cluster again and waits for endpoints even when they
//     are the same. In delta it doesn't ask for them, so they are sent again
//     behind the cluster.
//   - A change of endpoints alone goes out at once. When it leaves none that
//     serves, while routes to them are being replaced, it waits for the ACK of
//     those routes, a second at most: a canary that loses all its Pods gives its
//     share away first.
//
// In state of the world a proxy that reconnects doesn't say which clusters it
// has, and the first list would remove those that left the world while it was
// away, before it gets the routes that no longer name them. Its subscription to
// endpoints names them, so the routes go first if they need only what the proxy
// has. When clusters both left and came while it was away, one gap remains.
//
// # Refusals
//
// A NACK takes back the ACK of every resource of that response, because Envoy may
// have dropped good ones beside the bad one. They are tried again in halves of
// halves, one response at a time, until what is bad was refused alone: about
// 2 log2(n) responses for one among n, and no look at Envoy's words. A route
// configuration is taken apart by virtual host and put together again from the
// last good one and the virtual hosts on trial.
//
// What was refused alone is held back until its content changes, and then tried
// alone. Its last good version stays in force on the proxy. All else goes on.
// This is knowledge of one stream: a proxy that reconnects tells anew. If the
// content of the routes that it brought along isn't known here, those that are on
// trial are missing on it for the moment that finding the culprit takes.
//
// The rules of the wire are those of the xDS protocol description,
// https://www.envoyproxy.io/docs/envoy/v1.40.0/api-docs/xds_protocol.
//
// # The book
//
// For every stream and resource the server knows what was sent, ACKed and
// NACKed, and what is held back: see [Server.Book], and [Server.Look] for what is
// new in it.
//
// Versions are content hashes: equal resources have equal versions on every
// replica and after every restart, so a proxy that reconnects in delta with what
// it already has is sent only the rest.
package xds
