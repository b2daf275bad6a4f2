// Package autowire has the guide's objects behind a real Ingress controller, Traefik, under load: the agent points
// the Ingress at the proxies and takes it back, whatever becomes of proxies and agents, and no request fails.
package autowire
