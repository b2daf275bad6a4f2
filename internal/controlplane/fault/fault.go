// Package fault has a constant for each fault that e2e/suites/mutants builds into the interceptor. Without build tags
// all of them are false, and the compiler removes the code that they guard. The tags mutant,mutant_early_ack make
// EarlyACK true, and so on: a tag that does not exist does not compile.
package fault

type mutant int

const (
	none mutant = iota
	swappedEndpoints
	clusterBeforeRoute
	earlyACK
	briefWrongWeight
	unfinishedAbort
)

const (
	// SwappedEndpoints gives each of two backends the endpoints of the other one.
	SwappedEndpoints = active == swappedEndpoints
	// ClusterBeforeRoute deletes a cluster although routes use it.
	ClusterBeforeRoute = active == clusterBeforeRoute
	// EarlyACK reports that a proxy acknowledged an object when the proxy is only connected.
	EarlyACK = active == earlyACK
	// BriefWrongWeight publishes wrong weights for 300 ms before the right ones.
	BriefWrongWeight = active == briefWrongWeight
	// UnfinishedAbort leaves 5 % of the requests on the canary after its weights were removed.
	UnfinishedAbort = active == unfinishedAbort

	// SlowRoutes delays route updates, so that requests meet what ClusterBeforeRoute and EarlyACK break.
	SlowRoutes = ClusterBeforeRoute || EarlyACK
)
