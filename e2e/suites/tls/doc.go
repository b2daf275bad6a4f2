// Package tls checks the connections to the interceptor on a cluster: its certificate is replaced during a canary under
// load, next to proxies without TLS in another namespace, and a strict fleet does not serve a proxy without a token.
package tls
