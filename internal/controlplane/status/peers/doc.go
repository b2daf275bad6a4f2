// Package peers is how the replicas of the interceptor know of one another's proxies. A proxy is
// connected to any one of them, and whoever reports what all proxies have taken has to know of all.
//
//	replica A                              replica B (elected)
//	Server ── State ── Watch, a gRPC stream ──▶ Peers ── State of A
//	   ▲                one Delta after another   │
//	   └ Apply: what is new                       └▶ notify: what is new
//
// A [State] is what one replica tells: the digest of the model of each object that it publishes, and
// of each of its proxies what that has not confirmed. Digests are of what an object asks for, not of
// what Envoy is sent for it: whether a proxy has taken that is judged by the proxy's own replica,
// which may be of another version or have other flags.
//
// A stream begins with the whole State; then it carries a [Delta] whenever there is news. What a slow
// reader has not read yet is merged, so nothing piles up. After any fault the reader forgets the
// State and begins with a new stream: a replica that tells nothing has proxies that confirmed nothing.
//
// The replicas are the endpoints of the Service that proxies connect to, and speak on the same port.
package peers
