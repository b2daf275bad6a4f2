// Package autowire has the guide's objects behind a real Ingress controller, Traefik, and a real Gateway, Envoy
// Gateway's, under load: the agent points the Ingress and an HTTPRoute at the proxies and takes them back, whatever
// becomes of proxies and agents, and no request fails.
package autowire
