// Module helm pins Helm, which renders charts/kedify-http in tests.
module github.com/kedify/argo-rollouts-plugin/tools/helm

go 1.26.0
