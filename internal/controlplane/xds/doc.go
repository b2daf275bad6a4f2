// Package xds serves Envoy proxies their configuration: an aggregated discovery service (ADS) in
// both of its forms, delta (incremental) and state of the world.
//
// The caller publishes everything that is desired with [Server.Publish], and how it changes with
// [Server.ApplyDelta]. What each connected proxy is sent, and when, is decided by one state machine
// per stream, the session: values in (a discovery request, a new snapshot, the time), responses
// out. It has no goroutine, clock or logger of its own, so every rule below is tested without a
// network. The gRPC service around it is a thin shell.
//
// Proxies belong to fleets, and what is published is published to one fleet. A stream belongs to the
// fleet of its peer's address, which the caller tells with [Server.SetMembers]; it waits a moment for
// an address that is not known yet, and is refused then. It gets its fleet's resources and nothing
// else, and what a proxy refuses is the affair of its fleet.
//
// There are five kinds of resources: clusters, endpoints, listeners, scopes and secrets. A scope is a
// host with its routes inside (ScopedRouteConfiguration.route_configuration). Kinds differ in their
// traits, which stand in one table, and secrets in how a name finds one.
//
// # One resource on one stream
//
//	           is due              ACK
//	withheld ──────────▶ pending ──────────▶ acked ──▶ pending removal ──▶ gone
//	   ▲                  │    ▲              │  ▲         (not desired)
//	   └──── changed ─────┼────┼──────────────┘  │
//	                      │    │                 │
//	   NACK, beside others│    │ alone           │ what was good before is desired again
//	                      ├──▶ doubtful          │
//	                      │    │ alone, changed  │
//	           NACK, alone└──▶ rejected ─────────┘
//
// A resource is withheld while its turn has not come: a scope until its clusters are warm,
// endpoints that serve nobody any more until scopes have left them, anything while the stream has
// responses enough to answer. A newer version takes its place. A pending removal is that of a
// cluster: it stays until no scope can name it, and for a grace.
//
// Most resources of most streams are acked as they are desired. Of those a delta stream keeps nothing: what
// it asked for and has no record is settled (settled.go). A record is there from a change until its ACK.
//
// What the proxy may be using meanwhile is kept beside it: the last version that it ACKed, and of a
// scope every version that may be active.
//
// # Make before break
//
// Envoy refuses a scope that names a cluster which is unknown, and answers 503 while the cluster is
// still warming: the server has to keep the order. Per stream:
//
//   - A new or changed cluster goes first, its endpoints follow. A scope is withheld until the proxy
//     has ACKed every cluster that it names, and their endpoints. Meanwhile the proxy keeps the
//     scope's previous form, and the other scopes go on.
//   - A cluster that is no longer desired stays on the stream, with its endpoints, until the proxy can
//     no longer hold a scope that names it, plus a grace for requests under way.
//   - Envoy warms a changed cluster again and waits for endpoints even when they are the same. In
//     delta it doesn't ask for them, so they are sent again behind the cluster.
//   - A change of endpoints alone goes out at once. When it leaves none that serves, while scopes that
//     send requests to them are being replaced, it waits for the ACK of those, a second at most: a
//     canary that loses all its Pods gives its share away first.
//   - The first scopes make a fresh Envoy ready, so they go out together and wait for clusters as long
//     as the proxy makes progress.
//
// In state of the world a proxy that reconnects doesn't say which clusters it has, and the first
// list would remove those that are gone since, before it gets the scopes that no longer name them.
// Its subscription to endpoints names them, so the scopes go first if they need only what the proxy
// has. When clusters both left and came while it was away, one gap remains.
//
// # Certificates
//
// A secret is the certificate of a host, which may be a wildcard, with its key. Envoy asks for it when a client
// begins a handshake, by the name that the client sends, and gets that of the most specific host; one for a
// known host that has none, or an unknown one, is told to be absent, and Envoy refuses the handshake. What
// it asked for once it is told of as with everything else. A stream has a thousand names at a time that
// are not hosts themselves, the latest ones. State of the world has no word for what is absent, so a
// handshake would hang and its name stay for good: there the listener that asks for certificates is left out.
//
// # Refusals
//
// A NACK takes back the ACK of every resource of that response, because Envoy may have dropped good
// ones beside the bad one. Each of them goes out again alone, one at a time, with a turn for others
// in between; so the one that is refused alone is the culprit, and Envoy's words are not read. What
// was refused alone is held back until its content changes, and then goes alone again. Its last
// good version stays in force on the proxy. All else goes on.
//
// A response has 500 resources at most: those beside a refused one are as few, and a proxy that joins is sent
// piece by piece. Lists in state of the world, and the first scopes, are whole.
//
// Scopes are kept apart from the start: after the first response of a stream each response carries
// one, so nobody's host is in the response that refuses another one. There is one such response on
// its way at a time; a newer version takes its place behind it, not in Envoy's queue.
//
// Envoy records a scope that came before the bad one in a refused response, doesn't use it, and
// then ACKs and ignores the same bytes. So a scope that was refused in company is sent in other
// bytes of the same content and version.
//
// A version that one proxy has refused goes alone to every other proxy of its fleet too, as long as it is
// published: a proxy that joins becomes ready with all other hosts.
//
// The rules of the wire are those of the xDS protocol description,
// https://www.envoyproxy.io/docs/envoy/v1.40.0/api-docs/xds_protocol.
//
// # What is known of the streams
//
// For every stream and resource the server knows what was sent, ACKed and NACKed, and what is held
// back: see [Server.Poll]. What can't wait for a poll, that a proxy serves a cluster, is told to a
// [Follower].
//
// Versions are content hashes: equal resources have equal versions on every replica and after every
// restart, so a proxy that reconnects in delta with what it already has is sent only the rest, and
// the version of a resource is the digest of what it says.
//
// Of clusters and scopes, which mostly differ in names, the first of a fleet is kept whole, and of the
// others what differs from it (pattern.go).
package xds
