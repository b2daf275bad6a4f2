// Package guide applies the canary guide's objects unchanged and waits until the app responds. The agent points the
// Ingress at the proxies. In a cluster without KEDA the package applies the proxies and an HTTPScaledObject itself.
package guide
