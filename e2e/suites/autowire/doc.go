// Package autowire runs the guide's objects behind a real Ingress controller, Traefik, and a real Gateway, that of
// Envoy Gateway, under load. The agent points the Ingress and an HTTPRoute at the proxies and reverts them, whatever
// happens to proxies and agents, and no request fails. Instead of Traefik, it can be Contour, or Istio's ingress gateway
// with a VirtualService. Clients in the cluster call a Service that the agent takes over.
package autowire
