// Module gateway-api-v1.2.1 pins the Gateway API of the guide with the HTTPRoute my-app-route: there, rules have no names yet.
module github.com/kedify/argo-rollouts-plugin/localcluster/components/gateway-api-v1.2.1

go 1.26.0

require sigs.k8s.io/gateway-api v1.2.1
