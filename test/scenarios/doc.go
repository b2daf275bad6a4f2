// Package scenarios plays what happens to Rollouts (steps, promotions, aborts, retries, changes of mind and of configuration) with the real Argo Rollouts
// controller, both built router plugins and a real API server, without Pods and without a data plane. It records every version of the routing objects that was ever
// stored, so that a wrong weight in between is seen, and prints a table of all of them.
package scenarios
