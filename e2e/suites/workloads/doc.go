// Package workloads replaces workloads behind the proxies under load: a Deployment by a Rollout, with both methods of
// docs/how-to/deployment-to-rollout.md, and the active version of a blue-green Rollout.
package workloads
