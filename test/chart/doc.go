// Package chart tests the Helm chart charts/kedify-http with the built helm: with its default values it renders the
// objects of config, and other sets of values render the golden files in testdata.
//
// The tests read the path of helm from the environment variable HELM_BIN; `make test-one PKG=./test/chart` provides it.
package chart
