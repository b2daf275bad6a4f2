// Package controller tests the router argoproj-labs/gatewayAPI with real components except Pods and Gateways: the Argo
// Rollouts controller, which starts the built plugin, a kube-apiserver with etcd, and the CRDs of two releases of the
// Gateway API. The tests report the status that kubelets, Kubernetes controllers and Gateways would report.
package controller
