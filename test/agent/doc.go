// Package agent tests the built agent on a real API server, with the CustomResourceDefinitions of
// KEDA, of Argo Rollouts and ours, as the ServiceAccount of config/agent, and with the manifests of
// the guides as they are.
//
// The tests need etcd and kube-apiserver, whose paths are in the environment variables ETCD_BIN and
// KUBE_APISERVER_BIN; `make test-parts` provides them. Without them they fail. No garbage collector
// runs, so what disappears is what the agent deletes.
package agent
