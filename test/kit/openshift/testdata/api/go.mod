// Pins the API of OpenShift whose CustomResourceDefinition the tests install: go mod download finds its files here.
// Nothing is compiled of it.
module github.com/kedify/argo-rollouts-plugin/test/kit/openshift/testdata/api

go 1.26.1

require github.com/openshift/api v0.0.0-20260501191448-a49973eaef53
