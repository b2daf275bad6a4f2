// Package controller tests the router argoproj-labs/gatewayAPI with real components except Pods and Gateways: the Argo
// Rollouts controller, which starts the built plugin, a kube-apiserver with etcd, and the CustomResourceDefinitions of
// two versions of the Gateway API. The tests write what kubelets, the controllers of Kubernetes and a Gateway report.
package controller
