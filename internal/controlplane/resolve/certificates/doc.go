// Package certificates determines the TLS certificate of each host and the problems of the Secrets that users name.
//
// The package is pure: the contents of Secrets and the Routes of hosts come in as values; certificates and Problems
// go out. A Resolver retains both, so that the cost of a change depends on the affected hosts.
//
//   - An object names a Secret of its own namespace and has no access to others. A fleet's hosts have the
//     certificates of the objects that the fleet serves.
//   - If several objects with the same host name different Secrets, the certificate of the oldest object is active,
//     as with Routes. Objects with an invalid Secret do not count.
//   - A Secret that becomes invalid or unreadable keeps its last valid certificate active. The certificate of a
//     deleted Secret is removed immediately.
package certificates
