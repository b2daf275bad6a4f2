// Package wrongsetups tests installations and Rollouts that are set up wrongly, on a real API server with the real Argo
// Rollouts controller and the built plugins: the message that a user sees, what `kubectl http-canary doctor` finds, the
// fix, and that the canary continues afterwards. Pods, proxies and Gateways are simulated.
package wrongsetups
