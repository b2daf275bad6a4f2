// Package peers shares the state of proxies between the replicas of the interceptor. A proxy is connected to any one
// replica, and the elected replica, which reports status, needs the state of all proxies.
//
//	replica A                              replica B (elected)
//	Server ── State ── Watch, a gRPC stream ──▶ Peers ── State of A
//	   ▲                a sequence of Deltas      │
//	   └ Apply: local changes                     └▶ notify: changes of A
//
// A [State] is the state of one replica: the digest of the model of each object that it publishes, and for each of its
// proxies the objects that the proxy has not ACKed. A digest is that of the object's model, not of the resources sent
// to Envoy. Each replica decides itself whether its proxies are in sync, because other replicas may have another
// version or other flags.
//
// A stream starts with the whole State. After that it sends a [Delta] for each change. Deltas that a slow reader has
// not read are merged, so that they do not accumulate. After any error the reader drops the State and opens a new
// stream. The proxies of an unreachable replica count as out of sync.
//
// The replicas are the endpoints of the Service that proxies connect to, on the same port.
package peers
