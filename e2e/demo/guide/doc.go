// Package guide applies the canary guide's objects as the guide has them, and waits until the app answers: behind an
// Ingress whose backend the agent has turned to the proxies, or, in a cluster without KEDA, behind proxies and an
// HTTPScaledObject that are applied by hand.
package guide
