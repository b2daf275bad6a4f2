// Package traffic checks that applications that work behind their Ingress also work behind kedify-proxy: with clients
// of HTTP/1.0 such as ab, clients that offer TLS, WebSockets, gRPC, slow responses, session affinity, a rollback to a
// version with one ready Pod, and users of sticky canaries. All components are real, and requests go to the Ingress
// controller all the time.
//
// `make test-traffic` runs it and prints the failed requests of each kind of client in each state of the Ingresses.
package traffic
