// Package scenarios runs scenarios of Rollouts (steps, promotions, aborts, retries, changes of the Rollout and of the
// configuration) with the real Argo Rollouts controller, both built router plugins and a real API server, without Pods
// and without a data plane. It records every stored version of the routing objects, so that a wrong intermediate weight
// is detected, and prints a table of all of them.
package scenarios
