// Package plugin tests the built binary rollouts-plugin-kedify as the Argo Rollouts controller uses it: as a process of its own, over go-plugin's socket,
// net/rpc and gob, with a kubeconfig that leads to an API server.
package plugin
