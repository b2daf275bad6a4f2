// Pins the KEDA whose CustomResourceDefinition the tests install: go mod download finds its files here. Nothing is
// compiled of it.
module github.com/kedify/argo-rollouts-plugin/test/agent/testdata/keda

go 1.26.1

require github.com/kedacore/keda/v2 v2.19.0
