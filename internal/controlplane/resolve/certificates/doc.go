// Package certificates decides which certificate the proxies answer TLS with for a host, and what is wrong with those that users name.
//
// It is pure: the bytes of Secrets, and the Routes of hosts, come in as values; Certificates and Problems go out. A Book remembers both, so that
// a change costs the hosts that it concerns.
//
//   - An object names a Secret of its own namespace, and gets nothing of another one. A fleet's hosts have the certificates of the objects that it serves.
//   - Of several objects with the same host and different Secrets, the certificate of the oldest is in force, as with Routes. One whose Secret
//     is of no use doesn't count.
//   - A Secret that turns wrong keeps its last good certificate in force, and so does one that can't be read any more. One that is deleted ends at
//     once.
package certificates
