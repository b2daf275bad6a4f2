// Package agent tests the built agent on a real API server with the CustomResourceDefinitions of KEDA, of Argo Rollouts
// and of this project. The agent runs as the ServiceAccount of config/agent. The tests apply the manifests of the
// guides unchanged.
//
// The tests need etcd and kube-apiserver. Their paths are in the environment variables ETCD_BIN and KUBE_APISERVER_BIN,
// which `make test-parts` sets. Without them the tests fail. No garbage collector runs, so only the agent deletes
// objects.
package agent
