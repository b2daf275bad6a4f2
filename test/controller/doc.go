// Package controller tests the router argoproj-labs/gatewayAPI with everything real but Pods and Gateways: the Argo Rollouts controller, which starts the built
// plugin, a kube-apiserver with etcd, and the CustomResourceDefinitions of two versions of the Gateway API. What kubelets, the controllers of Kubernetes and a
// Gateway would report, the tests report in their place.
package controller
