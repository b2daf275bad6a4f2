// Package plugin tests the built binaries of the routers as the Argo Rollouts controller uses them: as processes of their own, over go-plugin's socket,
// net/rpc and gob, with a kubeconfig that leads to an API server.
package plugin
