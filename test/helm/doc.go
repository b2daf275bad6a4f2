// Package helm tests that the built helm installs, upgrades, rolls back and uninstalls the chart charts/kedify-http on
// a real etcd and kube-apiserver. No controller and no node run, so no Pod is created.
//
// The tests read the paths of the programs from the environment variables HELM_BIN, ETCD_BIN and KUBE_APISERVER_BIN;
// `make test-one PKG=./test/helm` provides them.
package helm
