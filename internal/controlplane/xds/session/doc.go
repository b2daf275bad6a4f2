// Package session is the state machine of one discovery stream: it decides what a proxy is sent, and when. Its inputs
// are values (a discovery request, a new snapshot, the time), its outputs are responses. It has no goroutine, clock or
// logger.
//
// A [Session] is the state of one stream, a [Snapshot] the desired resources of one fleet, and [Rejections] the
// versions that proxies of the fleet rejected. Snapshots and rejections are shared by the sessions of the fleet.
//
// There are five kinds of resources: clusters, endpoints, listeners, scopes and secrets. A scope is a host with its
// routes inside (ScopedRouteConfiguration.route_configuration). The table in kind.go lists how the kinds differ.
// Secrets also differ in how a name is resolved to a resource.
//
// # States of a resource on a stream
//
//	           is due              ACK
//	withheld ──────────▶ pending ──────────▶ acked ──▶ pending removal ──▶ removed
//	   ▲                  │    ▲              │  ▲         (not desired)
//	   └──── changed ─────┼────┼──────────────┘  │
//	                      │    │                 │
//	   NACK, with others  │    │ alone           │ the last ACKed version is desired again
//	                      ├──▶ uncertain         │
//	                      │    │ alone, changed  │
//	           NACK, alone└──▶ rejected ─────────┘
//
// A resource is withheld until it may be sent. A scope waits until its clusters are warm. Endpoints that no longer
// serve wait until no scope names their cluster. Any resource waits while too many responses are unanswered. A newer
// version replaces a withheld one. A cluster that is no longer desired is pending removal until no scope can name it,
// plus a grace period.
//
// A session has a record of a resource from a change until its ACK. Once a delta stream has ACKed a resource, its
// record is deleted: a resource that is subscribed, desired and without a record is synced (synced.go). That holds
// for most resources of most streams.
//
// A record also contains what the proxy may be using: the last ACKed version, and of a scope every version that may
// be active.
//
// # Make before break
//
// Envoy rejects a scope that names an unknown cluster, and responds 503 while the cluster is warming. So the order
// matters. Per stream:
//
//   - A new or changed cluster is sent first, its endpoints follow. A scope is withheld until the proxy has ACKed
//     every cluster that it names, and their endpoints. Meanwhile the proxy keeps the previous version of that scope,
//     and other scopes are sent.
//   - A cluster that is no longer desired stays on the stream, with its endpoints, as long as the proxy may use a scope
//     that names it. A grace period for requests in flight follows.
//   - Envoy warms a changed cluster again and waits for its endpoints even if they did not change. In delta it does not
//     request them, so they are sent again after the cluster.
//   - A change of endpoints alone is sent at once. Endpoints of which none serves any more are an exception while
//     scopes with routes to them are being replaced: they wait for the ACK of those scopes. So a canary that loses all
//     its Pods loses its traffic first. They wait for at most a second if the proxy then queues the requests, and for
//     at most ten if it would respond 503.
//   - The first scopes make a new Envoy ready. They are sent together and wait for clusters as long as the proxy makes
//     progress.
//
// In state of the world a reconnecting proxy does not report its clusters. The first list of clusters would remove
// those that are no longer desired before the proxy receives the scopes that no longer name them. The proxy's
// subscription to endpoints names its clusters, so the scopes are sent first if they need only clusters that the proxy
// has. One gap remains: clusters that were removed and clusters that were added in the same disconnection.
//
// # Endpoints with hints
//
// A proxy prefers the endpoints that are intended for its node or its zone. The published message contains the hints,
// and the priorities are set for each stream when it is sent (topology.go). Nothing of that is stored. The version is
// that of the published message. Only on the wire it also identifies the topology, so that a proxy that reconnects with
// the priorities of another zone receives the message again.
//
// # Certificates
//
// A secret is the certificate, with its key, of a host, which may be a wildcard. Envoy requests it when a client begins
// a handshake, by the server name that the client sends, and receives that of the most specific host. If there is no
// such host, or the host has no certificate, the response reports the secret as missing, and Envoy fails the
// handshake. From then on the name is subscribed like any other. A stream has at most a thousand names that are not
// hosts themselves; the oldest is removed first. State of the world cannot express that a secret does not exist: a
// handshake would hang and its name would stay subscribed. So in that mode the listener that requests certificates is
// omitted.
//
// # Rejections
//
// A NACK revokes the ACK of every resource of that response, because Envoy may have dropped good resources along with
// the bad one. Each of them is sent again alone, one at a time, alternating with other changes. The resource that is
// rejected alone is the bad one; Envoy's error message is not parsed. A version that was rejected alone is not sent
// again. The next version is sent alone too. Meanwhile the last good version stays active on the proxy, and all other
// resources are sent as usual.
//
// A response has at most 500 resources: that bounds how many are sent again after a NACK, and splits what a joining
// proxy receives. Lists in state of the world, and the first scopes, are complete.
//
// Scopes are sent one by one: after the first response of a stream each response contains one, so a rejected host
// affects no other. Only one of these responses is unanswered at a time: a newer version replaces a withheld one here
// instead of waiting in Envoy's queue.
//
// Envoy stores a scope that precedes the bad one in a rejected response without using it. If the same bytes are sent
// again, Envoy ACKs and ignores them. So a scope that was rejected together with others is sent again with a salt:
// other bytes with the same content and version.
//
// A version that one proxy rejected is sent alone to every other proxy of its fleet too, as long as it is desired. So a
// joining proxy becomes ready with all other hosts. A fleet keeps the 64 rejections that were used last, at most 16 of
// one proxy.
//
// The wire rules are those of the xDS protocol description,
// https://www.envoyproxy.io/docs/envoy/v1.40.0/api-docs/xds_protocol.
//
// # Versions and memory
//
// Versions are content hashes. Equal resources have equal versions on every replica and after every restart, so a
// proxy that reconnects in delta receives only what differs from what it has.
//
// Clusters and scopes mostly differ in names. The first of each kind in a fleet is stored as a whole, of the others
// only the difference to it (dictionary.go).
package session
