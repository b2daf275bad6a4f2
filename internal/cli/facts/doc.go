// Package facts holds what was read of a cluster for a user's question about it: the Argo Rollouts
// controller and its configuration, the Rollouts with the routing objects that they name, the data path, KEDA.
//
// It has values only. Package gather reads them; packages such as doctor draw conclusions.
package facts
