// Package traffic checks that applications that work behind their Ingress also work behind kedify-proxy: with clients
// of HTTP/1.0 and clients that offer TLS, WebSockets, gRPC, slow responses, session affinity, and a rollback to a
// version with one ready Pod. All components are real, and requests go to the Ingress controller all the time.
//
// `make test-traffic` runs it and prints the failed requests of each kind of client in each state of the Ingresses.
package traffic
