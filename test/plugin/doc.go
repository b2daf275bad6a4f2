// Package plugin tests the built binaries of the routers as the Argo Rollouts controller uses them: as separate
// processes, over go-plugin's socket, net/rpc and gob, with a kubeconfig for an API server.
package plugin
