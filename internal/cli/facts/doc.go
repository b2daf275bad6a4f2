// Package facts contains the state that was read from a cluster: the Argo Rollouts controller and its configuration,
// Rollouts with the routing objects that they reference, the data plane, and KEDA.
//
// It contains values only. Package gather reads them; packages such as doctor evaluate them.
package facts
