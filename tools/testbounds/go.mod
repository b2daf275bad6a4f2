// Module testbounds type-checks the tests; what it needs for that is no part of the product.
module github.com/kedify/argo-rollouts-plugin/tools/testbounds

go 1.26.0

require golang.org/x/tools v0.51.0

require (
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
)
