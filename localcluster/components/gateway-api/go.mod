// Module gateway-api pins the Gateway API's CustomResourceDefinitions that Envoy Gateway is made for.
module github.com/kedify/argo-rollouts-plugin/localcluster/components/gateway-api

go 1.26.0

require sigs.k8s.io/gateway-api v1.6.1 // that of Envoy Gateway v1.9.1
